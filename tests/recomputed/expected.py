"""Computes every metric of a run from its raw files, each as bounds; docs/reference/metrics.md has
the definitions.

Keys: 'goodput_bps' of the run, 'groups/NAME/goodput_bps', 'flows/HOST:PORT/goodput_bps',
    'bottleneck/drops'.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from recomputed import dynamics
from recomputed.bounds import NOTHING, Bounds, percentile, total
from recomputed.raw import Flow, RawRun

PERCENTILES = {"median": 0.5, "p95": 0.95, "p99": 0.99}
# What a run without a capture can only estimate for a flow whose sender's own queue drops packets
DISTRIBUTED = ("data_segments", "retransmitted_segments", "retransmission_rate", "throughput_bps")
SHARE = 0.001  # precision to which shares and indices of fairness are compared
BOTTLENECK = "ccmix-bottleneck/east"
ETHERNET_BYTES, PACKET_BYTES = 14, 1500
CLIENT_S = 0.05  # maximum time of an http client between requests, all of them together
DRAWN = 0.0005  # of the base RTT, at most: what a run draws of a delay
QUARTERS = (0.0, 0.25, 0.75, 1.0)  # of the measured time

Expected = dict[str, Bounds | None]


def expected(raw: RawRun) -> Expected:
    found: Expected = {}
    of_test = [flow for flow in raw.flows if not is_cross(raw, flow)]
    for name, flows in groups(raw).items():
        cross = is_cross(raw, flows[0])
        for key, value in of_flows(raw, flows, [] if cross else of_test).items():
            found[f"groups/{name}/{key}"] = value
        found[f"groups/{name}/fair_share"] = None if cross else fair_share(flows, of_test)
        alike = [
            likely([flow], flow.begin_s, flow.end_s) * flows[0].active_s / flow.active_s
            for flow in flows
        ]
        found[f"groups/{name}/fairness"] = None if flows[0].udp else fairness(alike)
    for flow in raw.flows:
        if flow.port and not flow.udp:
            for key, value in of_flows(raw, [flow], [] if is_cross(raw, flow) else of_test).items():
                found[f"flows/{flow.host}:{flow.port}/{key}"] = value
            found |= {
                f"flows/{flow.host}:{flow.port}/{key}": value
                for key, value in segments(raw, flow).items()
            }
            if raw.refused:  # by the sender's own queue: only sums over flows are known
                for key in DISTRIBUTED:
                    found.pop(f"flows/{flow.host}:{flow.port}/{key}", None)
    return (
        found
        | of_run(raw, of_test)
        | of_path(raw)
        | netem_loss(raw)
        | completions(raw)
        | settling(raw)
    )


def is_cross(raw: RawRun, flow: Flow) -> bool:
    """Returns whether a flow is cross traffic: the test that it competes with has no name."""
    return bool(raw.sources[flow.source]["name"]) and any(
        not source["name"] for source in raw.sources
    )


def groups(raw: RawRun) -> dict[str, list[Flow]]:
    """Returns the flows of each group, by the run's name of the group. Fails if a group mixes flows
    of different sources.
    """
    named = {(flow["host"], flow["port"]): flow["group"] for flow in raw.shown["metrics"]["flows"]}
    found: dict[str, list[Flow]] = {}
    for flow in raw.flows:
        source = raw.sources[flow.source]
        hosts = {each["host"] for each in raw.sources if each["name"] == source["name"]}
        own = source["name"] if len(hosts) == 1 else f"{source['name']}@{source['host']}"
        found.setdefault(named[flow.host, flow.port] if flow.port else own, []).append(flow)
    for name, flows in found.items():
        assert len({(flow.source, flow.test_group) for flow in flows}) == 1, (
            f"{name} has flows of several groups"
        )
    return found


def of_flows(raw: RawRun, flows: Sequence[Flow], of_test: Sequence[Flow]) -> Expected:
    """Returns metrics of a flow or a group; rates are over its active time."""
    begin_s, end_s = min(flow.begin_s for flow in flows), max(flow.end_s for flow in flows)
    active = Bounds.exactly(end_s - begin_s).wider(
        2 * longest_rtt_s(raw) if flows[0].is_source else 1e-6
    )
    found: Expected = {"active_s": active}
    if told := flows[0].told:
        found["goodput_bps"] = Bounds.exactly(told.received * 8 / told.receiver_s).wider(1)
        found["throughput_bps"] = Bounds.exactly(told.sent * 8 / told.sender_s).wider(1)
    else:
        found["goodput_bps"] = rate(raw, received(flows, begin_s, end_s), flows, active)
        found["throughput_bps"] = rate(raw, first_sent(raw, flows, begin_s, end_s), flows, active)
    if of_test:
        found["share"] = share(flows, of_test)
    if not flows[0].udp:
        found["retransmission_rate"] = retransmission_rate(raw, flows)
        found |= delays(raw, flows)
    return found | dynamics.start_up(raw, flows)


def of_run(raw: RawRun, of_test: Sequence[Flow]) -> Expected:
    tcp = [flow for flow in of_test if not flow.udp]
    measured = Bounds.exactly(raw.end_s - raw.omit_s)
    every = rate(raw, received(raw.flows, raw.omit_s, raw.end_s), raw.flows, measured)
    units = list(by_unit(tcp).values())
    of_groups = [[flow for flow in flows if flow in tcp] for flows in groups(raw).values()]
    common_s = common_time(of_test)
    return {
        "goodput_bps": rate(raw, received(of_test, raw.omit_s, raw.end_s), of_test, measured),
        "utilisation": every * (1 / mean_rate_bps(raw)) if every else None,
        "fairness": fairness([likely(unit, *common_s) for unit in units]) if common_s else None,
        "fairness_of_groups": fairness(
            [likely(flows, *common_s) / len(by_unit(flows)) for flows in of_groups if flows]
        )
        if common_s
        else None,
        "retransmission_rate": retransmission_rate(raw, tcp),
        **delays(raw, tcp),
        **dynamics.start_up(raw, of_test),
        "convergence_s": dynamics.convergence(raw, units),
        "receiver_window_limited": receiver_window_limited(raw, tcp),
    }


def longest_rtt_s(raw: RawRun) -> float:
    """Returns the RTT of the farthest sender with full buffers."""
    base_s = max(base_rtt_s(raw, sender["name"], -1) for sender in raw.path["senders"])
    return base_s + buffer_bytes(raw) * 8 / raw.path["rate_bps"]


def received(flows: Sequence[Flow], begin_s: float, end_s: float) -> Bounds:
    return total(
        counter.growth(max(begin_s, flow.begin_s), min(end_s, flow.end_s))
        for flow in flows
        for counter in (
            [flow.udp]
            if flow.udp
            else [each.receiver.counter("bytes_received") for each in flow.connections]
        )
        if min(end_s, flow.end_s) > max(begin_s, flow.begin_s)
    )


def first_sent(raw: RawRun, flows: Sequence[Flow], begin_s: float, end_s: float) -> Bounds:
    """Returns the bytes of first transmissions at TCP's senders; if their own queues dropped
    packets, the bytes that left.
    """

    def grown(name: str) -> Bounds:
        return total(
            each.sender.counter(name).growth(max(begin_s, flow.begin_s), min(end_s, flow.end_s))
            for flow in flows
            for each in flow.connections
        )

    if raw.refused:
        spans = [(each, flow.begin_s, flow.end_s) for flow in flows for each in flow.connections]
        return total(raw.left(each, 3).growth(*span) for each, *span in spans)
    return grown("bytes_sent") - grown("bytes_retransmitted")


def rate(raw: RawRun, of_bytes: Bounds, flows: Sequence[Flow], seconds: Bounds) -> Bounds | None:
    """Returns a rate in bits per second, exact to a packet of each flow."""
    slack = raw.path["mtu_bytes"] * len(flows)
    rates = of_bytes.wider(slack) / seconds
    return rates * 8 if rates else None


def mean_rate_bps(raw: RawRun, begin_s: float | None = None) -> float:
    begin_s = raw.omit_s if begin_s is None else begin_s
    rates = [(0.0, raw.path["rate_bps"])]
    rates += [
        (change["at_s"], change["rate_bps"])
        for change in raw.path["changes"]
        if change["kind"] == "rate"
    ]
    spans = pairwise([*rates, (raw.end_s, 0.0)])
    bits = sum(
        bps * max(0.0, min(until, raw.end_s) - max(at, begin_s)) for (at, bps), (until, _) in spans
    )
    return float(bits / (raw.end_s - begin_s))


def by_unit(flows: Sequence[Flow]) -> dict[tuple[int, int | None], list[Flow]]:
    """Returns the flows of a test as they are compared: all flows of a source that counts as one
    flow are together.
    """
    found: dict[tuple[int, int | None], list[Flow]] = {}
    for flow in flows:
        found.setdefault(flow.unit, []).append(flow)
    return found


def common_time(of_test: Sequence[Flow]) -> tuple[float, float] | None:
    """Returns the time in which all TCP flows of the test are active, or all flows if there is no
    TCP flow.
    """
    units = by_unit([flow for flow in of_test if not flow.udp] or of_test).values()
    begin_s = max((min(flow.begin_s for flow in unit) for unit in units), default=0.0)
    end_s = min((max(flow.end_s for flow in unit) for unit in units), default=0.0)
    return (begin_s, end_s) if end_s > begin_s else None


def share(flows: Sequence[Flow], of_test: Sequence[Flow]) -> Bounds | None:
    common_s = common_time(of_test)
    if not common_s:
        return None
    own, every = (likely(each, *common_s) for each in (flows, of_test))
    return Bounds.exactly(own / every).wider(SHARE + packets(flows) / every) if every else None


def packets(flows: Sequence[Flow]) -> float:
    """Returns the uncertainty of the bytes that some flows had received at a moment: a
    packet each.
    """
    return float(PACKET_BYTES * len(flows))


def likely(flows: Sequence[Flow], begin_s: float, end_s: float) -> float:
    """Returns the bytes that flows received, interpolated, in a time in which all of them are
    active.
    """
    return float(np.diff(dynamics.received_by(flows, [begin_s, end_s])[0])[0])


def fair_share(flows: Sequence[Flow], of_test: Sequence[Flow]) -> Bounds | None:
    if any(flow.udp for flow in of_test) or not common_time(of_test):
        return None
    return Bounds.exactly(len(by_unit(flows)) / len(by_unit(of_test)))


def fairness(values: Sequence[float]) -> Bounds | None:
    """Returns Jain's index of some numbers of bytes."""
    squares = sum(value**2 for value in values)
    if not squares:
        return None
    index = sum(values) ** 2 / (len(values) * squares)
    return Bounds.exactly(index).wider(SHARE + PACKET_BYTES * len(values) / sum(values))


