"""Builds commands that start Python so that it imports only the standard library and ccmix.

Without Python's isolated mode (-I) it would also import from the working directory, whose files may
come from anybody, and from folders that the environment names
(https://docs.python.org/3/using/cmdline.html#cmdoption-I).
"""

import sys
from pathlib import Path

FOLDER = str(Path(__file__).parent.parent)  # of the package ccmix; in a guest an archive


def python_command(
    code: str,
    *arguments: object,
    python: str | Path = "python3",
    folder: str | None = None,
    site: bool = False,
) -> list[str]:
    """Returns the command line that runs `code` in an isolated Python, by default in the python3 of
    the host that runs the command.

    `arguments` become its sys.argv. `folder` is where ccmix is on the host that runs the command
    (None: the code does not import ccmix); `site` lets it also import installed packages.
    """
    imports = f"import sys; sys.path.insert(0, {folder!r}); " if folder else ""
    return [
        str(python),
        "-I",
        *([] if site else ["-S"]),
        "-c",
        imports + code,
        *map(str, arguments),
    ]


def module_command(
    module: str,
    *arguments: object,
    python: str | Path = sys.executable,
    folder: str | None = FOLDER,
    site: bool = False,
) -> list[str]:
    """Returns the command line that runs a module in an isolated Python, as `python -m` does.

    `arguments` become the arguments of the module. `folder` is where ccmix is on the host that runs
    the command; `site` lets the module also import installed packages.
    """
    code = f"import runpy; runpy.run_module({module!r}, run_name='__main__', alter_sys=True)"
    return python_command(code, *arguments, python=python, folder=folder, site=site)
