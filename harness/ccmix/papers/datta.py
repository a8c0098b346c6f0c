"""Datta and Fund 2023: one flow of CUBIC, BBR or BBRv2 by bandwidth, RTT and buffer."""

from ccmix.charts.sweep import SweptAxis
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
)

PAPER = Paper(
    "datta",
    "S. Datta and F. Fund, Replication: When to Use and When Not to Use BBR, IMC 2023",
    "https://doi.org/10.1145/3618257.3624837",
)
RATES = {"10mbit": 10, "20mbit": 20, "50mbit": 50, "100mbit": 100, "250mbit": 250, "500mbit": 500, "750mbit": 750,
         "1gbit": 1000}  # fmt: skip
RTTS = {"5ms": 5, "10ms": 10, "25ms": 25, "50ms": 50, "75ms": 75, "100ms": 100, "150ms": 150, "200ms": 200}
AXES = (
    SweptAxis("rate", "bandwidth (Mbit/s)", {text: float(value) for text, value in RATES.items()}, "log"),
    SweptAxis("ack-delay", "RTT (ms)", {text: float(value) for text, value in RTTS.items()}, "log"),
)
LARGEST = {"rate": "1gbit", "ack-delay": "200ms"}
LARGE = (LARGEST, {"rate": "1gbit", "ack-delay": "50ms"})  # paths with a high BDP, in both forms


def _of(quantity: Quantity, cca: str, at: dict[str, str], entry: str = "shallow") -> Of:
    return Of(quantity, entry, cca=cca, at=at | {"cca": cca})


def _ratio(quantity: Quantity, cca: str, other: str, at: dict[str, str], entry: str = "shallow") -> Quotient:
    return Quotient(_of(quantity, cca, at, entry), _of(quantity, other, at, entry))


STATEMENTS = (
    Statement(
        "bbr-gains-at-high-bdp",
        "3.1",
        "With a shallow buffer and a high BDP, the goodput gain of BBR over CUBIC is of the order of 100% or 1000%; "
        "BBRv2's, too.",
        tuple(Bound(_ratio("goodput_bps", cca, "cubic", at), least=2.0) for cca in ("bbr", "bbr2") for at in LARGE),
        "at least 100%, that is twice CUBIC's goodput, at 1 Gbit/s with 50 and 200 ms",
    ),
    Statement(
        "cubic-below-10-percent",
        "3.1",
        "CUBIC uses less than 10% of the link in the most extreme case.",
        (Bound(_of("utilisation", "cubic", LARGEST), most=0.1),),
        "most extreme: 100 KB, 1 Gbit/s, 200 ms",
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
    entry: str, buffer: str, quantity: Quantity, of_cubic: Criterion, of_bbr: Criterion
) -> list[BesidePublished]:
    """Returns a comparison for each kernel and CCA."""
    return [
        BesidePublished(
            f"{buffer}, kernel {kernel}",
            entry,
            quantity,
            of_cubic if cca == "cubic" else of_bbr,
            (cca,),
            ceiling=f"{buffer}, kernel {OTHER[kernel]}" if cca == "cubic" else "",
        )
        for kernel, ccas in KERNELS.items()
        for cca in ccas
    ]


COMPARISONS = (
    *_comparisons("shallow", "100 KB", "utilisation", RANKS, UTILISATIONS),
    *_comparisons("shallow-fq", "100 KB", "utilisation", RANKS, UTILISATIONS),
    *_comparisons("shallow", "100 KB", "retransmits", RETRANSMISSIONS, RETRANSMISSIONS),
    *_comparisons("deep", "10 MB", "utilisation", UTILISATIONS, UTILISATIONS),
    *_comparisons("deep", "10 MB", "retransmits", RETRANSMISSIONS, RETRANSMISSIONS),
)

EXPERIMENTS = (
    Experiment(
        "datta-fig2",
        PAPER,
        "figures 2 to 5",
        "When is BBR faster than CUBIC, by bandwidth, RTT and buffer, and at what price in retransmissions?",
        STATEMENTS,
        COMPARISONS,
        charts=("heat-map",),
        axes=AXES,
        unsettled="the paper's flows send for 60 s, of which none is left out, as here",
    ),
)