def segments(raw: RawRun, flow: Flow) -> Expected:
    """Returns how many segments left a flow's sender in its active time, and how many of them were
    retransmissions.
    """
    found: Expected = {}
    for name, counter, column in (
        ("data_segments", "data_segs_out", 1),
        ("retransmitted_segments", "retransmits", 2),
    ):
        counters = [
            raw.left(each, column) if raw.refused else each.sender.counter(counter)
            for each in flow.connections
        ]
        found[name] = total(each.growth(flow.begin_s, flow.end_s) for each in counters).wider(1)
    return found


def retransmission_rate(raw: RawRun, flows: Sequence[Flow]) -> Bounds | None:
    counted = [segments(raw, flow) for flow in flows]
    again, sent = (
        total(each[name] or NOTHING for each in counted)
        for name in ("retransmitted_segments", "data_segments")
    )
    return (again / sent) if sent.low > 0 else None


def receiver_window_limited(raw: RawRun, flows: Sequence[Flow]) -> Bounds | None:
    if all(sender["receiver_window_bytes"] is None for sender in raw.path["senders"]):
        return None
    limited, busy = (
        total(
            each.sender.counter(name).growth(flow.begin_s, flow.end_s)
            for flow in flows
            for each in flow.connections
        )
        for name in ("receiver_window_limited_s", "busy_s")
    )
    return limited / busy


