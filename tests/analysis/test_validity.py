"""Tests the verdict: a hand-made run is valid, and one change in it shows each kind of limit."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from ccmix.analysis.tables import RunTables
from ccmix.analysis.validity.applied import Observed
from ccmix.analysis.validity.traffic_fields import pacing
from ccmix.model import (
    Capture,
    CaptureFacts,
    GuestRoot,
    LabKernel,
    Measurement,
    PathChange,
    QdiscCounters,
    Run,
    Traffic,
    UdpSource,
)
from ccmix.model.results import Verdict
from ccmix.probes.stream.format import CPU_TIMES
from ccmix.terms import LIMITS
from support.model import add_sources, judged, packet_train, with_senders

Qdiscs = tuple[QdiscCounters, ...]
Seen = tuple[RunTables, Measurement]
BBR_PORT = pl.col("port") == 40002
Change = Callable[[RunTables, Measurement], Seen]


def changed_measurement(**changed: Any) -> Change:
    return lambda tables, measurement: (tables, replace(measurement, **changed))


def changed_facts(**changed: Any) -> Change:
    return lambda tables, measurement: (
        tables,
        replace(measurement, facts=replace(measurement.facts, **changed)),
    )


def changed_after(**changed: Any) -> Change:
    """Changes the counters after the traffic; in dictionaries, only these keys."""

    def change(tables: RunTables, measurement: Measurement) -> Seen:
        after = {name: getattr(measurement.after, name) | value for name, value in changed.items()}
        return tables, replace(measurement, after=replace(measurement.after, **after))

    return change


def changed_probe(name: str, **changed: Any) -> Change:
    def change(tables: RunTables, measurement: Measurement) -> Seen:
        probes = measurement.facts.probes
        return changed_facts(probes=probes | {name: replace(probes[name], **changed)})(
            tables, measurement
        )

    return change


def changed_root(device: str, **changed: Any) -> Change:
    def change(tables: RunTables, measurement: Measurement) -> Seen:
        leaf, root = measurement.after.qdiscs[device]
        return changed_after(qdiscs={device: (leaf, replace(root, **changed))})(tables, measurement)

    return change


def changed_options(device: str, **changed: Any) -> Change:
    """Changes the options of a device's root that tc reports after the traffic; None removes an
    option.
    """

    def change(tables: RunTables, measurement: Measurement) -> Seen:
        _, root = measurement.after.qdiscs[device]
        left_out = [name for name, value in changed.items() if value is None]
        options = {
            name: value
            for name, value in (json.loads(root.options) | changed).items()
            if name not in left_out
        }
        return changed_root(device, options=json.dumps(options))(tables, measurement)

    return change


def throughout(device: str, **changed: Any) -> Change:
    """Changes the options of a device's root that tc reports, both before and after the traffic."""

    def change(tables: RunTables, measurement: Measurement) -> Seen:
        _, seen = changed_options(device, **changed)(tables, measurement)
        options = seen.after.qdiscs[device][1].options
        leaf, root = seen.before.qdiscs[device]
        before = seen.before.qdiscs | {device: (leaf, replace(root, options=options))}
        return tables, replace(seen, before=replace(seen.before, qdiscs=before))

    return change


def changed_state(**changed: Any) -> Change:
    """Changes the settings of every device that are read back after the traffic."""

    def change(tables: RunTables, measurement: Measurement) -> Seen:
        assert measurement.state_after
        devices = {
            place: replace(device, **changed)
            for place, device in measurement.state_after.devices.items()
        }
        return tables, replace(
            measurement, state_after=replace(measurement.state_after, devices=devices)
        )

    return change


def changed_test(**changed: Any) -> Change:
    """Changes iperf3's report about the test."""
    return lambda tables, seen: (
        replace(tables, tests={"h1": replace(tables.tests["h1"], **changed)}),
        seen,
    )


def with_series(tables: RunTables, **changed: pl.DataFrame) -> RunTables:
    return replace(tables, series=replace(tables.series, **changed))  # type: ignore[arg-type]


def changed_sockets(**columns: pl.Expr) -> Change:
    return lambda tables, seen: (
        with_series(tables, sockets=tables.series.sockets.with_columns(**columns)),
        seen,
    )


def changed_queues(**columns: pl.Expr) -> Change:
    return lambda tables, seen: (
        with_series(tables, queues=tables.series.queues.with_columns(**columns)),
        seen,
    )


def changed_flows(**columns: pl.Expr) -> Change:
    return lambda tables, seen: (replace(tables, flows=tables.flows.with_columns(**columns)), seen)


