"""Tests files as people write them, right and wrong: the loaded entries, and the messages about
mistakes.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from ccmix.config import ConfigError, Entry, Problem, load
from ccmix.model import Buffer, Loss, RttProbe
from support.model import one_sender

REPOSITORY = Path(__file__).parents[2]

TOPOLOGY = """\
[topology dtn]
rate = 1gbit
delay = 5ms
"""
NO_DELAY = TOPOLOGY.replace("delay = 5ms\n", "")
ENTRY = """\
[one]
type = iperf3
topology = dtn
"""

Load = Callable[[str | bytes], tuple[Entry, ...]]
Problems = Callable[[str | bytes], tuple[Problem, ...]]


@pytest.fixture
def load_text(tmp_path: Path) -> Load:
    def load_it(text: str | bytes) -> tuple[Entry, ...]:
        file = tmp_path / "test.ini"
        file.write_bytes(text.encode() if isinstance(text, str) else text)
        return load(file).entries

    return load_it


@pytest.fixture
def problems(load_text: Load) -> Problems:
    def problems_of(text: str | bytes) -> tuple[Problem, ...]:
        with pytest.raises(ConfigError) as caught:
            load_text(text)
        lines = str(caught.value).splitlines()
        assert len(lines) == len(caught.value.problems), "one line a problem"
        return caught.value.problems

    return problems_of


def test_the_demo_has_five_entries_of_four_conditions_three_times() -> None:
    entries = load(REPOSITORY / "configs" / "demo.ini").entries
    assert [entry.name for entry in entries] == [
        "all-cubic",
        "all-bbr",
        "all-bbr2",
        "mixed",
        "mixed-bbr2",
    ]
    assert [(len(entry.conditions), entry.iterations) for entry in entries] == [(4, 3)] * 5
    assert [condition.traffic.group_names for condition in entries[3].conditions] == [
        ("cubic", "bbr")
    ] * 4
    assert [condition.traffic.group_names for condition in entries[4].conditions] == [
        ("cubic", "bbr2")
    ] * 4
    assert [tuple(condition.values.items()) for condition in entries[0].conditions] == [
        (("delay", "5ms"), ("loss", "0%")),
        (("delay", "5ms"), ("loss", "0.1%")),
        (("delay", "44ms"), ("loss", "0%")),
        (("delay", "44ms"), ("loss", "0.1%")),
    ]
    assert entries[0].conditions[3].path == one_sender(
        rate_bps=1e9,
        name="dtn",
        delay_s=pytest.approx(0.044),
        loss=Loss("random", (0.001,)),
        buffer=Buffer(1.0, "bdp"),
        mtu_bytes=9000,
        offloads=False,
        spread=True,
    )


def test_values_come_from_the_entry_else_from_default_else_are_the_default(load_text: Load) -> None:
    text = (
        "[DEFAULT]\nduration = 20s\nmtu = 9000\nstreams = 3\n"
        + TOPOLOGY
        + ENTRY
        + "duration = 30s\n"
    )
    [condition] = load_text(text)[0].conditions
    assert (condition.traffic.duration_s, condition.traffic.streams, condition.traffic.omit_s) == (
        30,
        3,
        0,
    )
    assert (condition.path.mtu_bytes, condition.path.senders[0].loss) == (9000, None)


def test_probes_of_the_rtt(load_text: Load) -> None:
    [entry] = load_text(TOPOLOGY + ENTRY + "sweep.rtt-probe = none, icmp@10, TCP:22@1000\n")
    assert [one.traffic.rtt_probe for one in entry.conditions] == [
        None,
        RttProbe(10),
        RttProbe(1000, 22),
    ]


@pytest.mark.parametrize(
    ("name", "reason"), [("missing.ini", "No such file"), ("", "Is a directory")]
)
def test_a_file_that_cannot_be_read(tmp_path: Path, name: str, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path / name)
    assert (
        str(caught.value) == f"{tmp_path / name}: can't be read: {caught.value.__cause__.strerror}"
    )
    assert reason in str(caught.value)


def test_a_missing_required_key_of_a_topology_may_be_swept(load_text: Load) -> None:
    [entry] = load_text("[topology dtn]\nrate = 1gbit\n" + ENTRY + "sweep.delay = 1ms, 2ms\n")
    assert [condition.path.base_rtt_s for condition in entry.conditions] == pytest.approx(
        [0.002, 0.004]
    )


def test_a_sweep_over_lines_has_values_with_commas(load_text: Load) -> None:
    [entry] = load_text(
        TOPOLOGY + ENTRY + "streams = 2\nsweep.cca =\n  cubic\n  # a comment\n  cubic, bbr\n"
    )
    assert [condition.traffic.group_names for condition in entry.conditions] == [
        ("cubic",),
        ("cubic", "bbr"),
    ]
    assert [condition.values for condition in entry.conditions] == [
        {"cca": "cubic"},
        {"cca": "cubic, bbr"},
    ]


def test_sweeps_multiply_in_the_order_of_the_file(load_text: Load) -> None:
    [entry] = load_text(TOPOLOGY + ENTRY + "sweep.loss = 0%, 1%\nsweep.streams = 1,2,3\n")
    points = [
        (condition.path.senders[0].loss, condition.traffic.streams)
        for condition in entry.conditions
    ]
    lossy = Loss("random", (0.01,))
    assert points == [(None, 1), (None, 2), (None, 3), (lossy, 1), (lossy, 2), (lossy, 3)]


def test_unknown_keys_of_an_entry_are_swept_ones_in_its_order(load_text: Load) -> None:
    sweeps = "sweep.buffer = 1bdp, 2bdp\nsweep.loss = 0%, 1%\nsweep.cca = bbr, cubic\n"
    [entry] = load_text(TOPOLOGY + ENTRY + sweeps + "unknown = loss, buffer\n")
    assert (entry.unknown, len(entry.conditions)) == (("loss", "buffer"), 8)
    assert load_text(TOPOLOGY + ENTRY + sweeps)[0].unknown == ()


def test_an_inherited_sweep_varies_slowest(load_text: Load) -> None:
    [entry] = load_text(
        "[DEFAULT]\nsweep.loss = 0%, 1%\n" + TOPOLOGY + ENTRY + "sweep.delay = 1ms, 2ms\n"
    )
    assert [tuple(condition.values.values()) for condition in entry.conditions] == [
        ("0%", "1ms"),
        ("0%", "2ms"),
        ("1%", "1ms"),
        ("1%", "2ms"),
    ]


def test_a_sweep_is_inherited_and_overridden(load_text: Load) -> None:
    text = (
        "[DEFAULT]\nsweep.delay = 1ms, 2ms\n"
        + TOPOLOGY
        + ENTRY
        + ENTRY.replace("one", "two")
        + "sweep.delay = 7ms\n"
    )
    one, two = load_text(text)
    assert [condition.values["delay"] for condition in one.conditions] == ["1ms", "2ms"]
    assert [condition.path.senders[0].delay_s for condition in two.conditions] == pytest.approx(
        [0.007]
    )


def test_byte_order_mark_case_colons_line_ends_and_indentation(load_text: Load) -> None:
    text = (
        "\ufeff[topology dtn]\r\nRATE: 1GBIT\r\n  Delay = 5 MS\r\n\r\n"
        + ENTRY
        + "\n  Streams : 4\n  cca = bbr\n"
    )
    # an indented line after another key's line belongs to that key's value, so 'Delay' is not a
    # key here
    with pytest.raises(ConfigError, match="rate: '1GBIT Delay = 5 MS' is not a number"):
        load_text(text)
    [entry] = load_text(text.replace("  Delay", "Delay"))
    [condition] = entry.conditions
    assert (condition.traffic.streams, condition.traffic.group_names, condition.path.rate_bps) == (
        4,
        ("bbr",),
        1e9,
    )


@pytest.mark.parametrize(
    "name", ["a]b", "a=b", "a:b", "50%", "#1", "%(x)s", " padded ", "DEFAULTS", "über"]
)
def test_section_names_may_hold_any_character(load_text: Load, name: str) -> None:
    [entry] = load_text(TOPOLOGY + ENTRY.replace("one", name))
    assert entry.name == name


def test_a_disabled_entry_is_left_out_but_checked(load_text: Load, problems: Problems) -> None:
    off = ENTRY.replace("one", "two") + "enabled = off\n"
    assert [entry.name for entry in load_text(TOPOLOGY + ENTRY + off)] == ["one"]
    assert [problem.key for problem in problems(TOPOLOGY + ENTRY + off + "streams = 0\n")] == [
        "streams"
    ]
