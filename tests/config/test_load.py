"""Files as people write them, right and wrong: what is loaded, and what is told about the mistakes."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ccmix.config import ConfigError, Entry, Problem, load
from ccmix.model import Buffer, Loss, RttProbe
from support import one_sender

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
    assert [entry.name for entry in entries] == ["all-cubic", "all-bbr", "all-bbr2", "mixed", "mixed-bbr2"]
    assert [(len(entry.conditions), entry.iterations) for entry in entries] == [(4, 3)] * 5
    assert [condition.traffic.group_names for condition in entries[3].conditions] == [("cubic", "bbr")] * 4
    assert [condition.traffic.group_names for condition in entries[4].conditions] == [("cubic", "bbr2")] * 4
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
    text = "[DEFAULT]\nduration = 20s\nmtu = 9000\nstreams = 3\n" + TOPOLOGY + ENTRY + "duration = 30s\n"
    [condition] = load_text(text)[0].conditions
    assert (condition.traffic.duration_s, condition.traffic.streams, condition.traffic.omit_s) == (30, 3, 0)
    assert (condition.path.mtu_bytes, condition.path.senders[0].loss) == (9000, None)


def test_probes_of_the_rtt(load_text: Load) -> None:
    [entry] = load_text(TOPOLOGY + ENTRY + "sweep.rtt-probe = none, icmp@10, TCP:22@1000\n")
    assert [one.traffic.rtt_probe for one in entry.conditions] == [None, RttProbe(10), RttProbe(1000, 22)]


# One mistake each: the text, and the section, key, line and part of the sentence that tell it.
MISTAKES = {
    "unknown key": (TOPOLOGY + ENTRY + "streems = 8\n", "one", "streems", 7, "did you mean 'streams'?"),
    "unknown key in DEFAULT": (
        "[DEFAULT]\ndurration = 5s\n" + TOPOLOGY + ENTRY, "DEFAULT", "durration", 2, "did you mean 'duration'?"
    ),
    "unknown key in topology": (TOPOLOGY + "lag = 1ms\n" + ENTRY, "topology dtn", "lag", 4, "known are ack-buffer"),
    "topology key in an entry": (TOPOLOGY + ENTRY + "mtu = 9000\n", "one", "mtu", 7, "write sweep.mtu"),
    "wrong value in DEFAULT": (
        "[DEFAULT]\nduration = 10\n" + TOPOLOGY + ENTRY + ENTRY.replace("one", "two"),
        "DEFAULT", "duration", 2, "'10' has no unit",
    ),
    "wrong value in topology": (
        TOPOLOGY + "loss = 1\n" + ENTRY, "topology dtn", "loss", 4, "'1' has no unit: write for instance 0.1%"
    ),
    "wrong sweep in DEFAULT": (
        "[DEFAULT]\nsweep.delay = 5ms, 6\n" + TOPOLOGY + ENTRY + ENTRY.replace("one", "two"),
        "DEFAULT", "sweep.delay", 2, "'6' has no unit",
    ),
    "unknown sweep in DEFAULT": (
        "[DEFAULT]\nsweep.lag = 5ms\n" + TOPOLOGY + ENTRY, "DEFAULT", "sweep.lag", 2, "sweeps an unknown key"
    ),
    "no unit": (TOPOLOGY + ENTRY + "duration = 10\n", "one", "duration", 7, "'10' has no unit: write for instance"),
    "unknown unit": (TOPOLOGY + ENTRY + "duration = 10x\n", "one", "duration", 7, "unknown unit 'x'"),
    "negative delay": (
        "[topology dtn]\nrate = 1gbit\ndelay = -5ms\n" + ENTRY, "topology dtn", "delay", 3, "'-5ms' is negative"
    ),
    "unknown CCA": (TOPOLOGY + ENTRY + "cca = cubik\n", "one", "cca", 7, "unknown CCA 'cubik'; did you mean 'cubic'?"),
    "CCA in capitals": (TOPOLOGY + ENTRY + "cca = BBR\n", "one", "cca", 7, "unknown CCA 'BBR'; did you mean 'bbr'?"),
    "unknown generator": (
        TOPOLOGY + "[one]\ntype = iperf4\ntopology = dtn\n", "one", "type", 5, "did you mean 'iperf3'?"
    ),
    "unknown limit": (TOPOLOGY + ENTRY + "accept-limits = rtt, los\n", "one", "accept-limits", 7, "mean 'loss'?"),
    "unknown that is not swept": (
        TOPOLOGY + ENTRY + "sweep.buffer = 1bdp, 2bdp\nunknown = bufer\n", "one", "unknown", 8, "mean 'buffer'?"
    ),
    "unknown without a sweep": (TOPOLOGY + ENTRY + "unknown = buffer\n", "one", "unknown", 7, "write sweep.buffer ="),
    "unknown that is studied": (
        TOPOLOGY + ENTRY + "sweep.cca = bbr, cubic\nunknown = cca\n", "one", "unknown", 8, "what is sent"
    ),
    "unknown twice": (
        TOPOLOGY + ENTRY + "sweep.buffer = 1bdp, 2bdp\nunknown = buffer, buffer\n", "one", "unknown", 8, "a key twice"
    ),
    "neither on nor off": (TOPOLOGY + "offloads = maybe\n" + ENTRY, "topology dtn", "offloads", 4, "write on or off"),
    "too many streams": (TOPOLOGY + ENTRY + "streams = 129\n", "one", "streams", 7, "from 1 to 128"),
    "number in other digits": (TOPOLOGY + ENTRY + "streams = ٣\n", "one", "streams", 7, "from 1 to 128"),
    "section twice": (TOPOLOGY + ENTRY + "[one]\nstreams = 2\n", "one", None, 7, "stands twice, first in line 4"),
    "indented section twice": (TOPOLOGY + ENTRY + "\n  [one]\n", "one", None, 8, "stands twice, first in line 4"),
    "key twice": (TOPOLOGY + ENTRY + "streams = 2\nSTREAMS = 3\n", "one", "streams", 8, "twice, first in line 7"),
    "topology twice": (
        TOPOLOGY + "[topology  dtn]\nrate = 1gbit\ndelay = 1ms\n" + ENTRY, "topology  dtn", None, 4, "a second topology"
    ),
    "topology without a name": (
        "[Topology]\nrate = 1gbit\ndelay = 1ms\n" + TOPOLOGY + ENTRY, "Topology", None, 1, "write [topology NAME]"
    ),
    "wrong sweep of a key that is needed": (
        NO_DELAY + ENTRY + "sweep.rtt = 20ms, quick\n", "one", "sweep.rtt", 6, "instance"
    ),
    "empty sweep of a key that is needed": (
        NO_DELAY + ENTRY + "sweep.delay = ,\n", "one", "sweep.delay", 6, "A, B"
    ),
    "empty sweep": (TOPOLOGY + ENTRY + "sweep.cca = ,\n", "one", "sweep.cca", 7, "write sweep.cca = A, B"),
    "sweep of one value twice": (TOPOLOGY + ENTRY + "sweep.cca = bbr, bbr\n", "one", "sweep.cca", 7, "a value twice"),
    "sweep of an unknown key": (TOPOLOGY + ENTRY + "sweep.dely = 1ms\n", "one", "sweep.dely", 7, "mean 'delay'?"),
    "sweep of what can't be": (TOPOLOGY + ENTRY + "sweep.type = iperf3\n", "one", "sweep.type", 7, "can't be swept"),
    "too many conditions": (
        TOPOLOGY + ENTRY + f"sweep.mtu = {','.join(map(str, range(1000, 2000)))}\n"
        f"sweep.streams = {','.join(map(str, range(1, 102)))}\n", "one", None, 4, "101000 runs",
    ),
    "not UTF-8": (TOPOLOGY.encode() + b"# \xe9t\xe9\n" + ENTRY.encode(), None, None, 4, "byte 0xe9 is not UTF-8"),
    "no section header": ("cca = cubic\n" + TOPOLOGY + ENTRY, None, None, 1, "before the first section"),
    "garbage": (TOPOLOGY + ENTRY + "what is this\n", None, None, 7, "'what is this' is neither [a section]"),
    "no key": (TOPOLOGY + ENTRY + "= 8\n", None, None, 7, "'= 8' is neither [a section]"),
    "empty": ("", None, None, None, "the file has no entry"),
    "only a topology": (TOPOLOGY, None, None, None, "the file has no entry"),
    "all disabled": (TOPOLOGY + ENTRY + "enabled = off\n", None, None, None, "no entry is enabled: set enabled = on"),
    "no rate": ("[topology dtn]\ndelay = 5ms\n" + ENTRY, "topology dtn", "rate", 1, "is missing: rate of"),
    "no delay, swept or not": ("[topology dtn]\nrate = 1gbit\n" + ENTRY, "topology dtn", "delay", 1, "is missing"),
    "no type": (TOPOLOGY + "[one]\ntopology = dtn\n", "one", "type", 4, "is missing: what makes the traffic"),
    "no topology": (TOPOLOGY + "[one]\ntype = iperf3\n", "one", None, 4, "names no path: write topology"),
    "name of a file of ours": (
        TOPOLOGY + ENTRY.replace("one", "report-charts"), "report-charts", None, 4, "choose another"),
    "name that no folder has": (
        TOPOLOGY + f"[{'x' * 81}]\ntype = iperf3\ntopology = dtn\n", "x" * 81, None, 4, "is too long"),
    "unknown topology": (TOPOLOGY + "[one]\ntype = iperf3\ntopology = dtm\n", "one", "topology", 6, "mean 'dtn'?"),
    "there is no topology": (ENTRY, "one", "topology", 3, "no section [topology dtn] in this file: there is none"),
    "more CCAs than streams": (TOPOLOGY + ENTRY + "cca = bbr,cubic\n", "one", "cca", 7, "2 groups, and"),
    "contradiction at one point of a sweep": (
        TOPOLOGY + ENTRY + "cca = bbr,cubic,reno\nsweep.streams = 4, 3, 2\n", "one", "cca", 7, "3 groups, and with"
    ),
    "contradiction of a swept value": (
        TOPOLOGY + ENTRY + "sweep.buffer = 1mb, 5gb\n", "one", "sweep.buffer", 7, "'5gb' comes to 5 GB: tbf holds"
    ),
    "BDP of no delay": (
        "[topology dtn]\nrate = 1gbit\ndelay = 0ms\n" + ENTRY, "topology dtn", "buffer", 1, "without delay is 0"
    ),
    "half seconds": (TOPOLOGY + ENTRY + "duration = 1.5s\n", "one", "duration", 7, "1.5s: iperf3 takes whole"),
    "two days": (TOPOLOGY + ENTRY + "duration = 48h\n", "one", "duration", 7, "86400 at most"),
    "omit of an hour": (TOPOLOGY + ENTRY + "omit = 1h\n", "one", "omit", 7, "600 at most"),
    "interval over duration": (
        TOPOLOGY + ENTRY + "duration = 1s\ninterval = 2s\n", "one", "interval", 8, "than duration"
    ),
    "buffer over 32 bits": (
        TOPOLOGY + "buffer = 5gb\n" + ENTRY, "topology dtn", "buffer", 4, "comes to 5 GB: tbf holds 4.29 GB"
    ),
    "probe without a rate": (TOPOLOGY + ENTRY + "rtt-probe = icmp\n", "one", "rtt-probe", 7, "instance icmp@10"),
    "probe too quick": (TOPOLOGY + ENTRY + "rtt-probe = icmp@1001\n", "one", "rtt-probe", 7, "1 to 1000 questions"),
    "probe of no port": (TOPOLOGY + ENTRY + "rtt-probe = tcp:65536@1\n", "one", "rtt-probe", 7, "is no probe"),
    "probe of iperf3": (TOPOLOGY + ENTRY + "rtt-probe = tcp:5201@1\n", "one", "rtt-probe", 7, "question for a test"),
    "value of several lines": (TOPOLOGY + ENTRY + "cca =\n  bbr\n  cubic\n", "one", "cca", 7, "CCA 'bbr cubic'"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "section", "key", "line", "sentence"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_told_once_with_its_place(
    problems: Problems, text: str | bytes, section: str | None, key: str | None, line: int | None, sentence: str
) -> None:
    [problem] = problems(text)
    assert (problem.section, problem.key, problem.line) == (section, key, line)
    assert sentence in str(problem)


def test_a_problem_names_file_line_section_and_key_in_one_line(problems: Problems, tmp_path: Path) -> None:
    [problem] = problems(TOPOLOGY + ENTRY + "streams = many\n")
    assert str(problem) == f"{tmp_path}/test.ini:7: [one] streams: 'many' is not a whole number from 1 to 128"


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file(problems: Problems) -> None:
    text = """\