def with_a_busy_core(tables: RunTables, measurement: Measurement) -> Seen:
    """Makes core 1 of two work all the time except for 1%; its ticks count from long before the
    run.
    """
    rows = [
        {"time_s": float(second), "host": "localhost", "core": core}
        | dict.fromkeys(CPU_TIMES, 0.0)
        | {
            "user_s": 50 + busy * second,
            "softirq_s": 9 + 0.19 * second,
            "idle_s": 99 + (0.81 - busy) * second,
        }
        for second in range(6)
        for core, busy in ((0, 0.5), (1, 0.8))
    ]
    return with_series(tables, cpu=pl.DataFrame(rows)), measurement


def with_cores(*shares: Callable[[int], dict[str, float]]) -> Change:
    """Makes cores of host src spend their time as given for each second; in the rest of it they are
    idle.
    """

    def change(tables: RunTables, measurement: Measurement) -> Seen:
        rows = []
        for core, share in enumerate(shares):
            spent = dict.fromkeys(CPU_TIMES, 100.0)
            for second in range(6):
                rows.append({"time_s": float(second), "host": "src", "core": core} | spent)
                used = share(second)
                spent = {name: spent[name] + used.get(name, 0.0) for name in spent}
                spent["idle_s"] += 1 - sum(used.values())
        return with_series(tables, cpu=pl.DataFrame(rows)), measurement

    return change


def with_threads(
    share: float, threads: tuple[int, ...] = (100, 101), looked_into: bool = True
) -> Change:
    """Adds a process 100, whose last thread works for this share of the time."""

    def change(tables: RunTables, measurement: Measurement) -> Seen:
        rows = []
        for second in range(6):
            of_all = {
                "time_s": float(second),
                "host": "src",
                "name": "iperf3",
                "started_s": 7.0,
                "system_s": 0.0,
            }
            worked = 3 + share * second
            rows.append(
                of_all | {"pid": 100, "parent_pid": 9, "threads": len(threads), "user_s": worked}
            )
            rows += [
                of_all
                | {
                    "pid": pid,
                    "parent_pid": 100,
                    "threads": 0,
                    "user_s": worked if pid == threads[-1] else 0.0,
                }
                for pid in threads
                if looked_into
            ]
        return with_series(tables, processes=pl.DataFrame(rows)), measurement

    return change


def with_64_flows(busy_limited_s: float) -> Change:
    """Makes 64 flows; the receiver's window limits the flow of port 1000 for this many of 4
    seconds.
    """

    def change(tables: RunTables, measurement: Measurement) -> Seen:
        one = tables.sockets.filter(pl.col("port") == 40000)
        limited = (
            pl.when(pl.col("port") == 1000)
            .then(pl.col("time_s") * busy_limited_s / 4)
            .otherwise(0.0)
        )
        every = pl.concat(
            [one.with_columns(port=pl.lit(1000 + number, pl.Int64)) for number in range(64)]
        )
        flows = pl.concat(
            [tables.flows.head(1).with_columns(port=pl.lit(1000 + n, pl.Int64)) for n in range(64)]
        )
        sockets = every.with_columns(receiver_window_limited_s=limited)
        return replace(with_series(tables, sockets=sockets), flows=flows), measurement

    return change


def app_limited(samples: int) -> Change:
    """Marks this number of the 5 samples of port 40002 that count."""
    marked = BBR_PORT & (pl.col("time_s") > 5 - samples)
    return changed_sockets(app_limited=marked)


def of_a_command(**columns: pl.Expr) -> Change:
    """Turns flows into those of a user's command, which may send as little as it likes."""

    def change(tables: RunTables, measurement: Measurement) -> Seen:
        flows = tables.flows.with_columns(cca_asked=pl.lit(None, pl.String))
        return changed_sockets(**columns)(replace(tables, flows=flows), measurement)

    return change


def changed_starts(used_s: float, *ports: int) -> Change:
    rows = [{"host": "h1", "port": port, "asked_s": 0.002, "used_s": used_s} for port in ports]
    starts = pl.DataFrame(rows)
    return lambda tables, seen: (replace(tables, starts=starts), seen)


def captured(**packets: int) -> Change:
    counts = {"received by filter": 1000} | {
        name.replace("_", " "): count for name, count in packets.items()
    }
    return changed_facts(capture=CaptureFacts(counts, complete=True, bytes=1))


