"""Whatever is in a file: it loads, or ConfigError says in one line for each mistake what is wrong. Nothing else."""

import contextlib
import tempfile
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from ccmix.config import ConfigError, Entry, load
from ccmix.config.keys import ENTRY_KEYS, TOPOLOGY_KEYS

KEYS = [*ENTRY_KEYS, *TOPOLOGY_KEYS]
FRAGMENTS = st.sampled_from(
    [
        "", "0", "1", "-1", "+2", "0.1", "1e400", "nan", "inf", "-inf", "٣", "²", "9" * 400, "9" * 5000,
        "0." + "0" * 400, ".", "%", "1e3", "0x10", "1_000", "\n", "\n ", "\r", "\x1c", "\x85", "\u2028", "\x00", ",",
        ", ", "on", "iperf3", "dtn", "cubic", "bbr", "bit", "kbit", "gbit", "tbit", "us", "ms", "s", "h", "b", "kb",
        "gb", "gib", "p", "bdp", " ", "#", "=", ":", "[", "]", "rtt", "ſ",
    ]
)  # fmt: skip
VALUES = st.lists(FRAGMENTS, max_size=4).map("".join)
SETTINGS = st.tuples(st.sampled_from(["", "sweep.", "Sweep.", "  "]), st.sampled_from([*KEYS, "", "x"]), VALUES)
SECTION = st.tuples(
    st.sampled_from(
        ["[DEFAULT]", "[topology dtn]", "[topology ]", "[one]", "[two]", "[a]b]", " [x]", "[]", "[default]"]
    ),
    st.lists(SETTINGS, max_size=6),
)
RIGHT = "[topology dtn]\nrate = 1gbit\ndelay = 1ms\n[one]\ntype = iperf3\ntopology = dtn\n"


def loads_or_tells(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "any.ini")
        file.write_bytes(content)
        told: ConfigError | None = None
        entries: tuple[Entry, ...] = ()
        try:
            entries = load(file).entries
        except ConfigError as error:
            told = error
        if told:
            assert told.problems
            assert len(str(told).splitlines()) == len(told.problems)
            return
        assert entries
        for entry in entries:
            for condition in entry.conditions:  # what a run will ask for
                assert condition.path.buffer_bytes >= condition.path.packet_bytes
                assert condition.traffic.seconds > 0


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
