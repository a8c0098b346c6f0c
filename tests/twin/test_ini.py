"""Tests the INI file of a twin: it can be read, has all known values, and sweeps unknown keys."""

from dataclasses import replace
from pathlib import Path

import pytest

from ccmix.config import Condition, load
from ccmix.model import Group, HostPath, Iperf3Source, Loss, Run, Topology, Traffic, UdpSource
from ccmix.model.real import Destination
from ccmix.twin.bottleneck import FIFO, MANAGED, PER_FLOW
from ccmix.twin.estimate import Estimate, Twin, cannot_be_told
from ccmix.twin.ini import ini
from support.model import with_groups

TOLD = {
    "rate": Estimate("rate", 50e6, 49e6, 51e6, origin="steps"),
    "base RTT": Estimate("base RTT", 0.02, 0.0199, 0.0201, origin="idle"),
    "cross traffic": Estimate("cross traffic", 0.0, 0.0, 1e6, origin="steps"),
    "buffer": Estimate("buffer", 125e3, 120e3, 130e3, origin="steps"),
    "queue": Estimate("queue", word="fifo", origin="steps"),
    "policer's burst": cannot_be_told("policer's burst", "it waited in a queue"),
    "random loss": Estimate("random loss", 0.001, 0.0008, 0.0012, origin="below"),
    "burst of losses": cannot_be_told("burst of losses", "each by itself"),
    "reordering": Estimate("reordering", 0.0, 0.0, 0.001, origin="below"),
    "receiver's window": cannot_be_told("receiver's window", "it did not limit", low=1e6),
    "MTU": Estimate("MTU", 1500.0, 1500.0, 1500.0, origin="sockets"),
    "ECN": Estimate("ECN", word="not negotiated", origin="sockets"),
}


class Finished:
    """Stands for a finished run; the file needs only its plan."""

    def __init__(self, cca: str, streams: int, condition: dict[str, str] | None = None) -> None:
        source = Iperf3Source("", "src", (Group(cca),), streams)
        traffic = Traffic((source,), 20.0, 2.0, 0.5)
        path = HostPath(
            "localhost",
            Destination("dtn.example.org", "dtn.example.org", "dtn.example.org"),
            "iperf3",
        )
        self.run = Run("tests", condition or {"cca": cca}, "dtn.example.org", 1, 1, traffic, path)


def read(tests: tuple[Finished, ...] = (), **changed: Estimate) -> list[Condition]:
    estimates = TOLD | {estimate.quantity: estimate for estimate in changed.values()}
    text = ini([Twin("dtn.example.org", tuple(estimates.values()), tests)])  # type: ignore[arg-type]
    return [
        condition
        for entry in load(Path("twin.ini"), text).entries
        for condition in entry.conditions
    ]


def topology(**changed: Estimate) -> Topology:
    path = read(**changed)[0].path
    assert isinstance(path, Topology)
    return path


def test_what_was_told_is_the_topology() -> None:
    path = topology()
    assert (path.rate_bps, path.base_rtt_s, path.buffer_bytes, path.mtu_bytes) == (
        50e6,
        0.02,
        125_000,
        1500,
    )
    assert path.queue.kind == "bfifo"
    assert path.senders[0].loss == Loss("random", (0.001,))


def test_bursts_are_those_of_a_gilbert_model() -> None:
    loss = topology(burst=Estimate("burst of losses", 5.0, 3.0, 8.0)).senders[0].loss
    assert loss is not None
    assert loss.model == "gemodel"
    assert loss.mean == pytest.approx(0.001, rel=0.01)


def test_the_tests_of_the_campaign_are_the_entries() -> None:
    conditions = read((Finished("cubic", 1), Finished("bbr", 8), Finished("cubic", 1)))
    sources = [condition.traffic.sources[0] for condition in conditions]
    assert [(source.groups[0].cca, source.streams) for source in sources] == [
        ("cubic", 1),
        ("bbr", 8),
    ]  # type: ignore[union-attr]
    assert {
        (condition.traffic.duration_s, condition.traffic.omit_s) for condition in conditions
    } == {(20, 2)}


def test_the_sweeps_of_the_campaign_are_kept() -> None:
    """So a condition has the same name on the path and on its twin, and each of them finds
    the other.
    """
    tests = tuple(
        Finished(cca, streams, {"cca": cca, "streams": str(streams)})
        for cca in ("cubic", "bbr")
        for streams in (1, 8)
    )
    conditions = read((*tests, *tests))
    assert [condition.values for condition in conditions] == [test.run.condition for test in tests]
    unknown = read(tests, buffer=cannot_be_told("buffer", "not full"))
    assert len(unknown) == 3 * 4
    assert {"cca", "streams", "buffer"} == set(unknown[0].values)


OTHERS = Estimate("cross traffic", 10e6, 9e6, 11e6, origin="steps")
OTHERS_OPEN = Estimate("cross traffic", 10e6, 0.0, None, origin="steps")


