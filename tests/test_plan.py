"""Tests how entries become runs, and derived values of runs and topologies."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccmix.archive.codec import Codec
from ccmix.config import Condition, Entry, load
from ccmix.model import (
    Buffer,
    Capture,
    Commands,
    CommandSource,
    Destination,
    Group,
    HostPath,
    ImportedSource,
    Iperf3Source,
    Loss,
    ModuleParameter,
    Netem,
    NetemPlace,
    Run,
    Traffic,
    UdpSource,
)
from ccmix.plan import RECEIVER, file_order, make_plan, named, span
from support.model import TOPOLOGY, iperf3_traffic, with_senders

DEMO = Path(__file__).parents[1] / "configs" / "demo.ini"
TRAFFIC = iperf3_traffic(
    groups=(Group("cubic"), Group("bbr")), streams=4, duration_s=10.0, omit_s=3.0, interval_s=0.5
)

RUN = Codec(Run)


def entry(
    name: str = "one", delays: int = 6, iterations: int = 4, order: str = "shuffled"
) -> Entry:
    conditions = [
        Condition({"delay": f"{delay}ms"}, with_senders(TOPOLOGY, delay_s=delay / 1000), TRAFFIC)
        for delay in range(1, delays + 1)
    ]
    return Entry(name, iterations, order, ("rtt",), tuple(conditions))


def seeds(runs: tuple[Run, ...], name: str = "one") -> dict[tuple[str, int], int]:
    return {
        (run.condition_name, run.iteration): run.seed
        for run in runs
        if run.entry == name and run.seed is not None
    }


def test_every_condition_in_every_iteration_once() -> None:
    runs = make_plan([entry(), entry("two", delays=2, iterations=1)], seed=1)
    assert Counter((run.entry, run.condition["delay"], run.iteration) for run in runs) == Counter(
        [("one", f"{delay}ms", iteration) for delay in range(1, 7) for iteration in range(1, 5)]
        + [("two", f"{delay}ms", 1) for delay in (1, 2)]
    )
    assert all(
        run.topology.senders[0].delay_s * 1000 == float(run.condition["delay"].removesuffix("ms"))
        for run in runs
    )
    assert {run.accept_limits for run in runs} == {("rtt",)}


def test_runs_by_their_names_keep_order_and_seed() -> None:
    runs = make_plan([entry()], seed=1)
    assert named(runs, [runs[5].name, runs[2].name]) == (runs[2], runs[5])
    assert named(runs, []) == runs
    with pytest.raises(KeyError, match="one delay=9ms #1"):
        named(runs, [runs[0].name, "one delay=9ms #1"])


def test_an_iteration_is_a_block_in_the_order_of_the_file() -> None:
    runs = make_plan([entry(delays=2, iterations=3, order="in-order")], seed=1)
    assert [(run.iteration, run.condition["delay"]) for run in runs] == [
        (1, "1ms"),
        (1, "2ms"),
        (2, "1ms"),
        (2, "2ms"),
        (3, "1ms"),
        (3, "2ms"),
    ]


def test_a_shuffled_block_is_a_permutation_that_differs_by_iteration_and_by_seed() -> None:
    def blocks(seed: int) -> list[list[str]]:
        runs = make_plan([entry()], seed)
        assert [run.iteration for run in runs] == sorted(run.iteration for run in runs)
        return [
            [run.condition["delay"] for run in runs if run.iteration == iteration]
            for iteration in range(1, 5)
        ]

    assert all(sorted(block) == [f"{delay}ms" for delay in range(1, 7)] for block in blocks(1))
    assert len({tuple(block) for block in blocks(1)}) > 1
    assert blocks(1) == blocks(1) != blocks(2)


def test_a_run_s_seed_does_not_depend_on_what_else_is_in_the_file() -> None:
    alone = seeds(make_plan([entry(delays=2, iterations=2)], seed=1))
    among = seeds(
        make_plan(
            [entry("zero"), entry(delays=6, iterations=4, order="in-order"), entry("two")], seed=1
        )
    )
    assert among.items() >= alone.items()
    assert len(set(among.values())) == len(among) == 24
    assert not set(alone.values()) & set(seeds(make_plan([entry()], seed=2)).values())
    assert not set(alone.values()) & set(seeds(make_plan([entry("two")], seed=1), "two").values())
    assert all(0 <= seed < 2**32 for seed in among.values())


def test_the_demo_s_plan() -> None:
    runs = make_plan(load(DEMO).entries, seed=1)
    assert runs == make_plan(load(DEMO).entries, seed=1)
    assert len(runs) == 5 * 4 * 3
    assert len({run.name for run in runs}) == len(runs)
    assert sum(run.seconds or 0 for run in runs) == 48 * 90 + 12 * 270


def test_a_run_survives_json() -> None:
    for run in make_plan([*load(DEMO).entries, entry()], seed=7):
        assert RUN.decode(json.dumps(RUN.encode(run)).encode()) == run


TEXT = st.text(max_size=12)
NUMBER = st.floats(0, 1e15)
LOSS = st.builds(
    Loss,
    st.sampled_from(["random", "gemodel"]),
    st.lists(st.floats(0.001, 1), min_size=1, max_size=4).map(tuple),
)
NETEM = st.builds(Netem, NUMBER, st.none() | LOSS, st.none() | st.integers(1), st.none() | NUMBER)
PATH = st.builds(
    HostPath,
    src=TEXT,
    dst=st.builds(
        Destination, TEXT, TEXT, TEXT, st.none() | TEXT, st.lists(st.tuples(TEXT, TEXT)).map(tuple)
    ),
    label=TEXT,
    commands=st.builds(Commands, *([st.none() | TEXT] * 7), st.booleans()),
    server=st.sampled_from(["ssh", "running"]),
    port=st.integers(1, 65535),
    nic=st.none() | TEXT,
    netem=st.none() | NETEM,
    netem_at=st.none() | st.builds(NetemPlace, TEXT, TEXT, st.none() | TEXT),
    profile=st.none() | NETEM,
    profile_device=st.none() | TEXT,
    module_parameter=st.none() | st.builds(ModuleParameter, TEXT, TEXT, st.none() | st.integers(1)),
    capture=st.none() | st.builds(Capture, st.lists(TEXT).map(tuple), st.integers(1)),
    mpstat_cores=st.none() | TEXT,
    timeout_s=st.none() | NUMBER,
    retries=st.integers(0),
    pause_s=NUMBER,
    rate_budget=st.none() | st.tuples(NUMBER, NUMBER),
    time_window=st.none() | st.tuples(NUMBER, NUMBER),
)
GROUPS = st.lists(
    st.builds(Group, TEXT, st.integers(1), st.none() | NUMBER, NUMBER), max_size=3
).map(tuple)
CONDITION = st.dictionaries(TEXT, TEXT, max_size=3)


SOURCE = st.one_of(
    st.builds(Iperf3Source, TEXT, TEXT, GROUPS, st.integers(0)),
    st.builds(UdpSource, TEXT, TEXT, NUMBER, st.integers(0)),
    st.builds(CommandSource, TEXT, TEXT, TEXT, st.booleans()),
    st.builds(ImportedSource, TEXT, TEXT, GROUPS, st.none() | st.integers(0)),
)
SOURCES = st.lists(SOURCE, min_size=1, max_size=3).map(tuple)


@given(
    CONDITION,
    PATH,
    st.builds(Traffic, SOURCES, st.none() | NUMBER, NUMBER, NUMBER, st.none() | NUMBER),
)
def test_any_run_between_hosts_survives_json(
    condition: dict[str, str], path: HostPath, traffic: Traffic
) -> None:
    run = Run("one", condition, path.dst.name, 3, 7, traffic, path, ("rtt",))
    assert RUN.decode(json.dumps(RUN.encode(run)).encode()) == run


def host_condition(values: dict[str, str], dst: str, **path: float) -> Condition:
    there = HostPath("localhost", Destination(dst, "10.0.0.1", "10.0.0.1"), "iperf3", **path)  # type: ignore[arg-type]
    return Condition(values, there, TRAFFIC)


@given(
    st.lists(
        CONDITION, min_size=1, max_size=4, unique_by=lambda values: tuple(sorted(values.items()))
    ),
    st.lists(TEXT, min_size=1, max_size=4, unique=True),
    st.integers(1, 4),
    st.sampled_from(["in-order", "shuffled"]),
    st.integers(0, 2**40),
)
def test_any_plan_has_each_condition_to_each_destination_in_each_iteration_once(
    conditions: list[dict[str, str]],
    destinations: list[str],
    iterations: int,
    order: str,
    seed: int,
) -> None:
    block = [host_condition(values, dst) for values in conditions for dst in destinations]
    one = Entry("one", iterations, order, (), tuple(block))
    runs = make_plan([one, entry("two", order=order)], seed)
    of_one = [run for run in runs if run.entry == "one"]
    assert list(runs[: len(of_one)]) == of_one, "entry after entry"
    expected = [(condition.values, condition.path.dst.name) for condition in block]  # type: ignore[union-attr]
    for iteration in range(1, iterations + 1):
        got = [(run.condition, run.dst) for run in of_one if run.iteration == iteration]
        assert sorted(map(repr, got)) == sorted(map(repr, expected))
        if order == "in-order":
            assert got == expected
    assert [run.iteration for run in of_one] == sorted(run.iteration for run in of_one)
    assert all(run.host_path.dst.name == run.dst for run in of_one)
    assert len({run.seed for run in of_one}) == len(of_one)
    assert runs == make_plan([one, entry("two", order=order)], seed)
    assert {run.dst for run in runs if run.entry != "one"} == {RECEIVER}


def test_the_seeds_of_a_topology_are_those_they_always_were() -> None:
    [run] = make_plan([entry(delays=1, iterations=1)], seed=1)
    assert run.seed == 0xB7F65C1B


def test_how_long_a_plan_takes() -> None:
    unknown = replace(TRAFFIC, duration_s=None, omit_s=0.0)
    paused = [
        host_condition({}, "a", pause_s=5.0),
        replace(host_condition({}, "b", pause_s=5.0), traffic=unknown),
    ]
    runs = make_plan(
        [Entry("one", 2, "in-order", (), tuple(paused)), entry(delays=1, iterations=1)], seed=1
    )
    assert (span(runs).runs, span(runs).seconds, span(runs).pauses_s, span(runs).unknown) == (
        5,
        39,
        15,
        2,
    )
    assert span([]).runs == 0


def test_bdp_and_rtt() -> None:
    assert TOPOLOGY.base_rtt_s == 0.010
    assert TOPOLOGY.bdp_bytes == 1_250_000  # 1e9 bit/s x 10 ms / 8


@pytest.mark.parametrize(
    ("amount", "kind", "size_bytes"),
    [
        (1, "bdp", 1_250_000),
        (0.5, "bdp", 625_000),
        (100_000, "byte", 100_000),
        (10, "packet", 15_140),
        (1, "packet", 1514),
        (0.1, "packet", 1514),
        (1, "byte", 1514),
        (0.001, "bdp", 1514),
    ],
)
def test_a_buffer_in_bytes_is_at_least_one_packet(
    amount: float, kind: Literal["byte", "packet", "bdp"], size_bytes: int
) -> None:
    assert replace(TOPOLOGY, buffer=Buffer(amount, kind)).buffer_bytes == size_bytes


@given(st.floats(1e3, 1e12), st.floats(1e-6, 10), st.floats(1e-3, 100))
def test_a_bdp_is_what_is_in_flight_in_a_base_rtt(
    rate_bps: float, delay_s: float, share: float
) -> None:
    topology = with_senders(
        replace(TOPOLOGY, rate_bps=rate_bps, buffer=Buffer(share, "bdp")), delay_s=delay_s
    )
    drained_s = topology.buffer_bytes * 8 / rate_bps
    assert (
        drained_s == pytest.approx(share * 2 * delay_s, abs=8 / rate_bps)
        or topology.buffer_bytes == 1514
    )


def test_each_run_knows_its_place_in_the_order_of_the_file() -> None:
    shuffled, in_order = (
        [entry(), entry("two")],
        [entry(order="in-order"), entry("two", order="in-order")],
    )
    runs, expected = make_plan(shuffled, seed=1), make_plan(in_order, seed=1)
    order = file_order(shuffled, runs)
    assert [run.name for run in runs] != [run.name for run in expected]
    assert [
        run.name for _, run in sorted(zip(order, runs, strict=True), key=lambda placed: placed[0])
    ] == [run.name for run in expected]
    assert file_order(in_order, expected) == ()
    some = runs[3:7]  # as --run selects them
    assert sorted(file_order(shuffled, some) or range(4)) == [0, 1, 2, 3]
