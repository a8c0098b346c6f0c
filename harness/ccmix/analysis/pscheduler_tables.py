"""Turns the results of pScheduler's throughput tests into tables of a run's flows and intervals.

The test may have used any tool. Results without iperf3's own JSON have no ports, and often only the
sum of the receiver. ccmix's own tool, iperf3mix, identifies a stream by 'ID:CCA:GROUP', with groups
counted from 1.
"""

from collections.abc import Mapping
from typing import Any

import polars as pl

from ccmix.analysis.iperf3_tables import FLOW_COLUMNS, INTERVAL_COLUMNS
from ccmix.model import Traffic

SUM_OF_GROUP = "SUM:"  # identifies what iperf3mix adds to the streams for pScheduler's text output


def pscheduler_flows(traffic: Traffic, throughput: Mapping[str, Any], host: str) -> pl.DataFrame:
    """Reads the flows from the result of pScheduler's throughput test. Returns FLOW_COLUMNS, a row
    for each stream; `port` is the stream's number, counted from 0, as such results have no ports.

    Goodput is the stream's rate at the receiver. If the result lacks it, it is the stream's rate at
    the sender times the share of the data of all streams that the receiver got.
    """
    summary = throughput["summary"]
    share_received = _share_received(summary.get("summary", {}))
    rows = []
    streams = [
        stream
        for stream in summary["streams"]
        if not str(stream.get("stream-id")).startswith(SUM_OF_GROUP)
    ]
    for number, stream in enumerate(streams):
        cca_used, group = _cca_and_group(
            traffic, str(stream.get("stream-id")), summary.get("congestion", {})
        )
        received_bps = stream.get("receiver-throughput-bits")
        rows.append(
            {
                "host": host,
                "port": number,
                "stream": number,
                "group": cca_used or "-" if group is None else traffic.group_names[group],
                "cca_asked": None if group is None else traffic.groups[group].cca,
                "cca_used": cca_used,
                "goodput_bps": float(
                    stream["throughput-bits"] * share_received
                    if received_bps is None
                    else received_bps
                ),
                "throughput_bps": float(stream["throughput-bits"]),
                "retransmits": stream.get("retransmits"),
                "bytes_sent": int(stream.get("throughput-bytes") or 0),
                "begin_s": None if group is None else traffic.groups[group].delay_s,
            }
        )
    return pl.DataFrame(rows, schema=FLOW_COLUMNS)


def pscheduler_intervals(
    traffic: Traffic, throughput: Mapping[str, Any], flows: pl.DataFrame
) -> pl.DataFrame:
    """Reads the sender's rates and retransmissions from the result of pScheduler's throughput test.
    Returns INTERVAL_COLUMNS, a row for each interval and stream.

    flows: as returned by pscheduler_flows()
    """
    rows = [
        {
            "time_s": stream["end"] + (0.0 if stream.get("omitted") else traffic.omit_s),
            "seconds": stream["end"] - stream["start"],
            "omitted": bool(stream.get("omitted")),
            "host": flows["host"][number],
            "port": number,
            "goodput_bps": float(stream["throughput-bits"]),
            "retransmits": stream.get("retransmits"),
            "group": flows["group"][number],
        }
        for interval in throughput.get("intervals", ())
        for number, stream in enumerate(interval.get("streams", ())[: flows.height])
    ]
    return pl.DataFrame(rows, schema=INTERVAL_COLUMNS)


def _share_received(totals: Mapping[str, Any]) -> float:
    """Returns the share of the sent data that the receiver got, from pScheduler's totals of all
    streams; 1 if the result does not say it.
    """
    sent, received = totals.get("throughput-bits"), totals.get("receiver-throughput-bits")
    return received / sent if sent and received is not None else 1.0


def _cca_and_group(
    traffic: Traffic, stream_id: str, ccas: Mapping[str, str]
) -> tuple[str | None, int | None]:
    """Returns the CCA of a stream in pScheduler's result, and the index of the stream's group in
    traffic.groups. Each is None if it is not known.

    stream_id: '5', or '5:bbr:2' from iperf3mix: the stream's ID, its CCA, and its group, counted
        from 1
    ccas: the CCAs that the result reports, by stream_id ('5:bbr:2') or only by the ID in it ('5')

    A CCA in `ccas` takes precedence over the one in `stream_id`.
    """
    number, cca, group = (*stream_id.split(":"), "", "")[:3]
    cca_used = ccas.get(stream_id) or ccas.get(number) or cca or None
    if group.isdecimal() and 0 < int(group) <= len(traffic.groups):
        return cca_used, int(group) - 1
    return cca_used, _group_of_cca(traffic, cca_used)


def _group_of_cca(traffic: Traffic, cca: str | None) -> int | None:
    """Returns the index of the group that uses this CCA. If there is only one group, it is that
    group, whatever its CCA. Returns None if several groups use the CCA, or none.
    """
    if len(traffic.groups) == 1:
        return 0
    matching = [index for index, group in enumerate(traffic.groups) if group.cca == cca]
    return matching[0] if len(matching) == 1 else None
