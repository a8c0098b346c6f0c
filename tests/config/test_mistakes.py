"""Tests wrong files, in `mistakes`: all messages about each file, with their places.

A case begins with '## NAME'. Its lines are those of test.ini. '@NAME' stands for the lines with
this name at the top, and '--- NAME' begins another file or an option. The expected messages follow
'>>>'.
"""

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ccmix.config import Config, ConfigError, Overrides, load

FOLDER = Path(__file__).parent / "mistakes"
OWN = "[one]\ntype = iperf3\ndst = 10.1.2.3\n"


def cases() -> Iterator[tuple[str, str, str]]:
    """Yields the name of each case, its input, and the expected messages."""
    for file in sorted(FOLDER.glob("*.txt")):
        top, *blocks = file.read_text().split("\n## ")
        shared = dict(re.findall(r"^@(\w+)\n((?:[^@].*\n)+)", top, re.MULTILINE))
        for block in blocks:
            name, _, rest = block.partition("\n")
            given, _, said = rest.partition(">>>\n")
            for word, lines in shared.items():
                given = re.sub(
                    rf"^@{word}\n", lines.replace("\\", r"\\"), given, flags=re.MULTILINE
                )
            yield f"{file.stem}: {name}", given, said


CASES = {name: (given, said) for name, given, said in cases()}


@pytest.mark.parametrize(("given", "said"), CASES.values(), ids=CASES)
def test_a_mistake_is_told_once_with_its_place(
    read: Callable[..., Config], tmp_path: Path, given: str, said: str
) -> None:
    text, *others = re.split("^--- ", given, flags=re.MULTILINE)
    more = {name: content for name, _, content in (other.partition("\n") for other in others)}
    options = {key: more.pop(key).strip() for key in ("nic", "netem_at") if key in more}
    files = {name.replace(".", "_"): content for name, content in more.items()}
    try:
        lines = [
            f"notice: {notice}"
            for notice in read(text, hosts=files.pop("hosts_csv", None), **options, **files).notices
        ]
    except ConfigError as error:
        lines = str(error).splitlines()
    assert [line.replace(f"{tmp_path}/", "") for line in lines] == said.splitlines()


LONG, BYTES_OF_LATIN_1 = "#" * 1_000_001, b"a\xff\n"
SWEEPS = f"sweep.streams = {','.join(map(str, range(1, 102)))}\niterations = 1000\n"


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("test.ini", b"# \xe9t\xe9\n", "test.ini:1: byte 0xe9 is not UTF-8"),
        ("test.ini", OWN + "pre = a\x07b\n", "4: [one] pre: 'a\ufffdb' has the control character"),
        ("test.ini", OWN + SWEEPS, "make 101000 runs"),
        ("test.ini", OWN + f"streams = {'9' * 5000}\n", f"'{'9' * 60}…' is not a whole number"),
        ("hosts.csv", BYTES_OF_LATIN_1, "hosts.csv:1: byte 0xff is not UTF-8"),
        ("hosts.csv", "hostname,site\na,\x1b[2J\n", "hosts.csv:2: is not a line of comma-separ"),
        ("hosts.csv", LONG, "hosts.csv: is longer than 1000000 bytes"),
        (
            "hosts.csv",
            "hostname\n" + "a" * 200_000,
            "hosts.csv:2: is not a line of comma-separated",
        ),
        ("profiles.yml", BYTES_OF_LATIN_1, "profiles.yml:1: byte 0xff is not UTF-8"),
        ("profiles.yml", "profiles: \x01", "has a character that YAML doesn't allow"),
        ("profiles.yml", "[" * 50_000, "profiles.yml: is not a file of profiles: too deep"),
        ("profiles.yml", LONG, "profiles.yml: is longer than 100000 bytes"),
    ],
)
def test_content_that_is_not_a_short_text(
    tmp_path: Path, file: str, content: str | bytes, said: str
) -> None:
    (tmp_path / "test.ini").write_text(OWN + "profile-file = profiles.yml\n")
    (tmp_path / "profiles.yml").write_text("profiles: {}\n")
    (tmp_path / file).write_bytes(content.encode() if isinstance(content, str) else content)
    hosts = tmp_path / "hosts.csv"
    began_s = time.process_time()
    with pytest.raises(ConfigError) as caught:
        load(tmp_path / "test.ini", overrides=Overrides(hosts if hosts.exists() else None))
    [line] = str(caught.value).splitlines()
    assert said in line
    assert line.isprintable()
    assert time.process_time() - began_s < 10