def test_beside_others_the_sweeps_of_the_campaign_are_kept() -> None:
    tests = tuple(
        Finished(cca, streams, {"cca": cca, "streams": str(streams)})
        for cca in ("cubic", "bbr")
        for streams in (1, 8)
    )
    conditions = read(tests, cross=OTHERS)
    assert [condition.values for condition in conditions] == [test.run.condition for test in tests]
    for condition, test in zip(conditions, tests, strict=True):
        assert (condition.traffic.groups, condition.traffic.streams) == (
            test.run.traffic.groups,
            test.run.traffic.streams,
        )
        assert [(source.name, source.kind) for source in condition.traffic.cross_traffic] == [
            ("others", "udp")
        ]


def test_beside_others_whose_rate_is_open_the_campaign_s_conditions_are_ranges() -> None:
    tests = (Finished("cubic", 1, {"cca": "cubic"}), Finished("bbr", 1, {"cca": "bbr"}))
    estimates = TOLD | {OTHERS_OPEN.quantity: OTHERS_OPEN}
    text = ini([Twin("dtn.example.org", tuple(estimates.values()), tests)])  # type: ignore[arg-type]
    [entry] = load(Path("twin.ini"), text).entries
    assert entry.unknown == ("flows.others",)
    assert [condition.values["cca"] for condition in entry.conditions] == ["cubic"] * 3 + [
        "bbr"
    ] * 3


def test_a_sweep_that_is_written_otherwise_than_the_twin_would_is_kept() -> None:
    """A file may have spaces between groups, and units of its own."""
    mixed = Finished("cubic", 16, {"cca": "cubic:8, bbr:8@2.4G", "duration": "20 s"})
    groups = Group("cubic", 8), Group("bbr", 8, pacing_bps=2.4e9)
    mixed.run = replace(mixed.run, traffic=with_groups(mixed.run.traffic, *groups))
    [condition] = read((mixed,), cross=OTHERS)
    assert condition.values == mixed.run.condition
    assert (condition.traffic.groups, condition.traffic.streams) == (groups, 16)


def test_a_sweep_of_words_that_say_something_else_is_none_of_the_twin() -> None:
    for value in ("bbr", "cubic:x", ""):
        assert [
            condition.values for condition in read((Finished("cubic", 1, {"cca": value}),))
        ] == [{}]


def test_a_part_of_a_sweep_makes_an_entry_of_each_test() -> None:
    tests = [
        Finished(cca, streams, {"cca": cca, "streams": str(streams)})
        for cca in ("cubic", "bbr")
        for streams in (1, 8)
    ]
    assert [condition.values for condition in read(tuple(tests[:3]))] == [{}, {}, {}]


def test_a_sweep_of_the_path_is_none_of_the_twin() -> None:
    """The twin has one delay, which was measured."""
    tests = tuple(Finished("cubic", 1, {"netem-lat": value}) for value in ("5", "20"))
    assert [condition.values for condition in read(tests)] == [{}]


@pytest.mark.parametrize("cross", [TOLD["cross traffic"], OTHERS], ids=["alone", "beside others"])
def test_without_tests_there_are_examples(cross: Estimate) -> None:
    values = [(cca, streams) for cca in ("cubic", "bbr") for streams in ("1", "16")]
    assert [
        (condition.values["cca"], condition.values["streams"]) for condition in read(cross=cross)
    ] == values


def test_a_campaign_of_the_lab_with_lines_of_flows_keeps_them() -> None:
    of_lab = Finished("cubic", 1, {"flows.test": "h1 cubic:4"})
    source = Iperf3Source("test", "h1", (Group("cubic", 4),), 4)
    of_lab.run = replace(of_lab.run, traffic=replace(of_lab.run.traffic, sources=(source,)))
    for cross, names in ((TOLD["cross traffic"], ["test"]), (OTHERS, ["test", "others"])):
        [condition] = read((of_lab,), cross=cross)
        assert condition.values == of_lab.run.condition
        assert sorted(source.name for source in condition.traffic.sources) == sorted(names)
        assert source in condition.traffic.sources


def test_a_buffer_that_is_not_known_is_swept() -> None:
    swept = {
        condition.values["buffer"]
        for condition in read(buffer=cannot_be_told("buffer", "not full"))
    }
    assert swept == {"0.1bdp", "0.3bdp", "1bdp"}
    bound = cannot_be_told("buffer", "it still grew", low=100e3)
    assert {condition.values["buffer"] for condition in read(buffer=bound)} == {
        "100000b",
        "300000b",
        "1000000b",
    }