def with_drops_of_flow_limit(tables: RunTables, measurement: Measurement) -> Seen:
    rows = [
        {
            "time_s": float(second),
            "place": "sender-queue",
            "queue": queue,
            "flow_limit_drops": drops,
        }
        for second, drops in ((0, 100), (3, 101))
        for queue in (1, 2)
    ]
    queues = pl.concat([tables.series.queues, pl.DataFrame(rows)], how="diagonal")
    return changed_root("sender-queue", drops=9)(with_series(tables, queues=queues), measurement)


def with_a_leaf(tables: RunTables, measurement: Measurement) -> Seen:
    """Gives the bottleneck codel with the same buffer: 826 packets are 1,250,000 bytes."""
    leaf, root = measurement.after.qdiscs["bottleneck"]
    codel = replace(leaf, kind="codel", parent="1:1", options='{"limit": 826}')
    return changed_after(qdiscs={"bottleneck": (codel, root)})(tables, measurement)


def with_parameter(tables: RunTables, measurement: Measurement) -> Seen:
    assert measurement.state_after
    after = replace(measurement.state_after, parameters={"tcp_bbr2/parameters/beta": "5"})
    return tables, replace(measurement, state_after=after)


def without_sockets_of_bbr(tables: RunTables, measurement: Measurement) -> Seen:
    return with_series(tables, sockets=tables.sockets.filter(pl.col("port") == 40000)), measurement


PACKET_S = 1514 * 8 / 1e9  # at 1 Gbit/s


def few_samples(tables: RunTables, measurement: Measurement) -> Seen:
    last = pl.col("time_s") == pl.col("time_s").max().over("port")
    return with_series(tables, sockets=tables.sockets.filter(last)), measurement


def late(column: str) -> pl.Expr:
    """Adds 0.17 s in the last sample of port 40000; 2% of the 8 s for which both flows were busy
    are 0.16 s.
    """
    return (
        pl.when((pl.col("time_s") == 5) & (pl.col("port") == 40000))
        .then(0.17)
        .otherwise(pl.col(column))
    )


def begins_at_1_s(column: str) -> Change:
    """Limits each flow in the first half second of its time, which begins with the measured
    time.
    """

    def change(tables: RunTables, measurement: Measurement) -> Seen:
        own = tables.series.sockets.filter(pl.col("time_s") >= 1)
        early = own.filter(pl.col("time_s") == 1).with_columns(pl.col("time_s") + 0.5)
        since = pl.col("time_s") > 1
        limited = (
            pl.concat([own, early])
            .sort("time_s")
            .with_columns(pl.when(since).then(0.6).otherwise(0.0).alias(column))
        )
        return with_series(tables, sockets=limited), measurement

    return change


def shaper_that_counts_too_much(tables: RunTables, measurement: Measurement) -> Seen:
    """Gives the shaper a backlog that has drifted to 3000 B above that of the queue in it."""
    leaf = tables.series.queues.with_columns(parent=pl.lit("1:1"))
    more = pl.col("backlog_bytes", "least_backlog_bytes") + 3000
    return with_series(
        tables, queues=pl.concat([tables.series.queues.with_columns(more), leaf])
    ), measurement


def with_a_policer(tables: RunTables, measurement: Measurement) -> Seen:
    _, root = qdiscs = measurement.after.qdiscs["bottleneck"]
    clsact = replace(root, kind="clsact", handle="ffff:", parent="ffff:fff1", options="{}")
    return changed_after(qdiscs={"bottleneck": (*qdiscs, clsact)})(tables, measurement)


NETSTAT = "TcpExt: SyncookiesSent TCPMemoryPressures TCPX\nTcpExt: 1 6 0\n"

