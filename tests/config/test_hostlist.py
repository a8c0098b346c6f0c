"""Lists of hosts as CSV: what is read, what is told of mistakes, and that any bytes are one or the other."""

import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ccmix.config import ConfigError
from ccmix.config.hostlist import HostRow, read_hosts


def hosts(folder: Path, text: str | bytes) -> tuple[HostRow, ...]:
    file = folder / "hosts.csv"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_hosts(file)


def test_columns_comments_and_blank_lines(tmp_path: Path) -> None:
    text = (
        "\ufeff# hosts of today\r\n\r\nAlias, Hostname ,rtt,NIC_speed,profile # the header\r\n"
        'geneva,op@dtn.example.org,5ms,"100 Gbps, two",WAN\r\n  # none\n,2001:db8::1,,,\nshort,10.0.0.1 # its end\n'
    )
    assert hosts(tmp_path, text) == (
        HostRow(4, "geneva", "op", "dtn.example.org", "WAN", (("rtt", "5ms"), ("NIC_speed", "100 Gbps, two"))),
        HostRow(6, "2001:db8::1", None, "2001:db8::1", None, (("rtt", ""), ("NIC_speed", ""))),
        HostRow(7, "short", None, "10.0.0.1", None, ()),
    )


def test_one_host_may_have_several_names(tmp_path: Path) -> None:
    rows = hosts(tmp_path, "hostname,alias\n127.0.0.1,hostA\n127.0.0.1,hostB\n")
    assert [(row.name, row.address) for row in rows] == [("hostA", "127.0.0.1"), ("hostB", "127.0.0.1")]


def tells(error: ConfigError) -> None:
    assert error.problems
    assert len(str(error).splitlines()) == len(error.problems)


MISTAKES: dict[str, tuple[str | bytes, int | None, str]] = {
    "empty": ("", None, "has no host: write a header"),
    "only comments": ("# a\n\n", None, "has no host: write a header"),
    "only a header": ("hostname,alias\n", None, "has no host"),
    "no header": ("dtn.example.org\n", 1, "is no header: write the names of the columns"),
    "a column twice": ("hostname,rtt,rtt\na,1,2\n", 1, "names the column 'rtt' twice"),
    "no hostname": ("hostname,alias\n,x\n", 2, "hostname: is missing"),
    "two of a name": ("hostname,alias\na,x\nb\n\nc,x\n", 5, "'x' is also the name of line 2: give an alias"),
    "a host twice": ("hostname\na\na\n", 3, "'a' is also the name of line 2"),
    "too many fields": ("hostname,alias\na,b,c\n", 2, "has 3 fields, and the header 2"),
    "a shell line": ("hostname\na;reboot\n", 2, "hostname: 'a;reboot' is no host"),
    "a substitution": ("hostname\n$(id)\n", 2, "is no host"),
    "an option": ("hostname\n-oProxyCommand=id\n", 2, "is no host"),
    "a folder": ("hostname,alias\na,../b\n", 2, "alias: '../b' is no alias"),
    "an alias for a shell": ("hostname,alias\na,b`id`\n", 2, "is no alias"),
    "an open quotation mark": ('hostname\n"a\n', 2, "is not a line of comma-separated values"),
    "a control character": ("hostname,site\na,\x1b[2J\n", 2, "control character 0x1b"),
    "not UTF-8": (b"hostname\na\xff\n", 2, "byte 0xff is not UTF-8"),
    "too long": ("hostname\n" + "#" * 1_000_001, None, "is longer than 1000000 bytes"),
    "a long field": ("hostname\n" + "a" * 200_000 + "\n", 2, "field larger than field limit"),
}


@pytest.mark.parametrize(("text", "line", "sentence"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_told_with_its_line(tmp_path: Path, text: str | bytes, line: int | None, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        hosts(tmp_path, text)
    [problem] = caught.value.problems
    assert problem.line == line
    assert sentence in str(problem)
    assert "\x1b" not in str(problem)


def test_all_mistakes_are_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        hosts(tmp_path, "hostname\na b\nc\nd|e\n")
    assert [problem.line for problem in caught.value.problems] == [2, 4]


PARTS = st.sampled_from(
    ["hostname", "alias", "profile", ",", "\n", '"', "#", "a", "b.example.org", "::1", "%", "@", "-", ";", "$", " ",
     "\r", "\x00", "\x85", "\u2028", "9" * 300, "." * 300, "a." * 200, "ü", "٣"]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(
    st.binary(max_size=300) | st.lists(PARTS, max_size=30).map(lambda parts: ("hostname," + "".join(parts)).encode())
)
@example(b"hostname\n" + b"a" * 90_000)
@example(b"hostname\n" + b"a." * 45_000)
@example(b"hostname\n" + b'"' * 90_001)
def test_any_bytes(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        began_s = time.process_time()
        try:
            rows = hosts(Path(folder), content)
        except ConfigError as error:
            tells(error)
        else:
            assert rows
            for row in rows:
                assert not set(f"{row.user}{row.address}") & set(" \t\n;|&$`'\"\\<>(){}*?!~#,/")
                assert not row.address.startswith("-")
            assert len({row.name for row in rows}) == len(rows)
        assert time.process_time() - began_s < 5