@pytest.mark.parametrize("tests", [(), (Finished("cubic", 4),)])
def test_what_is_swept_is_named_unknown_and_runs_often_enough_for_intervals(
    tests: tuple[Finished, ...],
) -> None:
    bound = Estimate("random loss", high=0.002, unknown="flows lose, too")
    buffer = cannot_be_told("buffer", "not full")
    text = ini(
        [Twin("a", tuple((TOLD | {"buffer": buffer, "random loss": bound}).values()), tests)]
    )  # type: ignore[arg-type]
    for entry in load(Path("twin.ini"), text).entries:
        assert (entry.unknown, entry.iterations) == (("loss", "buffer"), 5)
        assert {condition.values["loss"] for condition in entry.conditions} == {"0%", "0.2%"}
    known = ini([Twin("a", tuple(TOLD.values()), tests)])  # type: ignore[arg-type]
    assert [entry.unknown for entry in load(Path("twin.ini"), known).entries] == [()]


@pytest.mark.parametrize("tests", [(), (Finished("cubic", 4),)])
def test_cross_traffic_is_udp_of_another_host(tests: tuple[Finished, ...]) -> None:
    cross = Estimate("cross traffic", 10e6, 9e6, 11e6, origin="steps")
    for condition in read(tests, cross=cross):
        udp = next(source for source in condition.traffic.sources if isinstance(source, UdpSource))
        assert udp.host == "others"
        assert udp.rate_bps * 1514 / 1472 == pytest.approx(10e6, rel=0.001)


@pytest.mark.parametrize(
    ("word", "kinds"), [(MANAGED, ["codel", "pie"]), (PER_FLOW, ["fq_codel"]), (FIFO, ["bfifo"])]
)
def test_the_queue_is_one_of_the_kind_that_shows(word: str, kinds: list[str]) -> None:
    """Nothing shows which algorithm manages a queue, so that those that differ most are a range."""
    paths = [condition.path for condition in read(queue=Estimate("queue", word=word))]
    assert (
        list(dict.fromkeys(path.queue.kind for path in paths if isinstance(path, Topology)))
        == kinds
    )


def test_a_rate_whose_interval_leaves_much_open_is_swept() -> None:
    wide = Estimate("rate", 50e6, 49e6, 100e6)
    assert {condition.values["rate"] for condition in read(rate=wide)} == {
        "50000kbit",
        "100000kbit",
    }
    bound = cannot_be_told("rate", "the load cap is below it", low=50e6)
    assert {condition.values["rate"] for condition in read(rate=bound)} == {
        "50000kbit",
        "100000kbit",
        "250000kbit",
    }


def test_beside_cross_traffic_a_rate_is_not_swept_alone() -> None:
    """The rate left, which is their difference, is known better than either."""
    wide = Estimate("rate", 50e6, 45e6, 60e6)
    cross = Estimate("cross traffic", 10e6, 5e6, 20e6)
    assert {condition.path.rate_bps for condition in read(rate=wide, cross=cross)} == {50e6}  # type: ignore[union-attr]


def test_a_policer_stands_before_a_faster_link() -> None:
    for condition in read(policer=Estimate("policer's burst", 100e3, 90e3, 110e3)):
        path = condition.path
        assert isinstance(path, Topology)
        assert path.policer is not None
        assert (path.policer.rate_bps, path.policer.burst_bytes) == (50e6, 100_000)
        assert path.rate_bps > 50e6


def test_a_window_that_limits_is_that_of_the_receiver() -> None:
    [sender] = topology(window=Estimate("receiver's window", 4e6, 3.6e6, 4.4e6)).senders
    assert sender.receiver_window_bytes == 4_000_000


def test_a_window_that_is_open_is_swept() -> None:
    conditions = read(window=Estimate("receiver's window", 4e6, 3.6e6, 4.1e6))
    values = [condition.values["receiver-window"] for condition in conditions]
    assert list(dict.fromkeys(values)) == ["4000000b", "3600000b", "4100000b"]


def cross(value: float, low: float, high: float | None) -> Estimate:
    return Estimate("cross traffic", value, low, high, origin="steps")


@pytest.mark.parametrize(
    ("others", "bps"),
    [
        (cross(10e6, 9e6, 11e6), [10e6]),
        (cross(10e6, 5e6, 11e6), [10e6, 5e6]),
        (cross(10e6, 0.0, None), [10e6, 0.0, 20e6]),
        (cross(0.0, 0.0, 10e6), [0.0, 10e6]),
        (cross(1e6, 0.0, None), [0.0]),
        (cross(1e6, 0.5e6, 1.5e6), [1e6]),
    ],
    ids=["told", "open below", "no upper end", "none seen", "perhaps none", "little"],
)
def test_others_are_a_source_whose_open_rate_is_swept(others: Estimate, bps: list[float]) -> None:
    payload_share = 1472 / 1514
    found = {}
    for condition in read((Finished("cubic", 1),), cross=others):
        sources = [source for source in condition.traffic.sources if isinstance(source, UdpSource)]
        found[sum(source.rate_bps for source in sources)] = None
    assert list(found) == pytest.approx([each * payload_share for each in bps], rel=1e-3)