# what is changed, the kind of limit, and part of its sentence
FINDINGS: dict[str, tuple[Change, str, str]] = {
    "CCA by iperf3": (
        changed_flows(cca_used=pl.Series(["cubic", "cubic"])),
        "cca",
        "port 40002 was to run bbr but ran",
    ),
    "CCA by ss": (
        changed_sockets(cca=pl.when(BBR_PORT).then(pl.lit("reno")).otherwise("cca")),
        "cca",
        "port 40002 was to run bbr",
    ),
    "CCA for a while": (
        changed_sockets(
            cca=pl.when(BBR_PORT & (pl.col("time_s") > 4)).then(pl.lit("reno")).otherwise("cca")
        ),
        "cca",
        "port 40002",
    ),
    "CCA of unseen socket": (without_sockets_of_bbr, "cca", "none that the probe saw"),
    "kernel": (
        changed_facts(lab_kernel=LabKernel("mine", "0" * 64, "7.2.12-mine")),
        "kernel",
        "the guest was started with mine, configured: stock",
    ),
    "guest's root": (
        changed_facts(guest_root=GuestRoot(None, repeatable_elsewhere=False)),
        "host-root",
        "the guest had this machine's file system, configured: the lab's userland",
    ),
    "module's parameter": (
        with_parameter,
        "parameter",
        "tcp_bbr2/parameters/beta was set to 5, configured: nothing",
    ),
    "offloads": (
        changed_state(offloads=("generic-segmentation-offload",)),
        "offloads",
        "on are generic-segmentation-offload of ccmix-h1/eth0 and 2 more",
    ),
    "long ping": (
        changed_measurement(ping_rtt_s={"h1": (0.0103, 0.0104)}),
        "rtt",
        "ping sees 10.3 ms, configured",
    ),
    "short ping": (
        changed_measurement(ping_rtt_s={"h1": (0.0097, 0.0101)}),
        "rtt",
        "ping sees 9.7 ms",
    ),
    "no ping": (changed_measurement(ping_rtt_s={"h1": ()}), "rtt", "ping sees"),
    "short RTT of sockets": (
        changed_sockets(min_rtt_s=pl.lit(0.0097)),
        "rtt",
        "the sockets see 9.7 ms",
    ),
    "whole RTT of sockets": (
        changed_sockets(min_rtt_s=pl.lit(0.008)),
        "rtt",
        "the sockets see 8 ms",
    ),
    # 10 packets of 1514 bytes take 0.12 ms at 1 Gbit/s
    "long RTT of sockets": (
        changed_sockets(min_rtt_s=pl.lit(0.01033)),
        "rtt",
        "the sockets see 10.33 ms",
    ),
    "no RTT of sockets": (
        changed_sockets(min_rtt_s=pl.lit(None, pl.Float64)),
        "rtt",
        "no minimum RTT",
    ),
    "fast bottleneck": (
        changed_queues(bytes=(pl.col("bytes") * 1.011).cast(pl.Int64)),
        "rate",
        "passed 1.01 Gbit/s, configured:",
    ),
    # 197 packets take 2.386 ms; 1% and 20 us more are tolerated
    "slow train": (
        changed_measurement(train_s=packet_train(1.03 * PACKET_S)),
        "rate",
        "a train passed at 971",
    ),
    "fast train": (
        changed_measurement(train_s=packet_train(0.97 * PACKET_S)),
        "rate",
        "a train passed at 1.03",
    ),
    "too much loss": (
        changed_root("data-delay", drops=1205),
        "loss",
        "netem lost 1200 of 1000200 packets (0.12%)",
    ),
    "too little loss": (
        changed_root("data-delay", drops=805),
        "loss",
        "netem lost 800 of 999800 packets (0.08%)",
    ),
    "no packet": (
        changed_root("data-delay", packets=20, drops=5),
        "loss",
        "no packet passed netem",
    ),
    "loss on return": (
        changed_root("ack-delay", drops=7),
        "netem-limit",
        "netem dropped 1 packets on the way back",
    ),
    "large buffer": (changed_options("bottleneck", lat=9976 + 3), "buffer", "the kernel has"),
    "small buffer": (changed_options("bottleneck", lat=9976 - 3), "buffer", "the kernel has"),
    "long queue": (
        changed_queues(backlog_bytes=pl.col("backlog_bytes") + 3000),
        "buffer",
        "1.25 MB were queued, configured",
    ),
    "rate by tc": (
        changed_options("bottleneck", rate=123_700_000, lat=10083),
        "rate",
        "the kernel has 990 Mbit/s,",
    ),
    "delay by tc": (
        changed_options("ack-delay", delay={"delay": 0.00502, "jitter": 0}),
        "rtt",
        "tc delays ACKs by 5.02 ms",
    ),
    "jitter by tc": (
        changed_options("ack-delay", delay={"delay": 0.005, "jitter": 0.0001}),
        "rtt",
        "of ACKs by 100 us",
    ),
    "loss by tc": (
        changed_options("data-delay", **{"loss-random": {"loss": 0.00101}}),
        "loss",
        "tc loses random 0.101% of data",
    ),
    "reordering by tc": (
        changed_options("data-delay", reorder={"reorder": 0.01}),
        "path",
        "tc reorders 1% of data, configured: 0%",
    ),
    "a policer": (with_a_policer, "policer", "there was a policer, configured: none"),
    "another queue": (with_a_leaf, "queue", "the bottleneck had codel, configured: bfifo"),
    "MTU": (
        changed_state(mtu_bytes=9000),
        "path",
        "the MTU of 3 devices, such as ccmix-h1/eth0, was 9000",
    ),
    "ECN": (
        changed_sockets(ecn=pl.lit(value=True)),
        "ecn",
        "port 40000 negotiated ECN, configured: off",
    ),
    "a change": (
        changed_measurement(changes=(PathChange(2.0, 1002.0, {}),)),
        "changes",
        "the run made 1 change, configured: 0",
    ),
    "starts of two streams": (
        changed_starts(0.004, 40000, 40002),
        "spread",
        "port 40000 started 4 ms after its group, drawn were 2 ms, and 1 more flow",
    ),
    "streams": (changed_test(streams=3), "traffic", "h1 had 3 streams, configured: 2"),
    "duration": (changed_test(duration_s=5.0), "traffic", "h1 was to last 5 s, configured: 4 s"),
    "early end": (changed_test(lasted_s=3.0), "traffic", "h1 lasted 3 s, configured: 4 s"),
    "omitted time": (changed_test(omit_s=0.0), "traffic", "h1 omitted 0 s, configured: 1 s"),
    "interval": (
        changed_test(interval_s=0.5),
        "traffic",
        "h1 reported each 500 ms, configured: 1 s",
    ),
    "pacing": (
        changed_options("sender-queue", maxrate=1_250_000),
        "traffic",
        "held flows to 10.0 Mbit/s",
    ),
    "receiver's window": (
        changed_sockets(receiver_window_limited_s=late("receiver_window_limited_s")),
        "receiver-window",
        "2.12% of the",
    ),
    "sender's buffer": (
        changed_sockets(send_buffer_limited_s=late("send_buffer_limited_s")),
        "send-buffer",
        "2.12% of the busy time",
    ),
    "sender's buffer as flows begin": (
        begins_at_1_s("send_buffer_limited_s"),
        "send-buffer",
        "15% of the busy time",
    ),
    "memory pressure": (
        changed_after(netstat={"ccmix-receiver": NETSTAT}),
        "tcp-memory",
        "ccmix-receiver came under",
    ),
    "CCA without ECN": (
        changed_sockets(cca=pl.when(BBR_PORT).then(pl.lit("dctcp-reno")).otherwise("cca")),
        "cca",
        "port 40002 was to run bbr but ran",
    ),
    "flow_limit": (
        with_drops_of_flow_limit,
        "sender-queue",
        "it dropped 5 packets, 2 of them by flow_limit",
    ),
    "core": (with_a_busy_core, "cpu", "core 1 of localhost was idle 1% of the time"),
    # synthetic: a hypervisor can't be made to take time here
    "steal": (
        with_cores(lambda _: {"user_s": 0.1}, lambda _: {"steal_s": 0.03}),
        "cpu",
        "the hypervisor gave core 1 of src to others for 3% of the time",
    ),
    "softirqs that move between cores": (
        with_cores(
            *(lambda second, own=own: {"softirq_s": float(second % 2 == own)} for own in (0, 1))
        ),
        "cpu",
        "softirqs took 100% of the busiest core of src each second",
    ),
    "thread": (with_threads(0.99), "cpu", "thread 101 (iperf3) of src worked 99% of the time"),
    "process of one thread": (
        with_threads(0.99, (100,), looked_into=False),
        "cpu",
        "thread 100 (iperf3) of src worked 99% of the time",
    ),
    "one flow of 64": (
        with_64_flows(4.0),
        "receiver-window",
        "100% of the busy time of port 1000 of h1",
    ),
    "slow application": (app_limited(3), "application", "75% of the time of port 40002 of h1"),
    "application that pauses": (
        changed_sockets(busy_s=pl.when(BBR_PORT).then(pl.col("time_s") * 0.85).otherwise("busy_s")),
        "application",
        "15% of the time of port 40002 of h1",
    ),
    "start of a stream": (
        changed_starts(0.0021, 40000),
        "spread",
        "port 40000 started 2.1 ms after its group, drawn were 2 ms",
    ),
    "sender's queue": (
        changed_root("sender-queue", drops=6),
        "sender-queue",
        "it dropped 2 packets",
    ),
    "kind of the sender's queue": (
        changed_root("sender-queue", kind="fq_codel"),
        "sender-queue",
        "h1 has fq_codel, configured: fq",
    ),
    "parameter of the sender's queue": (
        changed_options("sender-queue", limit=10000),
        "sender-queue",
        "h1's fq has limit 10000, configured: 10000000",
    ),
    "backlog": (
        changed_after(softnet={"localhost": "0000beef 00000002\n00001234 0000001a\n"}),
        "host-backlog",
        "localhost dropped 16 packets",
    ),
    "missed samples": (changed_probe("queues", missed=2), "probe", "queues: 2 of 8 samples missed"),
    "failed probe": (changed_probe("sockets", failed="ss: gone"), "probe", "sockets: ss: gone"),
}

