"""Completion in shells: by the real bash with the script of `ccmix completion`, and by click's
answers to other shells.
"""

import os
import subprocess
from pathlib import Path

import pytest

from ccmix.cli.main import SHELLS
from support.commands import CCMIX, Ccmix

# Does what bash does at the key Tab after these words, with the function that the script has
# registered
TAB = """
source "$1"; shift
registered=($(complete -p ccmix)); compopt() { printf 'default %s\\n' "$2"; }
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
"${registered[-2]}" ccmix "${@: -1}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with INI files, archives and another file; the command is on PATH."""
    folder = tmp_path / "work"
    (folder / "results" / "share").mkdir(parents=True)
    (folder / "results" / "share" / "campaign.json").touch()
    (folder / "results" / "empty").mkdir()
    for name in ("share.ini", "short.ini", "notes.txt", "results/old.zip"):
        (folder / name).touch()
    kernels = tmp_path / "kernels"
    kernels.mkdir()
    (kernels / "mine").symlink_to("/bin/true")
    monkeypatch.setenv("CCMIX_LAB_KERNELS", str(kernels))
    monkeypatch.setenv("PATH", f"{Path(CCMIX).parent}:{os.environ['PATH']}")
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("pl", {"plan"}),
        ("cca lo", {"load"}),
        ("cca load ", {"bbr2", "bbr3"}),
        ("run --resu", {"--resume"}),
        ("plan sh", {"share.ini", "short.ini"}),
        ("run share.ini --lab -o ", {"default dirnames"}),
        ("plan n", {"default default"}),
        ("report results/", {"results/share", "results/old.zip"}),
        ("report results/share results/o", {"results/old.zip"}),
        ("report r", {"default default"}),
        ("archive unpack results/", {"results/old.zip"}),
        ("lab exec --kernel ", {"stock", "mine"}),
        ("init h", {"hosts"}),
    ],
)
def test_bash(words: str, completed: set[str], folder: Path) -> None:
    script = subprocess.run(
        [CCMIX, "completion", "bash"], check=True, capture_output=True, text=True
    )
    assert script.stderr == ""
    (folder.parent / "completion").write_text(script.stdout)
    argv = [
        "bash",
        "--norc",
        "-c",
        TAB,
        "bash",
        str(folder.parent / "completion"),
        "ccmix",
        *words.split(" "),
    ]
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    assert (set(filter(None, done.stdout.splitlines())), done.stderr) == (completed, "")


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_has_a_script(shell: str, ccmix: Ccmix) -> None:
    done = ccmix("completion", shell)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"_CCMIX_COMPLETE={shell}_complete" in done.stdout


def test_another_shell_is_refused(ccmix: Ccmix) -> None:
    done = ccmix("completion", "csh")
    assert (done.returncode, done.stdout) == (2, "")
    assert "'csh' is not one of 'bash', 'zsh', 'fish'" in done.stderr
