"""Tests the estimates from results without series, such as an imported table, and the twin made of
them.
"""

from pathlib import Path

import pytest

from ccmix.config import load
from ccmix.model import Destination, Group, HostPath, Run
from ccmix.model.results import FinishedRun
from ccmix.twin.estimate import Estimate
from ccmix.twin.result_estimates import estimates_of_results
from support.commands import Ccmix
from support.finished_runs import finished_run, group_metrics, metrics
from support.model import iperf3_traffic
from support.published_archives import TABLE_FILE

PATH = HostPath("localhost", Destination("far", "192.0.2.1", "far"), "iperf3")
TRAFFIC = iperf3_traffic((Group("cubic"),), 1, 10.0, 0.0, 1.0)
HOST = "btw-bw.t1.grid.kiae.ru"


def run(
    goodput_bps: float, rtt_s: float | None, retransmission_rate: float | None, **settings: str
) -> FinishedRun:
    groups = [
        group_metrics(
            "cubic",
            goodput_bps,
            rtt_median_s=rtt_s,
            retransmission_rate=retransmission_rate,
            streams=int(settings.get("streams", "1")),
        )
    ]
    planned = Run("table", settings, "far", 1, None, TRAFFIC, PATH)
    return finished_run(planned, metrics(groups), "unknown")


def estimate(quantity: str, *runs: FinishedRun) -> Estimate:
    return next(each for each in estimates_of_results(runs) if each.quantity == quantity)


RUNS = (
    run(500e6, 0.110, 0.001, streams="1"),
    run(600e6, 0.112, 0.003, streams="1"),
    run(900e6, 0.113, 0.002, streams="16"),
    run(800e6, 0.115, 0.004, streams="16"),
)


def test_bounds_are_no_values() -> None:
    rate, buffer, loss = (estimate(name, *RUNS) for name in ("rate", "buffer", "random loss"))
    assert (rate.value, rate.low, rate.high) == (900e6, 900e6, None)
    # the mean RTT of 16 flows is 114 ms, 4 ms above the smallest
    assert buffer.value is None
    assert buffer.low == pytest.approx(0.004 * 900e6 / 8)
    assert (loss.value, loss.low, loss.high) == (None, None, 0.001)
    assert buffer.unknown
    assert loss.unknown


def test_the_base_rtt_is_the_smallest_one() -> None:
    found = estimate("base RTT", *RUNS)
    assert (found.value, found.low, found.high) == (0.110, None, 0.110)
    assert estimate("base RTT", run(1e6, None, None)).value is None


def test_the_window_is_at_least_what_one_flow_had_on_its_way() -> None:
    assert estimate("receiver's window", *RUNS).low == pytest.approx(600e6 * 0.112 / 8)
    assert estimate("receiver's window", *RUNS[2:]).low is None


def single(cca: str, goodput_bps: float, rtt_s: float = 0.117, streams: int = 1) -> FinishedRun:
    group = group_metrics(cca, goodput_bps, rtt_median_s=rtt_s, streams=streams)
    return finished_run(
        Run("table", {}, "far", 1, None, TRAFFIC, PATH), metrics([group]), "unknown"
    )


WINDOW_LIMITS = (single("cubic", 267e6), single("bbr2", 277e6), single("cubic", 907e6, streams=16))


def test_single_flows_of_all_ccas_with_one_goodput_are_limited_by_a_window() -> None:
    """As those to psl01.pic.es in archive/tierney-2021-bost-40g.csv."""
    window = estimate("receiver's window", *WINDOW_LIMITS)
    assert window.value == window.high == pytest.approx(277e6 * 0.117 / 8)
    assert window.low == pytest.approx(267e6 * 0.117 / 8)


@pytest.mark.parametrize(
    "runs",
    [
        pytest.param((single("cubic", 200e6), *WINDOW_LIMITS[1:]), id="CCAs that differ"),
        pytest.param(WINDOW_LIMITS[:2], id="as much as any test"),
        pytest.param((*WINDOW_LIMITS[:1], *WINDOW_LIMITS[2:]), id="one CCA"),
    ],
)
def test_other_single_flows_show_no_window(runs: tuple[FinishedRun, ...]) -> None:
    assert estimate("receiver's window", *runs).value is None


def test_what_no_result_has_cannot_be_told() -> None:
    for found in estimates_of_results([run(0.0, None, None)]):
        assert not found.known
        assert found.unknown
    assert estimate("random loss", run(1e6, None, None)).high is None


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("table")
    head, *lines = TABLE_FILE.read_text().splitlines(keepends=True)
    (folder / "table.csv").write_text(
        head + "".join(line for line in lines if line.startswith(HOST))
    )
    arguments = ("--entry", "{dst}-{streams}", "--src", "bost-dtn.es.net", "-o", folder / "table")
    done = Ccmix(folder)("import", folder / "table.csv", *arguments)
    assert done.returncode == 0, done.stderr
    return folder / "table"


@pytest.mark.slow
def test_a_twin_of_an_imported_table_sweeps_what_it_leaves_open(
    imported: Path, ccmix: Ccmix
) -> None:
    ini = ccmix.folder / "twin.ini"
    done = ccmix("twin", imported, "-o", ini)
    assert done.returncode == 0, done.stderr
    assert f"{HOST}, 25 runs" in done.stdout
    entries = load(ini).entries
    assert [entry.name for entry in entries][:2] == [f"{HOST}-1", f"{HOST}-16"]
    assert len(entries) == 5
    for entry in entries:
        assert (entry.unknown, entry.iterations, len(entry.conditions)) == (
            ("loss", "buffer"),
            5,
            6,
        )
        assert [condition.values["loss"] for condition in entry.conditions[::3]] == [
            "0%",
            "0.072326%",
        ]
    ccas = {
        (condition.traffic.group_names, condition.traffic.streams)
        for condition in entries[1].conditions
    }
    assert ccas == {(("cubic",), 16)}
