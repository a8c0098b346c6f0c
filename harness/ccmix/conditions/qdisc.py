"""Writes queue disciplines as arguments of tc(8), reads them, and replaces that of a device."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ccmix import foreign_json
from ccmix.hosts import CommandError, Host
from ccmix.model import AckBottleneck, Loss, Netem, Policer, Queue, Topology
from ccmix.model.emulated import BUCKET_PACKETS

# Packets: netem and fq hold packets in transit here, and must never drop any. fq's default
# flow_limit of 100 packets would drop a fast flow's packets at its sender.
NEVER_FULL_PACKETS = 10_000_000
FQ_UNLIMITED_BIT = 8 * (
    2**32 - 1
)  # fq's default for maxrate, ~0U bytes per second (net/sched/sch_fq.c)
RESTORABLE = (
    "pfifo",
    "bfifo",
    "fq",
    "fq_codel",
)  # root qdiscs whose output of tc is also valid input of tc
_COUNT_OR_SIZE = re.compile(r"^(\d+)[pb]$")  # '1000p' packets, '1514b' bytes
LEAF_PARENT = "1:1"
POLICER_QDISC, POLICER_HOOK = "clsact", "egress"
FQ_MEMORY_BYTES = (
    32 * 2**20
)  # fq_codel's and fq_pie's default, counted in the kernel's memory for packets
SFQ_MOST_DEPTH = 127  # packets a flow (net/sched/sch_sfq.c)


def netem(
    delay_s: float, loss: Loss | None = None, jitter_s: float = 0.0, reorder: float = 0.0
) -> list[str]:
    """Returns tc's arguments for a netem: it delays packets by `delay_s` with the variation
    `jitter_s`, loses some of them, and lets the fraction `reorder` skip the delay (tc-netem(8)).

    Delay, loss and limit are always named, so that the same arguments can also change an existing
    netem.
    """
    return [
        "netem",
        "delay",
        _microseconds(delay_s),
        *([_microseconds(jitter_s)] if jitter_s else []),
        *(loss_arguments(loss) if loss else ("loss", "random", "0%")),
        *(("reorder", f"{reorder * 100:.10g}%") if reorder else ()),
        "limit",
        str(NEVER_FULL_PACKETS),
    ]


def _microseconds(seconds: float) -> str:
    """Returns a time in whole microseconds, such as '10000us', because tc accepts no smaller unit
    for netem (get_ticks() of iproute2 6.1).
    """
    return f"{round(seconds * 1e6)}us"


def loss_arguments(loss: Loss) -> list[str]:
    """Returns netem's arguments for a model of loss, such as ['loss', 'random', '1%']."""
    return ["loss", loss.model, *(f"{share * 100:.10g}%" for share in loss.parameters)]


def shaper(topology: Topology) -> list[list[str]]:
    """Returns tc's arguments for the shaper, which limits the rate of the bottleneck: a list for
    each qdisc or class, such as ['qdisc', 'root', ...]. The verb and the device are missing, so
    that the lists can be used to add and to change.

    The shaper is a token bucket (tc-tbf(8)) or a class of htb (tc-htb(8)). Both count the Ethernet
    header of packets, too. A tbf has a FIFO of its own, limited in bytes, which the queue of leaf()
    may replace.
    """
    rate, burst = f"{topology.rate_bps:.0f}bit", str(topology.bottleneck_bucket_bytes)
    if topology.shaper == "tbf":
        # tbf passes its limit on to any FIFO below it, whether that counts bytes or packets
        # (net/sched/sch_fifo.c)
        limit = (
            topology.buffer_packets
            if topology.queue.kind.startswith("pfifo")
            else topology.buffer_bytes
        )
        return [
            [
                "qdisc",
                "root",
                "handle",
                "1:",
                "tbf",
                "rate",
                rate,
                "burst",
                burst,
                "limit",
                str(limit),
            ]
        ]
    quantum = str(topology.packet_bytes)
    limits = ["rate", rate, "ceil", rate, "burst", burst, "cburst", burst, "quantum", quantum]
    return [
        ["qdisc", "root", "handle", "1:", "htb", "default", "1"],
        ["class", "parent", "1:", "classid", LEAF_PARENT, "htb", *limits],
    ]


def policer(topology: Topology, setting: Policer) -> list[list[str]]:
    """Returns tc's arguments for a policer at the bottleneck. It drops data beyond a rate and a
    burst (tc-police(8)), before the shaper sees the data. There is a list for each object of tc,
    without verb and device: ['qdisc', 'clsact'] and ['filter', 'egress', ...].

    The filter sees packets before the device's root qdisc does, and the kernel counts its drops as
    those of clsact (tc_run() in net/core/dev.c). tc's `mtu` is the size of the largest packet that
    passes at all.
    """
    rate, burst = f"{setting.rate_bps:.0f}bit", str(setting.burst_bytes)
    police = [
        "police",
        "rate",
        rate,
        "burst",
        burst,
        "mtu",
        str(topology.packet_bytes),
        "conform-exceed",
        "drop/ok",
    ]
    return [["qdisc", POLICER_QDISC], ["filter", POLICER_HOOK, "matchall", "action", *police]]


