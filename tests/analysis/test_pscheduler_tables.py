"""Tests results of pScheduler's throughput test without iperf3's JSON."""

from typing import Any

import pytest

from ccmix.analysis.pscheduler_tables import pscheduler_flows, pscheduler_intervals
from ccmix.model import Group
from support.model import iperf3_traffic

TWO = iperf3_traffic((Group("cubic"), Group("bbr")), 2, 2.0, 1.0, 1.0)


def stream(identity: object, bits: float, **more: object) -> dict[str, Any]:
    return {
        "stream-id": identity,
        "throughput-bits": bits,
        "throughput-bytes": bits / 4,
        "start": 0,
        "end": 1,
    } | more


def result(*streams: dict[str, Any], **summary: object) -> dict[str, Any]:
    return {"succeeded": True, "summary": {"streams": list(streams), "summary": {}} | summary}


def test_streams_as_the_stock_tool_names_them() -> None:
    sums = {"throughput-bits": 100.0, "receiver-throughput-bits": 90.0}
    flows = pscheduler_flows(
        TWO, result(stream(5, 80.0, retransmits=3), stream(7, 20.0), summary=sums), "src"
    )
    assert flows.select(
        "port", "group", "cca_asked", "goodput_bps", "throughput_bps", "retransmits"
    ).rows() == [
        (0, "-", None, 72.0, 80.0, 3),
        (1, "-", None, 18.0, 20.0, None),
    ]


@pytest.mark.parametrize("keys", [("05:cubic:1", "07:bbr:2"), ("05", "07"), ()])
def test_streams_as_iperf3mix_names_them(keys: tuple[str, ...]) -> None:
    streams = (
        stream("05:cubic:1", 80.0, **{"receiver-throughput-bits": 79.0}),
        stream("07:bbr:2", 20.0, **{"receiver-throughput-bits": 19.0}),
    )
    flows = pscheduler_flows(
        TWO, result(*streams, congestion=dict(zip(keys, ("cubic", "bbr"), strict=False))), "src"
    )
    assert flows.select("group", "cca_asked", "cca_used", "goodput_bps").rows() == [
        ("cubic", "cubic", "cubic", 79.0),
        ("bbr", "bbr", "bbr", 19.0),
    ]


def test_the_sums_that_iperf3mix_adds_for_pschedulers_text_are_no_flows() -> None:
    streams = (stream("1:cubic:1", 80.0), stream("2:bbr:2", 20.0))
    sums = (stream("SUM:cubic:1", 80.0), stream("SUM:bbr:2", 20.0))
    assert pscheduler_flows(TWO, result(*streams, *sums), "src").equals(
        pscheduler_flows(TWO, result(*streams), "src")
    )


def test_groups_with_the_same_cca_are_told_apart_by_their_number_only() -> None:
    alike = iperf3_traffic((Group("bbr", pacing_bps=1e6), Group("bbr")), 2, 2.0, 0.0, 1.0)
    told = pscheduler_flows(alike, result(stream("1:bbr:1", 1.0), stream("2:bbr:2", 1.0)), "src")
    assert told["group"].to_list() == ["bbr@1000000", "bbr"]
    untold = pscheduler_flows(
        alike, result(stream(1, 1.0), stream(2, 1.0), congestion={"1": "bbr", "2": "bbr"}), "src"
    )
    assert untold["group"].to_list() == ["bbr", "bbr"]
    assert untold["cca_asked"].to_list() == [None, None]


def test_intervals_count_from_the_start_of_the_traffic() -> None:
    streams = (stream("1:cubic:1", 8.0, omitted=True), stream("2:bbr:2", 4.0, omitted=True))
    later = (stream("1:cubic:1", 8.0, omitted=False), stream("2:bbr:2", 4.0, omitted=False))
    whole = result(*streams) | {"intervals": [{"streams": list(streams)}, {"streams": list(later)}]}
    intervals = pscheduler_intervals(TWO, whole, pscheduler_flows(TWO, whole, "src"))
    assert intervals.select(
        "time_s", "seconds", "omitted", "port", "group", "goodput_bps"
    ).rows() == [
        (1.0, 1.0, True, 0, "cubic", 8.0),
        (1.0, 1.0, True, 1, "bbr", 4.0),
        (2.0, 1.0, False, 0, "cubic", 8.0),
        (2.0, 1.0, False, 1, "bbr", 4.0),
    ]
