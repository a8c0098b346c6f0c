"""Tests lists of hosts as CSV: the hosts that are read, the messages about mistakes, and that any
bytes give one or the other.
"""

import tempfile
import time
from pathlib import Path

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
        'geneva,op@dtn.example.org,5ms,"100 Gbps, two",WAN\r\n  # '
        "none\n,2001:db8::1,,,\nshort,10.0.0.1 # its end\n"
    )
    assert hosts(tmp_path, text) == (
        HostRow(
            4,
            "geneva",
            "op",
            "dtn.example.org",
            "WAN",
            (("rtt", "5ms"), ("NIC_speed", "100 Gbps, two")),
        ),
        HostRow(6, "2001:db8::1", None, "2001:db8::1", None, (("rtt", ""), ("NIC_speed", ""))),
        HostRow(7, "short", None, "10.0.0.1", None, ()),
    )


def test_one_host_may_have_several_names(tmp_path: Path) -> None:
    rows = hosts(tmp_path, "hostname,alias\n127.0.0.1,hostA\n127.0.0.1,hostB\n")
    assert [(row.name, row.address) for row in rows] == [
        ("hostA", "127.0.0.1"),
        ("hostB", "127.0.0.1"),
    ]


def tells(error: ConfigError) -> None:
    assert error.problems
    assert len(str(error).splitlines()) == len(error.problems)


PARTS = st.sampled_from(
    [
        "hostname",
        "alias",
        "profile",
        ",",
        "\n",
        '"',
        "#",
        "a",
        "b.example.org",
        "::1",
        "%",
        "@",
        "-",
        ";",
        "$",
        " ",
        "\r",
        "\x00",
        "\x85",
        "\u2028",
        "9" * 300,
        "." * 300,
        "a." * 200,
        "ü",
        "٣",
    ]
)


@settings(max_examples=300, deadline=None)
@given(
    st.binary(max_size=300)
    | st.lists(PARTS, max_size=30).map(lambda parts: ("hostname," + "".join(parts)).encode())
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