# values that are slightly off, and must not be reported
TOLERATED: dict[str, Change] = {
    "a CCA that is set behind the cookie": changed_sockets(
        data_segs_out=pl.when(pl.col("time_s") == pl.col("time_s").min())
        .then(1)
        .otherwise("data_segs_out"),
        cca=pl.when(pl.col("time_s") == pl.col("time_s").min())
        .then(pl.lit("reno"))
        .otherwise("cca"),
    ),
    "a little loss more": changed_root("data-delay", drops=1105),  # 3.2 standard deviations
    "a little loss less": changed_root("data-delay", drops=905),
    "ping": changed_measurement(ping_rtt_s={"h1": (0.01019, 0.3)}),
    "long RTT of sockets": changed_sockets(min_rtt_s=pl.lit(0.01031)),
    "RTT of sockets by TCP's time stamps": changed_sockets(min_rtt_s=pl.lit(0.009)),
    "rate": changed_queues(bytes=(pl.col("bytes") * 1.00001).cast(pl.Int64)),
    "a shaper that counts what its queue dropped": shaper_that_counts_too_much,
    "slow without a queue": changed_queues(
        backlog_bytes=pl.lit(0), bytes=(pl.col("bytes") * 0.5).cast(pl.Int64)
    ),
    "a little steal": with_cores(lambda _: {"steal_s": 0.015}),
    "softirqs on two cores": with_cores(*[lambda _: {"softirq_s": 0.9}] * 2),
    "thread with pauses": with_threads(0.97),
    "many threads that work together": with_threads(1.5, tuple(range(100, 108)), looked_into=False),
    "one flow of 64 at times": with_64_flows(0.3),
    "an application without data at times": changed_sockets(busy_s=pl.col("time_s") * 0.95),
    "a flow that starts late": changed_sockets(
        busy_s=(pl.col("time_s") - 3).clip(0),
        bytes_sent=pl.when(pl.col("time_s") > 2).then("bytes_sent").otherwise(37),
    ),
    "an old mark of a flow of which nothing arrives": changed_sockets(
        app_limited=BBR_PORT, unsent_bytes=pl.when(BBR_PORT).then(140_000).otherwise(0)
    ),
    "a start to the microsecond": changed_starts(0.0020004, 40000),
    "a step of tc's latency": changed_options("bottleneck", lat=9976 + 1),
    "limited for a moment": changed_sockets(
        send_buffer_limited_s=late("send_buffer_limited_s") * 0.9
    ),
    # 2 flows, 16 ms together of less than 100 ms: a jiffy or two
    "limited for a jiffy": of_a_command(
        busy_s=pl.col("time_s") * 0.005,
        receiver_window_limited_s=pl.when(pl.col("time_s") == 5).then(0.008).otherwise(0.0),
    ),
    "limited in the omitted time": changed_sockets(
        send_buffer_limited_s=pl.when(pl.col("time_s") > 0).then(0.9)
    ),
    "a window that grows as a flow begins": begins_at_1_s("receiver_window_limited_s"),
}


