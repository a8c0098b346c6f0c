"""Tests that any file either loads or raises ConfigError with one line for each mistake."""

import contextlib
import tempfile
import time
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from ccmix.archive.campaign import RunFolder
from ccmix.config import ConfigError, Entry, load
from ccmix.config.keys import ENTRY_KEYS, TOPOLOGY_KEYS
from ccmix.model import HostPath, Topology
from ccmix.plan import make_plan

KEYS = [*ENTRY_KEYS, *TOPOLOGY_KEYS]
FRAGMENTS = st.sampled_from(
    [
        "",
        "0",
        "1",
        "-1",
        "+2",
        "0.1",
        "1e400",
        "nan",
        "inf",
        "-inf",
        "٣",
        "²",
        "9" * 400,
        "9" * 5000,
        "0." + "0" * 400,
        ".",
        "%",
        "1e3",
        "0x10",
        "1_000",
        "\n",
        "\n ",
        "\r",
        "\x1c",
        "\x85",
        "\u2028",
        "\x00",
        ",",
        ", ",
        "on",
        "iperf3",
        "dtn",
        "cubic",
        "bbr",
        "bit",
        "kbit",
        "gbit",
        "tbit",
        "us",
        "ms",
        "s",
        "h",
        "b",
        "kb",
        "gb",
        "gib",
        "p",
        "bdp",
        " ",
        "#",
        "=",
        ":",
        "[",
        "]",
        "rtt",
        "ſ",
        "{dst}",
        "{",
        "$(x)",
        ";",
        "'",
        '"',
        "-s",
        "-w",
        "iperf3 -c {dst}",
        "-t",
        "h1",
        "netns:",
        "user@",
        "eth0",
        "gemodel",
        "m/parameters/p",
        "sys-module-list",
        "sys-module-increment",
        "/day",
        "2TB",
        "01:00-05:00",
        " UTC",
        "../",
        "ssh",
        "all",
        "0-3",
        "::1",
        "10.0.0.1",
    ]
)
VALUES = st.lists(FRAGMENTS, max_size=4).map("".join)
SETTINGS = st.tuples(
    st.sampled_from(["", "sweep.", "Sweep.", "  "]), st.sampled_from([*KEYS, "", "x"]), VALUES
)
SECTION = st.tuples(
    st.sampled_from(
        [
            "[DEFAULT]",
            "[topology dtn]",
            "[topology ]",
            "[one]",
            "[two]",
            "[a]b]",
            " [x]",
            "[]",
            "[default]",
        ]
    ),
    st.lists(SETTINGS, max_size=6),
)
RIGHT = "[topology dtn]\nrate = 1gbit\ndelay = 1ms\n[one]\ntype = iperf3\ntopology = dtn\n"


HOST_RIGHT = "[one]\ntype = iperf3\ndst = 10.0.0.1\nnetem-at = n:a,b\n"
UNSAFE = set(" \t\n\r;|&$`'\"\\<>(){}*?!~#,/\x00")


def is_safe(path: HostPath) -> None:
    """Checks that values other than the user's own commands are safe as arguments and can't be
    options.
    """
    names = [
        path.src,
        path.dst.address,
        path.dst.host,
        path.nic,
        path.mpstat_cores and path.mpstat_cores.replace(",", ""),
    ]
    if path.netem_at:
        names += [path.netem_at.host, path.netem_at.data_device, path.netem_at.ack_device]
    for name in filter(None, names):
        assert not set(name) & UNSAFE
        assert not name.startswith("-")
    if path.module_parameter:
        assert not set(path.module_parameter.path.replace("/", "")) & UNSAFE
        assert ".." not in path.module_parameter.path
        int(path.module_parameter.value)


def loads_or_tells(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "any.ini")
        file.write_bytes(content)
        told: ConfigError | None = None
        began_s = time.process_time()
        entries: tuple[Entry, ...] = ()
        try:
            entries = load(file).entries
        except ConfigError as error:
            told = error
        assert time.process_time() - began_s < 10
        if told:
            assert told.problems
            assert len(str(told).splitlines()) == len(told.problems)
            return
        assert entries
        for entry in entries:
            assert entry.conditions
            for condition in entry.conditions:  # properties that a run will use
                if isinstance(condition.path, Topology):
                    assert condition.path.buffer_bytes >= condition.path.packet_bytes
                    assert condition.traffic.seconds > 0
                else:
                    is_safe(condition.path)
                    assert condition.traffic.seconds is None or condition.traffic.seconds > 0


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes(content: bytes) -> None:
    loads_or_tells(content)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=300))
@example("[a]b]\nx=1")
@example(" [a]\n x=1")
def test_any_text(text: str) -> None:
    loads_or_tells(text.encode(errors="replace"))


@settings(max_examples=120, deadline=None)
@given(st.lists(SECTION, max_size=5))
def test_any_sections_and_keys(sections: list[tuple[str, list[tuple[str, str, str]]]]) -> None:
    lines = [
        line
        for header, given_settings in sections
        for line in (header, *(f"{prefix}{key} = {value}" for prefix, key, value in given_settings))
    ]
    loads_or_tells("\n".join(lines).encode())


@settings(max_examples=120, deadline=None)
@given(st.sampled_from(KEYS), VALUES, st.booleans())
@example("duration", "9" * 400 + "s", False)
@example("rate", "9" * 400 + "gbit", True)
@example("rate", "9" * 400 + "gbit", False)
@example("buffer", "9" * 300 + "bdp", False)
@example("loss", "zzz", False)
def test_any_value_of_a_right_file(key: str, value: str, sweep: bool) -> None:
    default = f"[DEFAULT]\n{'sweep.' if sweep else ''}{key} = {value}\n"
    loads_or_tells((default + RIGHT).encode())
    own = f"{'sweep.' if sweep else ''}{key} = {value}\n"
    with contextlib.suppress(UnicodeEncodeError):
        loads_or_tells((RIGHT.replace(f"{key} = ", f"{key}x = ") + own).encode())
        loads_or_tells((default + HOST_RIGHT).encode())
        loads_or_tells((HOST_RIGHT.replace(f"{key} = ", "enabled = on\n#") + own).encode())


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40),
        min_size=1,
        max_size=4,
    ),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
)
@example(["../../x", "a/b", ".", ".."], "..")
@example(["x=1,y=2", "%2e%2e", "x" * 50], "a b")
def test_any_condition_and_alias_has_a_folder_of_its_own(commands: list[str], alias: str) -> None:
    lines = [" ".join(command.split()) for command in commands]
    text = (
        HOST_RIGHT
        + f"alias = {' '.join(alias.split())}\nsweep.pre-src-cmd =\n"
        + "".join(f"  {c}\n" for c in lines)
    )
    try:
        runs = make_plan(load(Path("any.ini"), text).entries, seed=1)
    except ConfigError:
        return
    folders = [RunFolder.of(Path("out"), run).path for run in runs]
    assert len(set(folders)) == len(folders)
    for folder in folders:
        out, _, condition, dst, _ = folder.parts
        assert out == "out"
        for name in (condition, dst):
            assert len(name.encode()) <= 255
            assert name not in (".", "..")
