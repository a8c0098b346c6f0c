"""Compares the results of a run with its raw files. Each function yields a sentence for each
difference.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from recomputed.bounds import Bounds, Counter, total
from recomputed.capture import Sent
from recomputed.expected import BOTTLENECK, Expected
from recomputed.raw import Connection, Flow, RawRun

IN_CSV = {
    "goodput_mean_bps": "goodput_bps",
    "retransmission_rate_mean": "retransmission_rate",
    "rtt_median_s": "rtt_median_s",
    "fair_share": "fair_share",
}
CLOCK_S = 2e-6  # how far two readings of one moment, each a float since 1970, may be apart


def metric_differences(raw: RawRun, right: Expected) -> Iterator[str]:
    shown = _shown(raw.shown["metrics"])
    for key, bounds in right.items():
        if key not in shown:
            yield f"{key}: not shown, right is {bounds or 'none'}"
        else:
            yield from _difference(key, shown[key], bounds)


def _difference(what: str, shown: float | None, right: Bounds | None) -> Iterator[str]:
    if not (shown is None if right is None else right.allows(shown)):
        yield (
            f"{what}: shows {'none' if shown is None else f'{shown:.7g}'}, right is "
            f"{right or 'none'}"
        )


def _shown(metrics: Mapping[str, Any]) -> dict[str, float | None]:
    """Returns the metrics of run.json by the keys of Expected."""
    found: dict[str, float | None] = {}
    for group in metrics["groups"]:
        found |= {f"groups/{group['group']}/{key}": value for key, value in group.items()}
    for flow in metrics["flows"]:
        found |= {
            f"flows/{flow['host']}:{flow['port']}/{key}": value for key, value in flow.items()
        }
    for source in metrics["completions"]:
        name = source["group"].partition("@")[0]
        found |= {
            f"completions/{name}@{source['host']}/{key}": value for key, value in source.items()
        }
    for name in ("bottleneck", "policer"):
        found |= {f"{name}/{key}": value for key, value in (metrics[name] or {}).items()}
    for trend in (metrics["settling"] or {"trends": []})["trends"]:
        if trend["quantity"] == "goodput":
            found[f"trends/{trend['group']}"] = trend["change"]
    return found | {
        key: value for key, value in metrics.items() if not isinstance(value, list | dict)
    }


def csv_differences(raw: RawRun, right: Expected, table: Iterable[str]) -> Iterator[str]:
    """Compares the rows of `ccmix report --format csv` of a condition with only one run."""
    run = raw.shown["run"]
    asked = {
        "entry": run["entry"],
        **{f"condition.{key}": value for key, value in run["condition"].items()},
    }
    rows = [row for row in csv.DictReader(table) if asked.items() <= row.items()]
    assert rows, f"no row of {asked}"
    for row in rows:
        if (row["runs"], row["invalid"]) == ("1", "0"):
            bounds = {
                column: right.get(f"groups/{row['group']}/{metric}")
                for column, metric in IN_CSV.items()
            }
            for column, bound in (bounds | {"fairness_mean": right["fairness"]}).items():
                yield from _difference(
                    f"{column} of {row['group']}",
                    float(row[column]) if row[column] else None,
                    bound,
                )


def series_differences(raw: RawRun) -> Iterator[str]:
    """Compares each row of the tables over time with the counters at its time."""
    yield from _intervals(raw)
    rows = raw.queue(BOTTLENECK)
    passed = Counter(rows["time_s"], rows["bytes"])
    queues = pl.read_parquet(raw.folder / "queues.parquet").filter(
        pl.col("place") == "bottleneck", pl.col("parent") == "root"
    )
    yield from _at(
        passed, queues["time_s"], queues["bytes"], "queues.parquet: bytes of the bottleneck"
    )
    if not (
        file := raw.folder / "sockets.parquet"
    ).exists():  # which has the sockets of flows with rows of their own
        return
    sockets = pl.read_parquet(file).filter(~pl.col("final"))
    for each in raw.connections:
        for end, socket in (("sender", each.sender), ("receiver", each.receiver)):
            counter = socket.counter("bytes_sent" if end == "sender" else "bytes_received")
            name = "bytes_sent" if end == "sender" else "bytes_received"
            own = sockets.filter(pl.col("cookie") == socket.cookie)
            yield from _at(
                counter,
                own["time_s"],
                own[name],
                f"sockets.parquet: {name} of {each.host}:{each.host_port}",
            )


def _at(
    counter: Counter, times_s: Iterable[float], values: Iterable[float], what: str
) -> Iterator[str]:
    for time_s, value in zip(times_s, values, strict=True):
        bounds = Bounds(counter.at(time_s - CLOCK_S).low, counter.at(time_s + CLOCK_S).high)
        if not bounds.allows(value):
            yield f"{what} at {time_s:.6f} s: {value}, right is {bounds}"
            return  # the others are wrong for the same reason


def _intervals(raw: RawRun) -> Iterator[str]:
    flows = {(flow.host, flow.port): flow for flow in raw.flows if flow.port and not flow.udp}
    if not (file := raw.folder / "intervals.parquet").exists():
        yield from ["intervals.parquet: none"] if raw.flows else []
        return
    borders = raw.borders_s(raw.interval_s)
    for (host, port), rows in pl.read_parquet(file).group_by("host", "port", maintain_order=True):
        if flow := flows.get((host, port)):  # type: ignore[arg-type]
            yield from _intervals_of(raw, flow, rows.to_dicts(), borders)


def _intervals_of(
    raw: RawRun, flow: Flow, rows: Sequence[dict[str, Any]], borders: Sequence[float]
) -> Iterator[str]:
    what = f"intervals.parquet of {flow.host}:{flow.port}"
    if not np.allclose([row["time_s"] for row in rows], borders[1:], rtol=0, atol=1e-6):
        yield (
            f"{what}: {len(rows)} intervals to {rows[-1]['time_s']} s, right are {len(borders) - 1}"
        )
        return
    counters = [each.receiver.counter("bytes_received") for each in flow.connections]
    for row, begin_s, end_s in zip(rows, borders, borders[1:], strict=False):
        right = total(counter.growth(begin_s, end_s) for counter in counters).wider(
            raw.path["mtu_bytes"]
        )
        if not right.allows(row["goodput_bps"] * row["seconds"] / 8):
            yield (
                f"{what} to {end_s:.6f} s: {row['goodput_bps'] * row['seconds'] / 8:.0f} "
                f"bytes, right is {right}"
            )
            return


def capture_differences(raw: RawRun) -> Iterator[str]:
    """Compares the probe's counters with the packets of a capture, which is independent of the
    probe.
    """
    addresses = {host: address for address, host in raw.facts["series"]["senders"].items()}
    for each in raw.connections:
        four = (addresses[each.host], each.host_port, *each.peer)
        if four in raw.captured:  # a control connection next to the path is not
            yield from _capture_of(
                raw, each, raw.captured[four], raw.captured[*four[2:], *four[:2]]
            )


def _capture_of(raw: RawRun, each: Connection, sent: Sent, back: Sent) -> Iterator[str]:
    what = f"capture of {each.host}:{each.host_port}"
    last = {
        name: each.sender.rows[name][-1] for name in ("data_segs_out", "retransmits", "bytes_sent")
    }
    pairs = {"data_segs_out": sent.packets, "retransmits": sent.again, "bytes_sent": sent.bytes}
    for name, captured in () if raw.refused else pairs.items():
        if last[name] != captured:
            yield f"{what}: {name} {last[name]:.0f}, packets say {captured}"
    acked = each.sender.counter("bytes_acked")
    for time_s, ack in back.acks:
        covered = (ack - (sent.first or 0)) % 2**32
        moment = time_s - raw.zero_s
        if (
            moment < each.sender.rows["time_s"][-2]
            and acked.at(moment + CLOCK_S).high + 1 < covered
        ):
            yield (
                f"{what} at {moment:.6f} s: {covered} bytes acknowledged, sockets say "
                f"{acked.at(moment)}"
            )
            return
