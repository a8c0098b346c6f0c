"""The man page: it has each command and option, and man finds nothing wrong with it."""

import re
import shutil
import subprocess
from pathlib import Path

import click
import pytest

from ccmix.cli.main import main
from ccmix.cli.man_page import ROOT, commands, help_text, page

OVERSTRUCK = re.compile(".\b")  # bold letters on a terminal without colours


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Returns the page as man shows it, with long lines."""
    if not shutil.which("man"):
        pytest.skip("THE MAN PAGE IS NOT TESTED: there is no man: run 'tools/setup --dev'")
    file = tmp_path_factory.mktemp("man") / "ccmix.1"
    file.write_text(page())
    environment = {
        "PATH": "/usr/bin:/bin",
        "MANWIDTH": "1000",
        "LC_ALL": "C.UTF-8",
        "MAN_KEEP_FORMATTING": "",
    }
    done = subprocess.run(
        ["man", "--warnings", "--local-file", file],
        check=True,
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.stderr == ""
    return OVERSTRUCK.sub("", done.stdout)


def section(shown: str, words: tuple[str, ...]) -> str:
    """Returns the section of the page on a command."""
    _, heading, behind = shown.partition(f"\n   {' '.join(words)}\n")
    assert heading, words
    return re.split(r"\n {0,3}\S", behind, maxsplit=1)[0]


def test_each_command_and_option(shown: str) -> None:
    every = list(commands(main))
    assert len(every) > 20
    for words, command in every:
        said = section(shown, words)
        context = click.Context(command, parent=ROOT)
        options = [
            parameter
            for parameter in command.get_params(context)
            if isinstance(parameter, click.Option)
        ]
        for option in (option for option in options if not option.hidden):
            assert re.search(rf"^ +{re.escape(option.opts[0])}\b", said, re.MULTILINE), (
                words,
                option.opts,
            )
            for name in option.opts:
                assert name in said
        if words == ("ccmix", "run"):
            assert (
                "           ccmix run my-test.ini -i eth0 -H hosts.csv  to each host of a list\n"
                in said
            )


def test_what_it_begins_and_ends_with(shown: str) -> None:
    assert (
        "\nNAME\n       ccmix - measure how TCP congestion control algorithms share a path\n"
        in shown
    )
    assert "\n       130    interrupted by the user\n" in shown


@pytest.mark.parametrize(
    "text", [".zip is a file", "'quoted'", r"a \\ b \n", "--option of `ccmix run`"]
)
def test_text_that_looks_like_a_macro(text: str, tmp_path: Path) -> None:
    command = click.Command("one", help=text)
    (tmp_path / "page.1").write_text("\n".join((".TH ONE 1", ".SH NAME", *help_text(command))))
    done = subprocess.run(
        ["groff", "-man", "-Tascii", "-P-cbou", "-ww", tmp_path / "page.1"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    assert f"       {text.replace('`', '')}\n" in done.stdout
