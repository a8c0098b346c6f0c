"""Turns the result of pScheduler's throughput test, by any tool, into a run's flows and intervals.

For results without iperf3's own JSON: they have no ports, and of the receiver often only the sum. Of ccmix's own tool,
iperf3mix, a stream is identified by 'ID:CCA:GROUP', the group counted from 1.
"""

from collections.abc import Mapping
from typing import Any

import polars as pl

from ccmix.analysis.iperf3_tables import FLOW_COLUMNS, INTERVAL_COLUMNS
from ccmix.model import Traffic

SUM_OF_GROUP = "SUM:"  # identifies what iperf3mix adds to the streams for pScheduler's text output


def read_flows(traffic: Traffic, throughput: Mapping[str, Any], host: str) -> pl.DataFrame:
    """Returns a row of FLOW_COLUMNS for each stream; `port` is the stream's number, counted from 0.

    Goodput is the receiver's rate of the stream; if the result lacks that, the sender's rate times the share of all
    streams' that the receiver got.
    """
    summary = throughput["summary"]
    got = _share_received(summary.get("summary", {}))
    rows = []
    streams = [stream for stream in summary["streams"] if not str(stream.get("stream-id")).startswith(SUM_OF_GROUP)]
    for number, stream in enumerate(streams):
        used, group = _cca_and_group(traffic, str(stream.get("stream-id")), summary.get("congestion", {}))
        received_bps = stream.get("receiver-throughput-bits")
        rows.append(
            {
                "host": host,
                "port": number,
                "stream": number,
                "group": used or "-" if group is None else traffic.group_names[group],
                "cca_asked": None if group is None else traffic.groups[group].cca,
                "cca_used": used,
                "goodput_bps": float(stream["throughput-bits"] * got if received_bps is None else received_bps),
                "throughput_bps": float(stream["throughput-bits"]),
                "retransmits": stream.get("retransmits"),
                "bytes_sent": int(stream.get("throughput-bytes") or 0),
                "begin_s": None if group is None else traffic.groups[group].delay_s,
            }
        )
    return pl.DataFrame(rows, schema=FLOW_COLUMNS)


def read_intervals(traffic: Traffic, throughput: Mapping[str, Any], flows: pl.DataFrame) -> pl.DataFrame:
    """Returns what the sender sent, per interval and stream, INTERVAL_COLUMNS."""
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


def _share_received(whole: Mapping[str, Any]) -> float:
    sent, received = whole.get("throughput-bits"), whole.get("receiver-throughput-bits")
    return received / sent if sent and received is not None else 1.0


def _cca_and_group(traffic: Traffic, identity: str, ccas: Mapping[str, str]) -> tuple[str | None, int | None]:
    """Returns a stream's CCA and group, as far as the result reports them."""
    bare, cca, number = (*identity.split(":"), "", "")[:3]
    used = ccas.get(identity) or ccas.get(bare) or cca or None
    if number.isdecimal() and 0 < int(number) <= len(traffic.groups):
        return used, int(number) - 1
    return used, _group(traffic, used)


def _group(traffic: Traffic, used: str | None) -> int | None:
    """Returns the group of a stream if its CCA identifies the group."""
    if len(traffic.groups) == 1:
        return 0
    alike = [number for number, group in enumerate(traffic.groups) if group.cca == used]
    return alike[0] if len(alike) == 1 else None