def with_window(
    run: Run, tables: RunTables, measurement: Measurement, window_bytes: int | None = 1_000_000
) -> tuple[Run, RunTables, Measurement]:
    """Returns a run whose flows were limited all the time by a receiver's window of 1 MB, and the
    configured window.
    """
    [sender] = run.topology.senders
    path = replace(run.topology, senders=(replace(sender, receiver_window_bytes=window_bytes),))
    limited, _ = changed_sockets(
        receiver_window_limited_s=pl.col("busy_s"), send_window_bytes=pl.lit(998_912, pl.UInt32)
    )(tables, measurement)
    assert measurement.state_after
    read_back = {
        "net.ipv4.tcp_ecn": "2",
        "net.ipv4.tcp_rmem": "4096\t131072\t1580247",
    }  # 162/256 of it are 1 MB
    state = replace(
        measurement.state_after, sysctls=dict.fromkeys(measurement.state_after.sysctls, read_back)
    )
    return (
        replace(run, path=path),
        limited,
        replace(measurement, state_before=state, state_after=state),
    )


def test_flows_that_a_configured_window_limits_are_as_configured(
    run: Run, tables: RunTables, measurement: Measurement
) -> None:
    assert judged(*with_window(run, tables, measurement)) == Verdict("valid")


@pytest.mark.parametrize(
    ("window_bytes", "sentences"),
    [
        (
            1_050_000,
            [
                "100% of the busy time",
                "tcp_rmem of h1's receiver was 4096 131072 1580247, configured:",
            ],
        ),
        (
            950_000,
            [
                "h1 saw a window of 999 kB, configured: 950 kB at most",
                "tcp_rmem of h1's receiver was",
            ],
        ),
        (None, ["100% of the busy time", "configured: 4096 131072 536870912"]),
    ],
)
def test_another_window_than_the_configured_one_is_told(
    run: Run,
    tables: RunTables,
    measurement: Measurement,
    window_bytes: int | None,
    sentences: list[str],
) -> None:
    verdict = judged(*with_window(run, tables, measurement, window_bytes))
    assert {finding.kind for finding in verdict.findings} == {"receiver-window"}
    details = " ".join(finding.detail for finding in verdict.findings)
    assert [sentence for sentence in sentences if sentence not in details] == []


