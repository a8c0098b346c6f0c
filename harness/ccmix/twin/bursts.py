"""Reads what came through of long trains of packets: more than a short queue or a policer's bucket holds."""

from dataclasses import dataclass

import polars as pl

from ccmix.analysis.step_tables import BUCKET_PACKETS
from ccmix.twin.observed import PathRun
from ccmix.twin.trains import LEAST_GAP_S

LEAST_TRAINS = 2
LOST_PACKETS = 4  # of each train, of which no usable path loses as many without a full queue
AT_ONCE = 1.5  # times the rate, above which packets did not leave a queue one after the other
LEAST_AT_ONCE = 4  # packets
MOSTLY_IN_FRONT = 0.8
CONTRADICTS = 1.5  # times what came of a train at most
WAITING_PACKETS = 3


@dataclass(frozen=True)
class Overflow:
    """Describes how a queue or a bucket overflows. Of the train of which most came, `packets` of `sent` did, and
    `in_front` is the most that came before a loss. `apart_bps` is the rate at which those came that followed the second
    one.

    `from_head` says whether all losses came in a row with others behind them: fq_codel drops what has waited longest
    (fq_codel_drop() in the kernel's net/sched/sch_fq_codel.c). A queue that drops at its tail loses the last ones, or,
    where packets come not much faster than they leave, every other one.
    """

    packets: int
    sent: int
    in_front: int
    packet_bytes: int
    apart_bps: float | None
    from_head: bool

    @property
    def held(self) -> int:
        """Returns how many packets waited when one was lost, or how many were left by a queue that drops at its head.

        One more is on its way, and one passes the lab's token bucket at once. Some of the others left while the train
        arrived: the share that came of the later packets shows how many.
        """
        if self.from_head:
            return max(self.packets - BUCKET_PACKETS, 0)
        of_later = max(self.packets - self.in_front, 0) / (self.sent - self.in_front)
        return round(max(self.in_front - BUCKET_PACKETS, 0) * (1 - of_later))

    @property
    def most_at_once_bytes(self) -> float:
        """Returns the most that may have come at once: the part of a packet that had no room counts, and one more."""
        return float((self.packets + 2) * self.packet_bytes)

    def contradicts(self, waits_s: float, rate_bps: float) -> bool:
        """Returns whether packets beside too much traffic wait longer than what came of a train could: then a queue
        elsewhere dropped it, or a limit of ICMP. So they do where they wait at all, but a train comes at once, through
        a bucket in front of a queue.
        """
        longer = waits_s * rate_bps / 8 > CONTRADICTS * self.most_at_once_bytes
        return longer or (self.at_once(rate_bps) and waits_s * rate_bps / 8 > WAITING_PACKETS * self.packet_bytes)

    def at_once(self, rate_bps: float) -> bool:
        """Returns whether the first packets came faster than the rate lets a queue send them, and hardly any others, as
        a policer passes them.
        """
        hardly_others = self.in_front >= MOSTLY_IN_FRONT * self.packets
        return self.packets >= LEAST_AT_ONCE and hardly_others and (self.apart_bps or 0.0) > AT_ONCE * rate_bps


def overflow(observed: PathRun) -> Overflow | None:
    """Returns how the path drops what comes at once; None where some train came whole, or nearly so."""
    step = observed.bursts
    if step is None or not step.packet_bytes or step.udp.height < LEAST_TRAINS:
        return None
    trains = step.udp.with_columns(came=pl.col("packets") - pl.col("lost_packets")).sort("came")
    best = trains.row(-1, named=True)
    if best["lost_packets"] < LOST_PACKETS or not best["came"]:
        return None
    apart_bps = None
    gaps = best["came"] - BUCKET_PACKETS
    if best["seconds"] >= gaps * LEAST_GAP_S and gaps > 0:  # else the receiver's card may have joined them
        apart_bps = gaps * step.packet_bytes * 8 / best["seconds"]
    in_a_row = pl.col("before_loss") + pl.col("lost_packets") + pl.col("after_loss") == pl.col("packets")
    from_head = trains.filter(in_a_row, pl.col("after_loss") > 0).height > trains.height / 2
    in_front = int(trains["before_loss"].max())  # type: ignore[arg-type]
    return Overflow(best["came"], best["packets"], in_front, step.packet_bytes, apart_bps, from_head)