def ack_bottleneck(topology: Topology, acks: AckBottleneck) -> list[list[str]]:
    """Returns tc's arguments for a bottleneck on the way back of ACKs: a token bucket (tbf) with a
    FIFO that is limited in bytes or in packets. There is a list for each qdisc, without verb and
    device: ['qdisc', 'root', ...].
    """
    rate, limit = f"{acks.rate_bps:.0f}bit", str(topology.ack_limit)
    burst = str(BUCKET_PACKETS * topology.packet_bytes)
    bucket = ["qdisc", "root", "handle", "1:", "tbf", "rate", rate, "burst", burst, "limit", limit]
    fifo = ["qdisc", "parent", LEAF_PARENT, "handle", "2:", "pfifo", "limit", limit]
    return [bucket, *([fifo] if acks.counts_packets else [])]


def leaf(topology: Topology) -> list[str] | None:
    """Returns tc's arguments, without verb and device, for the queue that holds the bottleneck's
    buffer. It is below the shaper. None if no queue is needed, because a tbf has a FIFO of bytes
    anyway.

    Options that the user gives for the queue replace ccmix's defaults.
    """
    queue = topology.queue
    if queue.kind == "bfifo" and topology.shaper == "tbf":
        return None
    limit, defaults = _limit_and_defaults(topology)
    defaults_used = [
        word
        for name, value in defaults.items()
        if name not in queue.parameters
        for word in (name, value)
    ]
    return [
        "qdisc",
        "parent",
        LEAF_PARENT,
        "handle",
        "2:",
        queue.kind,
        *limit,
        *defaults_used,
        *queue.parameters,
    ]


def _limit_and_defaults(topology: Topology) -> tuple[list[str], dict[str, str]]:
    """Returns two parts of tc's arguments for the bottleneck's queue: the option that limits it to
    the topology's buffer, in the unit of the qdisc (bytes or packets), and further options by name.

    The further options replace defaults of the qdisc with which it would hold less than the buffer,
    or would drop packets for another reason. The user may override them.
    """
    size_bytes, packets = str(topology.buffer_bytes), str(topology.buffer_packets)
    rate, memory = (
        f"{topology.rate_bps:.0f}bit",
        str(max(FQ_MEMORY_BYTES, 4 * topology.buffer_bytes)),
    )
    by_kind: dict[str, tuple[list[str], dict[str, str]]] = {
        "bfifo": (["limit", size_bytes], {}),
        "red": (["limit", size_bytes], {"avpkt": str(topology.packet_bytes), "bandwidth": rate}),
        "cake": (["memlimit", size_bytes], {}),
        "choke": (["limit", packets], {"bandwidth": rate}),
        "fq": (["limit", packets], {"flow_limit": packets}),
        "fq_codel": (["limit", packets], {"memory_limit": memory}),
        "fq_pie": (["limit", packets], {"memory_limit": memory}),
        "sfq": (["limit", packets], {"depth": str(min(topology.buffer_packets, SFQ_MOST_DEPTH))}),
    }
    return by_kind.get(topology.queue.kind, (["limit", packets], {}))


def sender_queue(queue: Queue) -> list[str]:
    """Returns tc's arguments for the queue on a sender's device. An fq drops nothing, because its
    limits are so high that they are never reached, unless the user sets them. Other qdiscs keep
    tc's defaults.
    """
    unlimited = ("limit", "flow_limit") if queue.kind == "fq" else ()
    limits = [
        word
        for name in unlimited
        if name not in queue.parameters
        for word in (name, str(NEVER_FULL_PACKETS))
    ]
    return [queue.kind, *limits, *queue.parameters]


def netem_between_hosts(setting: Netem) -> list[str]:
    """Returns tc's arguments for netem on a device of a real host: delay, loss, rate and queue
    limit of the packets that leave it (tc-netem(8)).
    """
    arguments = ["netem", "delay", _microseconds(setting.delay_s)]
    if setting.loss:
        arguments += loss_arguments(setting.loss)
    if setting.rate_bps is not None:
        arguments += ["rate", f"{setting.rate_bps:.0f}bit"]
    limit = NEVER_FULL_PACKETS if setting.limit_packets is None else setting.limit_packets
    return [*arguments, "limit", str(limit)]


def statistics_command(device: str | None) -> list[str]:
    """Returns the command that prints the qdiscs of a device as JSON with their counters. If
    `device` is None, the command prints those of all devices.
    """
    return ["tc", "-s", "-j", "qdisc", "show", *(["dev", device] if device else [])]


def classes_command(device: str) -> list[str]:
    """Returns the command that prints the classes of a device as text. tc can't print htb's classes
    as JSON.
    """
    return ["tc", "class", "show", "dev", device]


