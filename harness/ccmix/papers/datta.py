"""Datta and Fund 2023: one flow of CUBIC, BBR or BBRv2 by bandwidth, RTT and buffer."""

import math

from ccmix.papers.datta_figures import FIGURES, SHALLOW
from ccmix.papers.experiment import (
    BesidePublished,
    Bound,
    Criterion,
    Experiment,
    Of,
    Paper,
    Quantity,
    Quotient,
    Statement,
    Tried,
)

PAPER = Paper(
    "datta",
    "S. Datta and F. Fund, Replication: When to Use and When Not to Use BBR, IMC 2023",
    "https://doi.org/10.1145/3618257.3624837",
)
LARGEST = {"rate": "1gbit", "ack-delay": "200ms"}
LARGE = (LARGEST, {"rate": "1gbit", "ack-delay": "50ms"})  # paths with a high BDP, in both forms


def _of(quantity: Quantity, cca: str, at: dict[str, str], entry: str = SHALLOW) -> Of:
    return Of(quantity, entry, cca=cca, at=at | {"cca": cca})


def _ratio(quantity: Quantity, cca: str, other: str, at: dict[str, str], entry: str = SHALLOW) -> Quotient:
    return Quotient(_of(quantity, cca, at, entry), _of(quantity, other, at, entry))


def _of_buffers(quantity: Quantity, cca: str, least: float, below: float, entry: str = "shallow") -> Of:
    """Selects all cells whose buffer, as a ratio of the path's BDP, is in a part of figure 6."""
    return Of(quantity, entry, cca=cca, at={"cca": cca}, buffer_bdp=(least, below))


SLOTS = "shallow-slots or shallow-slots-more or shallow-slots-slower"
JOINED = "shallow-joined or shallow-joined-more"
TIMING = (
    Tried(SLOTS, "ACKs in slots of 800 us", ccas=("cubic",)),
    Tried(JOINED, "packets joined within 500 us", ccas=("cubic",)),
)
STATEMENTS = (
    Statement(
        "bbr-gains-at-high-bdp",
        "3.1, figure 2a",
        "With a shallow buffer and a high BDP, BBR's advantage over CUBIC is of the order of 100x or 1000x; BBRv2's, "
        "too.",
        tuple(Bound(_ratio("goodput_bps", cca, "cubic", at), least=2.0) for cca in ("bbr", "bbr2") for at in LARGE),
        "100% or 1000%: the gain of equation 1 is in percent, and the goodputs of the paper's own artifact are at most "
        "25 times as large. So at least twice CUBIC's goodput, at 1 Gbit/s with 50 and 200 ms",
        tried=TIMING,
    ),
    Statement(
        "cubic-below-10-percent",
        "3.1",
        "CUBIC uses less than 10% of the link in the most extreme case.",
        (Bound(_of("utilisation", "cubic", LARGEST), most=0.1),),
        "most extreme: 100 KB, 1 Gbit/s, 200 ms",
        tried=TIMING,
    ),
    Statement(
        "cubic-degraded-below-0.4-bdp",
        "4, figures 2b and 6a",
        "CUBIC uses less of the link where the buffer has less than 0.4 BDP.",
        (
            Bound(_of_buffers("utilisation", "cubic", 0.0, 0.1), most=0.9),
            Bound(_of_buffers("utilisation", "cubic", 0.1, 0.4), most=0.9),
            Bound(_of_buffers("utilisation", "cubic", 0.4, math.inf), least=0.9),
        ),
        "less: the mean of the cells is below 90%, and from 0.4 BDP on it is not",
    ),
    Statement(
        "bbr-84-percent",
        "3.1",
        "BBR uses 84% of the link at 1 Gbit/s and 200 ms.",
        (Bound(_of("utilisation", "bbr", LARGEST), least=0.79, most=0.89),),
        "at most 0.05 off",
    ),
    Statement(
        "bbr2-slightly-below-bbr",
        "4",
        "BBRv2 uses slightly less of the link than BBR where the BDP is high.",
        tuple(Bound(_ratio("goodput_bps", "bbr2", "bbr", at), least=0.75, most=1.0) for at in LARGE),
        "slightly: by at most a quarter",
    ),
    Statement(
        "bbr-retransmits-hundreds-of-thousands",
        "3.1",
        "A BBR flow may retransmit hundreds of thousands of segments in 60 seconds.",
        (Bound(_of("retransmits", "bbr", LARGEST), least=1e5),),
    ),
    Statement(
        "cubic-retransmits-far-less",
        "3.1",
        "CUBIC retransmits far fewer segments than BBR where the BDP is high.",
        tuple(Bound(_ratio("retransmits", "bbr", "cubic", at), least=10.0) for at in LARGE),
        "far fewer: a tenth or less",
    ),
    Statement(
        "bbr2-retransmits-less",
        "3.1",
        "BBRv2 retransmits an order of magnitude fewer segments than BBR.",
        tuple(Bound(_ratio("retransmits", "bbr", "bbr2", at), least=10**0.5) for at in LARGE),
        "an order of magnitude: by a factor nearer to 10 than to 1",
    ),
    Statement(
        "bbr-retransmits-too-much-below-1-bdp",
        "4, figures 3, 5 and 6",
        "To avoid excessive retransmission by BBR, the buffer needs at least 1 BDP.",
        (
            Bound(_of_buffers("retransmission_rate", "bbr", 0.0, 1.0), least=0.01),
            Bound(_of_buffers("retransmission_rate", "bbr", 1.0, math.inf), most=0.01),
            Bound(_of_buffers("retransmission_rate", "bbr", 1.0, math.inf, "deep"), most=0.01),
        ),
        "excessive: more than 1% of the segments, in the mean of the cells",
    ),
    Statement(
        "bbr-retransmits-nothing-with-a-large-buffer",
        "3.2 and 4, figures 3, 5 and 6",
        "BBR retransmits nothing where the buffer is sufficiently large relative to the BDP.",
        tuple(
            Bound(_of_buffers("retransmits", "bbr", 4.0, math.inf, entry), most=0.0) for entry in ("shallow", "deep")
        ),
        "sufficiently large: 4 BDP and more, where the paper's own artifact has no retransmission",
    ),
    Statement(
        "bbr-retransmits-less-with-a-deep-buffer",
        "3.2, figure 5",
        "With a deep buffer BBR retransmits many fewer segments than with a shallow one.",
        tuple(
            Bound(
                Quotient(
                    _of("retransmits", "bbr", {"rate": rate, "ack-delay": "200ms"}, "deep"),
                    _of("retransmits", "bbr", {"rate": rate, "ack-delay": "200ms"}),
                ),
                most=0.1,
            )
            for rate in ("10mbit", "100mbit")
        ),
        "many fewer: a tenth or less, at 10 and 100 Mbit/s with 200 ms",
    ),
    Statement(
        "cubic-retransmits-more-with-a-deep-buffer",
        "3.2, figure 5",
        "With a deep buffer CUBIC retransmits more than with a shallow one if the BDP is high or the bandwidth small.",
        tuple(
            Bound(Quotient(_of("retransmits", "cubic", at, "deep"), _of("retransmits", "cubic", at)), least=1.0)
            for at in ({"rate": "10mbit", "ack-delay": "5ms"}, {"rate": "10mbit", "ack-delay": "200ms"}, LARGEST)
        ),
        "small: 10 Mbit/s; high: 1 Gbit/s with 200 ms",
    ),
    Statement(
        "well-used-with-a-deep-buffer",
        "3.2, figure 4b",
        "With a deep buffer the utilisation of all three is generally very close to 100%.",
        tuple(
            Bound(Of("utilisation", "deep", cca=cca, at={"cca": cca}), least=0.9) for cca in ("cubic", "bbr", "bbr2")
        ),
        "very close: at least 90%, in the mean of all cells",
    ),
    Statement(
        "cubic-slightly-ahead-with-a-deep-buffer",
        "3.2, figure 4a",
        "With a deep buffer CUBIC has a consistent, small advantage over BBR and BBRv2.",
        tuple(
            Bound(_ratio("goodput_bps", cca, "cubic", {"rate": rate, "ack-delay": rtt}, "deep"), most=1.0)
            for cca in ("bbr", "bbr2")
            for rate in ("10mbit", "100mbit", "1gbit")
            for rtt in ("5ms", "200ms")
        ),
        "consistent: in each of the cells; how small it is, no-advantage-with-a-deep-buffer says",
    ),
    Statement(
        "no-advantage-with-a-deep-buffer",
        "3.2",
        "With a deep buffer none of the three has a substantial advantage in goodput.",
        tuple(
            Bound(_ratio("goodput_bps", cca, "cubic", {"rate": rate, "ack-delay": rtt}, "deep"), least=0.9, most=1.1)
            for cca in ("bbr", "bbr2")
            for rate in ("10mbit", "100mbit", "1gbit")
            for rtt in ("5ms", "200ms")
        ),
        "substantial: more than 10%",
    ),
)
RANKS = Criterion()
UTILISATIONS = Criterion(least_rank=None, most_factor=None, least_within=0.9)
RETRANSMISSIONS = Criterion(most_factor=None)
KERNELS = {"4.15": ("cubic", "bbr"), "5.13": ("cubic", "bbr2")}
OTHER = {"4.15": "5.13", "5.13": "4.15"}  # that CUBIC was measured with as well