def delays(raw: RawRun, flows: Sequence[Flow]) -> Expected:
    """Returns percentiles of smoothed RTTs and of queueing delays, over the moments at which the
    run was sampled.
    """
    rtts: list[tuple[float, float]] = []
    queueing: list[tuple[float, float]] = []
    unsure = 0
    for flow in flows:
        for each in flow.connections:
            of_socket, unsure_of_it = rtt_samples(raw, flow, each.sender.rows)
            unsure += unsure_of_it
            for moment, low, high in of_socket:
                base_s = base_rtt_s(raw, flow.host, moment)
                rtts.append((low, high))
                queueing.append(
                    (max(0.0, low - base_s * (1 + DRAWN)), max(0.0, high - base_s * (1 - DRAWN)))
                )
    return {
        f"{name}_{percent}_s": percentile(samples, part, unsure)
        for name, samples in (("rtt", rtts), ("queueing_delay", queueing))
        for percent, part in PERCENTILES.items()
    }


def rtt_samples(
    raw: RawRun, flow: Flow, rows: Mapping[str, np.ndarray]
) -> tuple[list[tuple[float, float, float]], int]:
    """Returns the moments at which an ACK had come since the moment before, with bounds of the RTT
    at that time, and for how many of them this is uncertain.
    """
    times, rtts, acks = rows["time_s"], rows["rtt_s"], rows["segs_in"]
    begin_s, end_s = max(flow.begin_s, times[0]), min(flow.end_s, times[-1])
    found, unsure = [], 0
    for before, moment in pairwise(raw.moments_s(begin_s - raw.interval_s, end_s)):
        if moment < begin_s - 1e-6:
            continue
        last, following = _around(times, moment)
        earlier = _around(times, before) if before >= times[0] else (-1, 0)
        if acks[following] == (acks[earlier[0]] if earlier[0] >= 0 else 0) or np.isnan(
            rtts[following]
        ):
            continue
        unsure += bool(earlier[0] < 0 or acks[last] <= acks[earlier[1]] or np.isnan(rtts[last]))
        both = np.array(
            [rtts[following], rtts[last] if not np.isnan(rtts[last]) else rtts[following]]
        )
        found.append((moment, float(both.min()), float(both.max())))
    return found, unsure