def filters_command(device: str) -> list[str]:
    """Returns the command that prints the policer of a device as text. tc's JSON lacks its rate and
    burst.
    """
    return ["tc", "-s", "filter", "show", "dev", device, POLICER_HOOK]


def qdiscs(host: Host, device: str | None) -> list[dict[str, Any]]:
    """Reads the qdiscs of a device with their counters: a dict for each, as in the JSON of `tc -s
    qdisc show`. If `device` is None, those of all devices are read. Raises CommandError.
    """
    argv = statistics_command(device)
    output = host.run(argv)
    try:
        reported: list[dict[str, Any]] = foreign_json.loads(output or "[]")
        _ = [qdisc["kind"] + qdisc["handle"] for qdisc in reported]
    except (ValueError, TypeError, KeyError) as error:
        raise CommandError(host.name, argv, f"unexpected output: {error!r}") from error
    return reported


def root_of(device_qdiscs: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """Returns the root qdisc among the qdiscs of a device (tc's JSON). None if nobody has
    configured it: a qdisc that the kernel has set up by itself has the handle '0:'.
    """
    return next(
        (qdisc for qdisc in device_qdiscs if qdisc.get("root") and qdisc["handle"] != "0:"), None
    )


def leaves_of(device_qdiscs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the qdiscs below the root among a device's qdiscs (tc's JSON), for example one for
    each queue of an mq. Qdiscs that hold no packets (clsact, ingress) are left out.
    """
    return [
        qdisc
        for qdisc in device_qdiscs
        if not qdisc.get("root") and qdisc["kind"] not in ("clsact", "ingress")
    ]


def described(device_qdiscs: Sequence[dict[str, Any]]) -> str:
    """Describes the qdiscs of a device (tc's JSON) with their options in a line, the root first:
    'mq with 4 x fq_codel limit 10240 flows 1024'. Options have the names, the order and the units
    of tc's JSON.
    """
    root = next((qdisc for qdisc in device_qdiscs if qdisc.get("root")), None)
    below = Counter(_with_options(qdisc) for qdisc in leaves_of(device_qdiscs))
    leaves = (f"{number} x {text}" if number > 1 else text for text, number in below.items())
    return " with ".join([*([_with_options(root)] if root else []), *leaves])


def _with_options(qdisc: dict[str, Any]) -> str:
    """Describes one qdisc (tc's JSON) by its kind and its options: 'fq_codel limit 10240 ecn'. An
    option that is switched off is left out.
    """
    options = qdisc.get("options")
    words = [str(qdisc["kind"])]
    for name, value in options.items() if isinstance(options, dict) else ():
        if value is None or value is True:  # a flag
            words.append(name)
        elif isinstance(value, list):
            words += [name, *map(str, value)]
        elif value is not False:
            words += [name, str(value)]
    return " ".join(words)


@contextmanager
def replaced_qdisc(host: Host, device: str, qdisc: Sequence[str]) -> Iterator[None]:
    """Replaces the root qdisc of a device while the context lasts, and puts the former one back at
    the end. `qdisc` is the new one in tc's words, such as ['fq', 'maxrate', '1gbit'].

    Raises CommandError if a single command of tc could not create the former qdisc again, for
    example an htb with classes. Nothing is changed then.
    """
    undo = ["tc", "qdisc", "del", "dev", device, "root"]
    present = qdiscs(host, device)
    if existing := root_of(present):
        plain_mq = existing["kind"] == "mq" and all(
            leaf["handle"] == "0:" for leaf in leaves_of(present)
        )
        if existing["kind"] not in RESTORABLE and not plain_mq:
            raise CommandError(
                host.name,
                ["tc", "qdisc", "replace", "dev", device],
                f"{device} has a qdisc {existing['kind']} {existing['handle']} that ccmix did "
                "not make and could not "
                f"put back: remove it (tc qdisc del dev {device} root), or run 'ccmix restore' "
                "if a dead run left it",
            )
        undo = ["tc", "qdisc", "replace", "dev", device, "root", *_as_arguments(host, device)]
    do = ["tc", "qdisc", "replace", "dev", device, "root", *qdisc]
    with host.changed(f"qdisc {qdisc[0]} of {device}", do, undo):
        yield


def _as_arguments(host: Host, device: str) -> list[str]:
    """Returns tc's arguments that create the present root qdisc of a device again, to undo a
    change. They are made from tc's output, without the words that tc does not accept as input:
    'qdisc pfifo 8001: root refcnt 2 limit 100p' becomes 'handle 8001: pfifo limit 100'.
    """
    argv = ["tc", "qdisc", "show", "dev", device, "root"]
    output = host.run(argv)
    words = output.split("\n")[0].split()
    if len(words) < 4 or "root" not in words:
        raise CommandError(host.name, argv, f"unexpected output: {output[:80]!r}")
    kind, handle = words[1], words[2]
    options = words[words.index("root") + 1 :]
    if options[:1] == ["refcnt"]:
        options = options[2:]
    return ["handle", handle, kind, *(_COUNT_OR_SIZE.sub(r"\1", word) for word in options)]