def test_a_run_where_all_is_as_configured_is_valid(
    run: Run, tables: RunTables, measurement: Measurement
) -> None:
    assert judged(run, tables, measurement) == Verdict("valid")


@pytest.mark.parametrize(("change", "kind", "sentence"), FINDINGS.values(), ids=FINDINGS)
def test_one_thing_changed_is_told_and_can_be_accepted(
    run: Run, tables: RunTables, measurement: Measurement, change: Change, kind: str, sentence: str
) -> None:
    seen = change(tables, measurement)
    verdict = judged(run, *seen)
    assert verdict.status == "limited"
    [finding] = verdict.findings
    assert (finding.kind, finding.accepted) == (kind, False)
    assert finding.detail.startswith(LIMITS[kind] + ": ")
    assert sentence in finding.detail
    accepted = judged(replace(run, accept_limits=(kind,)), *seen)
    assert (accepted.status, accepted.findings) == ("valid", (replace(finding, accepted=True),))


def test_pacing_holds_no_cross_traffic_of_another_host(
    run: Run, tables: RunTables, measurement: Measurement
) -> None:
    """Only the queue of the test's sender was to limit flows to 10 Mbit/s."""
    path = replace(
        run.topology, senders=(*run.topology.senders, replace(run.topology.senders[0], name="h2"))
    )
    traffic = replace(run.traffic, pacing_bps=10e6)
    beside = add_sources(traffic, UdpSource("others", "h2", 1e6, 1))
    free = measurement.after.qdiscs["sender-queue"]
    _, seen = changed_options("sender-queue", maxrate=1_250_000)(tables, measurement)
    paced = seen.after.qdiscs["sender-queue"]

    def told(asked: Traffic, of_test: Qdiscs, of_others: Qdiscs) -> list[str]:
        counters = replace(
            measurement.after, qdiscs={"sender-queue h1": of_test, "sender-queue h2": of_others}
        )
        read_back = replace(measurement, before=counters, after=counters)
        return [
            detail
            for _, detail in pacing(
                Observed(replace(run, path=path, traffic=asked), tables, read_back)
            )
        ]

    not_held = "fq of sender-queue h1 held flows to no rate, configured: 10.0 Mbit/s"
    held = "fq of sender-queue h2 held flows to 10.0 Mbit/s, configured: no rate"
    assert told(traffic, paced, paced) == told(beside, paced, free) == []
    assert told(beside, paced, paced) == [held]
    assert told(beside, free, free) == [not_held]


@pytest.mark.parametrize("change", TOLERATED.values(), ids=TOLERATED)
def test_what_is_within_tolerance_is_not_told(
    run: Run, tables: RunTables, measurement: Measurement, change: Change
) -> None:
    assert judged(run, *change(tables, measurement)).findings == ()


def test_every_kind_of_limit_is_tested() -> None:
    elsewhere = {"conservation", "physics"}  # test_conservation.py, test_physics.py
    assert {kind for _, kind, _ in FINDINGS.values()} == set(LIMITS) - elsewhere