def _around(times: np.ndarray, moment: float) -> tuple[int, int]:
    last = int(np.searchsorted(times, moment, "right")) - 1
    return max(0, last), min(len(times) - 1, int(np.searchsorted(times, moment, "left")))


def base_rtt_s(raw: RawRun, host: str, moment_s: float) -> float:
    [sender] = [each for each in raw.path["senders"] if each["name"] == host]
    data_s = acks_s = sender["delay_s"]
    if sender["ack_delay_s"] is not None:
        acks_s = sender["ack_delay_s"]
    for change in raw.path["changes"]:
        if (
            change["kind"] == "delay"
            and change["sender"] in (None, host)
            and change["at_s"] <= moment_s
        ):
            data_s = change["delay_s"] if change["direction"] in ("both", "data") else data_s
            acks_s = change["delay_s"] if change["direction"] in ("both", "acks") else acks_s
    return float(data_s + acks_s)


def of_path(raw: RawRun) -> Expected:
    """Returns the metrics of the bottleneck and of the policer."""
    grown = {
        name: raw.queue_growth(BOTTLENECK, name, raw.omit_s, raw.end_s)
        for name in ("bytes", "packets", "drops")
    }
    rows = raw.queue(BOTTLENECK)
    room = raw.path["rate_bps"] * raw.step_s / 8 + 2 * raw.path["mtu_bytes"]
    samples = []
    for moment in raw.moments_s(raw.omit_s, raw.end_s):
        near = rows["backlog_bytes"][list(_around(rows["time_s"], moment))]
        samples.append((max(0.0, float(near.min()) - room), float(near.max()) + room))
    mean = Bounds(*(float(side) for side in np.mean(samples, axis=0)))
    found: Expected = {
        "bottleneck/backlog_mean_bytes": mean,
        "bottleneck/occupancy_mean": mean * (1 / buffer_bytes(raw)),
    }
    for name, part in (*PERCENTILES.items(), ("max", 1.0)):
        found[f"bottleneck/backlog_{name}_bytes"] = percentile(samples, part, 0)
    drops = grown["drops"]
    if raw.path[
        "offloads"
    ]:  # the queue counts joined packets that it drops, and the segments that pass
        reached = total(
            raw.queue_growth(device, "packets", raw.omit_s, raw.end_s) for device in raw.data_delays
        )
        queued = np.diff(
            [
                rows["backlog_bytes"][_around(rows["time_s"], at)[0]]
                for at in (raw.omit_s, raw.end_s)
            ]
        )
        drops = (
            reached - (grown["packets"] + Bounds.exactly(queued.item() / raw.path["mtu_bytes"]))
        ).wider(2)
    bits = mean_rate_bps(raw) * (raw.end_s - raw.omit_s)
    found |= {
        "bottleneck/drops": drops,
        "bottleneck/drop_rate": drops / (drops + grown["packets"].wider(1))
        if grown["packets"].high
        else None,
        "bottleneck/utilisation": grown["bytes"].wider(raw.path["mtu_bytes"]) * (8 / bits),
    }
    if raw.path["policer"]:
        reached, dropped = (
            raw.queue_growth(BOTTLENECK, name, raw.omit_s, raw.end_s, "ingress")
            for name in ("packets", "drops")
        )
        found |= {"policer/drops": dropped, "policer/drop_rate": dropped / reached}
    return found