[DEFAULT]
iterations = 0
[topology dtn]
rate = 1 gigabit
[one]
type = iperf3
topology = dtn
streams = 8
streams = 9
nonsense
[two]
type = iperf3
topology = other
cca = Vega
"""
    told = [(problem.line, problem.section, problem.key) for problem in problems(text)]
    assert told == [
        (2, "DEFAULT", "iterations"),
        (3, "topology dtn", "delay"),
        (4, "topology dtn", "rate"),
        (9, "one", "streams"),
        (10, "one", "nonsense"),
        (13, "two", "topology"),
        (14, "two", "cca"),
    ]


def test_a_long_wrong_value_is_cut(problems: Problems) -> None:
    [problem] = problems(TOPOLOGY + ENTRY + f"streams = {'9' * 5000}\n")
    assert "'" + "9" * 60 + "…' is not a whole number from 1 to 128" in str(problem)
    assert len(problem.message) < 200


@pytest.mark.parametrize(("name", "reason"), [("missing.ini", "No such file"), ("", "Is a directory")])
def test_a_file_that_cannot_be_read(tmp_path: Path, name: str, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path / name)
    assert str(caught.value) == f"{tmp_path / name}: can't be read: {caught.value.__cause__.strerror}"
    assert reason in str(caught.value)


def test_a_missing_required_key_of_a_topology_may_be_swept(load_text: Load) -> None:
    [entry] = load_text("[topology dtn]\nrate = 1gbit\n" + ENTRY + "sweep.delay = 1ms, 2ms\n")
    assert [condition.path.base_rtt_s for condition in entry.conditions] == pytest.approx([0.002, 0.004])


def test_a_sweep_over_lines_has_values_with_commas(load_text: Load) -> None:
    [entry] = load_text(TOPOLOGY + ENTRY + "streams = 2\nsweep.cca =\n  cubic\n  # a comment\n  cubic, bbr\n")
    assert [condition.traffic.group_names for condition in entry.conditions] == [
        ("cubic",),
        ("cubic", "bbr"),
    ]
    assert [condition.values for condition in entry.conditions] == [{"cca": "cubic"}, {"cca": "cubic, bbr"}]


def test_sweeps_multiply_in_the_order_of_the_file(load_text: Load) -> None:
    [entry] = load_text(TOPOLOGY + ENTRY + "sweep.loss = 0%, 1%\nsweep.streams = 1,2,3\n")
    points = [(condition.path.senders[0].loss, condition.traffic.streams) for condition in entry.conditions]
    lossy = Loss("random", (0.01,))
    assert points == [(None, 1), (None, 2), (None, 3), (lossy, 1), (lossy, 2), (lossy, 3)]


def test_unknown_keys_of_an_entry_are_swept_ones_in_its_order(load_text: Load) -> None:
    sweeps = "sweep.buffer = 1bdp, 2bdp\nsweep.loss = 0%, 1%\nsweep.cca = bbr, cubic\n"
    [entry] = load_text(TOPOLOGY + ENTRY + sweeps + "unknown = loss, buffer\n")
    assert (entry.unknown, len(entry.conditions)) == (("loss", "buffer"), 8)
    assert load_text(TOPOLOGY + ENTRY + sweeps)[0].unknown == ()


def test_an_inherited_sweep_varies_slowest(load_text: Load) -> None:
    [entry] = load_text("[DEFAULT]\nsweep.loss = 0%, 1%\n" + TOPOLOGY + ENTRY + "sweep.delay = 1ms, 2ms\n")
    assert [tuple(condition.values.values()) for condition in entry.conditions] == [
        ("0%", "1ms"), ("0%", "2ms"), ("1%", "1ms"), ("1%", "2ms"),
    ]  # fmt: skip


def test_a_sweep_is_inherited_and_overridden(load_text: Load) -> None:
    text = (
        "[DEFAULT]\nsweep.delay = 1ms, 2ms\n" + TOPOLOGY + ENTRY + ENTRY.replace("one", "two") + "sweep.delay = 7ms\n"
    )
    one, two = load_text(text)
    assert [condition.values["delay"] for condition in one.conditions] == ["1ms", "2ms"]
    assert [condition.path.senders[0].delay_s for condition in two.conditions] == pytest.approx([0.007])


def test_byte_order_mark_case_colons_line_ends_and_indentation(load_text: Load) -> None:
    text = "\ufeff[topology dtn]\r\nRATE: 1GBIT\r\n  Delay = 5 MS\r\n\r\n" + ENTRY + "\n  Streams : 4\n  cca = bbr\n"
    # an indented line after another key's line belongs to that key's value, so 'Delay' does not stand for itself here
    with pytest.raises(ConfigError, match="rate: '1GBIT Delay = 5 MS' is not a number"):
        load_text(text)
    [entry] = load_text(text.replace("  Delay", "Delay"))
    [condition] = entry.conditions
    assert (condition.traffic.streams, condition.traffic.group_names, condition.path.rate_bps) == (4, ("bbr",), 1e9)


def test_indented_keys_are_checked_like_others(problems: Problems) -> None:
    [problem] = problems(TOPOLOGY + "[one]\n  type = iperf3\n  topology = dtn\n  streems = 4\n")
    assert (problem.line, problem.key) == (7, "streems")


@pytest.mark.parametrize("name", ["a]b", "a=b", "a:b", "50%", "#1", "%(x)s", " padded ", "DEFAULTS", "über"])
def test_section_names_may_hold_any_character(load_text: Load, name: str) -> None:
    [entry] = load_text(TOPOLOGY + ENTRY.replace("one", name))
    assert entry.name == name


def test_a_colon_stays_part_of_a_value(problems: Problems) -> None:
    [problem] = problems(TOPOLOGY + ENTRY + "cca = a:b\n")
    assert "'a:b' has 'a:b', which is no CCA[:WEIGHT]" in problem.message


@pytest.mark.parametrize("value", ["a#b", "50%", "%(cca)s", "a=b", "a;b", "a ; b"])
def test_values_are_taken_as_they_are_written(problems: Problems, value: str) -> None:
    [problem] = problems(TOPOLOGY + ENTRY + f"cca = {value}\n")
    assert f"'{value}' has the unknown CCA '{value}'" in problem.message


def test_a_disabled_entry_is_left_out_but_checked(load_text: Load, problems: Problems) -> None:
    off = ENTRY.replace("one", "two") + "enabled = off\n"
    assert [entry.name for entry in load_text(TOPOLOGY + ENTRY + off)] == ["one"]
    assert [problem.key for problem in problems(TOPOLOGY + ENTRY + off + "streams = 0\n")] == ["streams"]
