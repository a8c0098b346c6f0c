"""Checks the queue disciplines of a device: fq on the sending one, what netem or pacing would replace, drops so far."""

from collections.abc import Iterator
from typing import Any

from ccmix.conditions.qdisc import RESTORABLE, described, root_of, statistics_command
from ccmix.doctor.findings import DoctorFinding, Status, line
from ccmix.doctor.reading import ask, count_of, objects, text_of
from ccmix.hosts import Host

FLOW_LIMIT_PACKETS = 10_000  # 100 times the default; a flow of 10 Gbit/s over 10 ms has 1400 packets of 9000 bytes


def read_qdiscs(host: Host, device: str) -> str:
    """Reads tc's statistics, as JSON. Raises CommandError."""
    return ask(host, statistics_command(device))


def judge_sending(device: str, qdiscs: str, default: str, paced: bool, bbr: bool) -> Iterator[DoctorFinding]:
    """Judges the sending device's queue. `qdiscs` is of read_qdiscs(); `default` is net.core.default_qdisc; `paced`
    means that an entry paces by fq. Raises ValueError.

    tcp_bbr paces by itself since Linux 4.13, with a timer for each socket; fq does it with less of the processor.
    """
    root, leaves = _tree(qdiscs)
    kind = text_of(root, "kind", "the root qdisc")
    fq = [qdisc for qdisc in (root, *leaves) if qdisc.get("kind") == "fq"]
    seen = described([root, *leaves])
    what = f"fq {device}"
    if kind == "fq" or (leaves and len(fq) == len(leaves)):
        yield DoctorFinding(what, Status.OK, seen)
        yield from _flow_limit(device, root if kind == "fq" else None, fq)
        return
    if kind == "mq":
        # The kernel gives each queue of a new mq its default qdisc.
        mend: tuple[str, ...] = (
            line("sysctl", "-w", "net.core.default_qdisc=fq"),
            line("tc", "qdisc", "replace", "dev", device, "root", "mq"),
        )
    else:
        mend = (line("tc", "qdisc", "replace", "dev", device, "root", "fq"),)
    if paced and not _replaceable(root):
        yield DoctorFinding(
            what, Status.FAIL, seen,
            "ccmix replaces a queue only where it can put it back, and it could not put back this one.",
            mend,
        )  # fmt: skip
    elif paced:
        yield DoctorFinding(what, Status.OK, f"{seen}; replaced by fq for the time of each run")
    else:
        more = "BBR then paces each socket with a timer of its own. " if bbr else ""
        default = f", default_qdisc {default}" if default else ""
        yield DoctorFinding(
            what, Status.WARN, f"{seen}{default}",
            f"{more}Senders that fq paces lose less in the buffers of the path.", mend,
        )  # fmt: skip


def judge_netem(device: str, qdiscs: str) -> Iterator[DoctorFinding]:
    """Judges whether netem may replace the device's queue for a while. Raises ValueError."""
    root, _ = _tree(qdiscs)
    kind = text_of(root, "kind", "the root qdisc")
    if _replaceable(root):
        yield DoctorFinding(f"queue {device}", Status.OK, f"{kind}; replaced by netem for the time of each run")
        return
    dead = " A run that died may have left it." if kind in ("netem", "tbf") else ""
    yield DoctorFinding(
        f"queue {device}", Status.FAIL, kind,
        f"ccmix replaces a queue only where it can put it back, and it could not put back this one.{dead}",
        (line("tc", "qdisc", "del", "dev", device, "root"),),
    )  # fmt: skip


def _tree(answer: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    qdiscs = objects(answer, "tc's answer")
    if any(not isinstance(qdisc.get("kind"), str) or not isinstance(qdisc.get("handle"), str) for qdisc in qdiscs):
        raise ValueError("tc's answer has a qdisc without kind or handle")
    root = root_of(qdiscs) or next((qdisc for qdisc in qdiscs if qdisc.get("root")), None)
    if root is None:
        raise ValueError("tc's answer has no root qdisc")
    return root, [qdisc for qdisc in qdiscs if not qdisc.get("root") and qdisc["kind"] not in ("clsact", "ingress")]


def _replaceable(root: dict[str, Any]) -> bool:
    return root["handle"] == "0:" or root["kind"] in RESTORABLE


def _flow_limit(device: str, root: dict[str, Any] | None, queues: list[dict[str, Any]]) -> Iterator[DoctorFinding]:
    """Judges drops by flow_limit: fq drops what a flow has beyond it in its queue (tc-fq(8)); a sender sees it as
    loss.
    """
    dropped = sum(count_of(fq, "flows_plimit", 0, "fq") for fq in queues)
    if not dropped:
        return
    what, seen = f"fq {device} flow_limit", f"{dropped} packets dropped by it so far"
    if all(_flow_limit_of(fq) >= FLOW_LIMIT_PACKETS for fq in queues):
        yield DoctorFinding(what, Status.OK, f"{seen}; it is {FLOW_LIMIT_PACKETS} now")
        return
    places = [["root"]] if root is not None else [["parent", text_of(fq, "parent", "fq")] for fq in queues]
    change = ["tc", "qdisc", "change", "dev", device]
    limits = ["fq", "flow_limit", str(FLOW_LIMIT_PACKETS)]
    mend = tuple(line(*change, *place, *limits) for place in places)
    yield DoctorFinding(what, Status.WARN, seen, "What fq drops here looks like loss of the path.", mend)


def _flow_limit_of(fq: dict[str, Any]) -> int:
    options = fq.get("options")
    return count_of(options, "flow_limit", 100, "fq") if isinstance(options, dict) else 0