def buffer_bytes(raw: RawRun) -> float:
    packet_bytes = raw.path["mtu_bytes"] + ETHERNET_BYTES
    rtt_s = max(base_rtt_s(raw, sender["name"], -1) for sender in raw.path["senders"])
    units = {"byte": 1, "packet": packet_bytes, "bdp": raw.path["rate_bps"] / 8 * rtt_s}
    return float(
        max(round(raw.path["buffer"]["amount"] * units[raw.path["buffer"]["kind"]]), packet_bytes)
    )


def netem_loss(raw: RawRun) -> Expected:
    """Returns the share of packets that netem lost, by its counters before and after
    the traffic.
    """
    if raw.path["offloads"]:
        return {"netem_loss": None}
    lost = passed = 0
    for device, after in raw.facts["after"]["qdiscs"].items():
        if device.startswith("data-delay"):
            lost += after[0]["drops"] - raw.facts["before"]["qdiscs"][device][0]["drops"]
            passed += after[0]["packets"] - raw.facts["before"]["qdiscs"][device][0]["packets"]
    return {"netem_loss": Bounds.exactly(lost / (lost + passed)) if lost + passed else None}


def completions(raw: RawRun) -> Expected:
    """Returns completion times of the flows that began in the measured time, from the output of
    their programs and from their connections.
    """
    found: Expected = {}
    for number, source in enumerate(raw.sources):
        if source["kind"] not in ("http", "workload"):
            continue
        seconds, unsure = (_requests if source["kind"] == "http" else _flows)(raw, number)
        prefix = f"completions/{source['name']}@{source['host']}"
        found[f"{prefix}/completed"] = Bounds(len(seconds) - unsure, len(seconds))
        times = [(each, each) for each in seconds]
        for name, part in PERCENTILES.items():
            found[f"{prefix}/{name}_s"] = percentile(times, part, unsure)
    return found


def _requests(raw: RawRun, number: int) -> tuple[list[float], int]:
    """Returns the times of a server's requests; each client may have begun one near the end of the
    omitted time.
    """
    source, label = raw.sources[number], raw.label(number)
    files = sorted((raw.folder / "generators").glob(f"{label}-http-client-*.txt"))
    seconds = []
    for file in files:
        at_s = float(source["start_s"])
        for words in map(str.split, file.read_text().splitlines()):
            if at_s >= raw.omit_s - CLIENT_S and words[:2] == ["200", str(source["size_bytes"])]:
                seconds.append(float(words[4]))
            at_s += float(words[4])
    return seconds, len(files)


def _flows(raw: RawRun, number: int) -> tuple[list[float], int]:
    """Returns the times of a workload's flows, whose programs report by the monotonic clock when
    they began and ended.
    """
    place = raw.folder / "generators"
    begun, ended = (
        [
            line.split()
            for line in (place / f"{raw.label(number)}-workload-{end}.txt").read_text().splitlines()
        ]
        for end in ("client-1", "server")
    )
    starts = {words[0]: float(words[1]) for words in begun}
    of_measured = [
        words for words in ended if starts[words[0]] - raw.monotonic_zero_s >= raw.omit_s
    ]
    return [float(words[2]) - starts[words[0]] for words in of_measured], 0


def settling(raw: RawRun) -> Expected:
    """Returns the changes of goodputs from the first to the last quarter of the measured time."""
    found: Expected = {}
    shown = raw.shown["metrics"]["settling"] or {"trends": []}
    for trend in shown["trends"]:
        flows = groups(raw).get(trend["group"])
        if trend["quantity"] == "goodput" and flows:
            borders = raw.borders_s(max(raw.interval_s, dynamics.FINEST_S))
            quarters = [raw.omit_s + part * (raw.end_s - raw.omit_s) for part in QUARTERS]
            by_quarter = np.interp(quarters, borders, dynamics.received_by(flows, list(borders))[0])
            first, _, last = parts = np.diff(by_quarter)
            whole = parts.sum()
            found[f"trends/{trend['group']}"] = Bounds.exactly(
                4 * (last - first) / whole if whole else 0.0
            ).wider(0.02)
    return found