def test_a_capture_that_lost_packets_and_one_that_nobody_asked_for(
    run: Run, tables: RunTables, measurement: Measurement
) -> None:
    capturing = replace(run, path=replace(run.topology, capture=Capture((), most_bytes=10**6)))
    whole, lossy = (captured(dropped_by_kernel=lost)(tables, measurement) for lost in (0, 3))
    assert judged(capturing, *whole).findings == ()
    details = [
        finding.detail
        for seen in (lossy, (tables, measurement))
        for finding in judged(capturing, *seen).findings
    ]
    details += [finding.detail for finding in judged(run, *whole).findings]
    assert [detail.removeprefix(f"{LIMITS['probe']}: ") for detail in details] == [
        "tcpdump: 3 of 1000 packets dropped by kernel",
        "tcpdump was off, configured: on",
        "tcpdump was on, configured: off",
    ]


def test_too_few_samples_are_unknown(run: Run, tables: RunTables, measurement: Measurement) -> None:
    verdict = judged(run, *few_samples(tables, measurement))
    assert verdict.status == "unknown"
    [finding] = verdict.findings
    assert "2 of 2 flows have fewer than two samples in the measured time" in finding.detail
    assert (
        judged(replace(run, accept_limits=("probe",)), *few_samples(tables, measurement)).status
        == "valid"
    )


def test_loss_of_joined_packets_is_unknown(
    run: Run, tables: RunTables, measurement: Measurement
) -> None:
    joined = replace(run, path=replace(run.topology, offloads=True))
    _, measurement = changed_state(offloads=("generic-segmentation-offload",))(tables, measurement)
    measurement = replace(measurement, state_before=measurement.state_after)
    # super-packets need a larger bucket: 125,000 bytes in a millisecond, plus 9000 us at 125 MB/s
    _, measurement = throughout("bottleneck", burst=125_000, lat=9000)(tables, measurement)
    verdict = judged(joined, tables, measurement)
    assert (verdict.status, [finding.kind for finding in verdict.findings]) == ("unknown", ["loss"])
    assert (
        judged(joined, tables, replace(measurement, ping_rtt_s={"h1": (1.0,)})).status == "limited"
    )


def test_an_accepted_limit_does_not_cover_another(
    run: Run, tables: RunTables, measurement: Measurement
) -> None:
    _, missed = changed_probe("queues", missed=1)(
        tables, replace(measurement, ping_rtt_s={"h1": (1.0,)})
    )
    verdict = judged(replace(run, accept_limits=("rtt", "loss")), tables, missed)
    assert verdict.status == "limited"
    assert [(finding.kind, finding.accepted) for finding in verdict.findings] == [
        ("rtt", True),
        ("probe", False),
    ]


def test_no_loss_configured_means_none(
    run: Run, tables: RunTables, measurement: Measurement
) -> None:
    lossless = replace(run, path=with_senders(run.topology, loss=None))
    tables, measurement = throughout("data-delay", **{"loss-random": None})(tables, measurement)
    [finding] = judged(lossless, tables, measurement).findings
    assert finding.kind == "loss"
    assert (
        judged(lossless, *changed_root("data-delay", drops=5)(tables, measurement)).findings == ()
    )


def test_a_buffer_of_a_packet_which_tc_says_in_bytes(
    small_buffer_run: Run, tables: RunTables, measurement: Measurement
) -> None:
    """If tbf's limit is less than its burst, tc prints no 'lat' (seen with iproute2 6.1)."""
    short, without_train = changed_queues(backlog_bytes=pl.col("backlog_bytes").clip(0, 1514))(
        tables,
        replace(measurement, train_s=()),  # the buffer holds none
    )
    in_bytes: dict[str, Any] = {"limit": 1514, "lat": None}

    def kinds(**changed: int) -> list[str]:
        seen = throughout("bottleneck", **in_bytes | changed)(short, without_train)
        return [finding.kind for finding in judged(small_buffer_run, *seen).findings]

    assert kinds() == []
    assert kinds(limit=5000) == ["buffer"]
    assert kinds(rate=120_000_000) == ["rate"]


def test_a_fast_path_whose_buffer_tc_rounds_to_a_microsecond(
    run: Run, tables: RunTables, measurement: Measurement
) -> None:
    """At 100 Gbit/s a microsecond is 12,500 bytes, more than a packet."""
    fast = replace(run, path=replace(run.topology, rate_bps=100e9))
    seen = changed_queues(bytes=pl.col("bytes") * 100)(
        tables, replace(measurement, train_s=packet_train(PACKET_S / 100))
    )
    root = {"rate": 12_500_000_000, "burst": 0}  # of 125,000,000 bytes, 10,000 us
    assert judged(fast, *throughout("bottleneck", **root, lat=9999)(*seen)).findings == ()
    findings = judged(fast, *throughout("bottleneck", **root, lat=9990)(*seen)).findings
    assert [finding.kind for finding in findings] == ["buffer"]