def _comparisons(
    entry: str,
    buffer: str,
    quantity: Quantity,
    of_cubic: Criterion | None,
    of_bbr: Criterion | None,
    tried: tuple[Tried, ...] = (),
) -> list[BesidePublished]:
    """Returns a comparison for each kernel and CCA; what was tried is of CUBIC."""
    return [
        BesidePublished(
            f"{buffer}, kernel {kernel}",
            entry,
            quantity,
            of_cubic if cca == "cubic" else of_bbr,
            (cca,),
            tried if cca == "cubic" else (),
            ceiling=f"{buffer}, kernel {OTHER[kernel]}" if cca == "cubic" else "",
        )
        for kernel, ccas in KERNELS.items()
        for cca in ccas
    ]


COMPARISONS = (
    *_comparisons(SHALLOW, "100 KB", "utilisation", RANKS, UTILISATIONS, TIMING),
    *_comparisons("shallow-fq", "100 KB", "utilisation", None, None),
    *_comparisons(SHALLOW, "100 KB", "retransmits", RETRANSMISSIONS, RETRANSMISSIONS),
    *_comparisons("deep", "10 MB", "utilisation", UTILISATIONS, UTILISATIONS),
    *_comparisons("deep-fq", "10 MB", "utilisation", None, None),
    *_comparisons("deep", "10 MB", "retransmits", RETRANSMISSIONS, RETRANSMISSIONS),
)

EXPERIMENTS = (
    Experiment(
        "datta-fig2",
        PAPER,
        "figures 2 to 6",
        "When is BBR faster than CUBIC, by bandwidth, RTT and buffer, and at what price in retransmissions?",
        STATEMENTS,
        COMPARISONS,
        figures=FIGURES,
        whys=("datta-fund", "sender-queue"),
        unsettled="the paper's flows send for 60 s, of which none is left out, as here",
    ),
)
