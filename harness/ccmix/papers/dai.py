"""Dai et al. 2018: one BBR flow against one CUBIC flow, by the size of the queue."""

from ccmix.charts.sweep import SweptAxis
from ccmix.papers.experiment import Bound, Experiment, Of, Paper, Statement
from ccmix.papers.figure import PlotPanel, Plots

PAPER = Paper(
    "dai",
    "T. Dai, X. Zhang and Z. Guo, Poster Abstract: Analysis and Experimental Investigation of BBR, INFOCOM 2018",
    "https://doi.org/10.1109/INFCOMW.2018.8406865",
)
QUEUES = {25: "6250b", 50: "12500b", 100: "25000b", 300: "75000b", 1000: "250000b"}  # in ms, at 2 Mbit/s
RTTS = ("10ms", "40ms", "100ms")


def _share_of_bbr(queue_ms: int, rtt: str) -> Of:
    return Of("share", "two-flows", cca="bbr", at={"buffer": QUEUES[queue_ms], "rtt": rtt})


STATEMENTS = (
    Statement(
        "bbr-ahead-at-small-queues",
        "III.B",
        "BBR gets more of the link than CUBIC where the queue is small.",
        tuple(Bound(_share_of_bbr(queue, rtt), least=0.5) for queue in (25, 50) for rtt in RTTS),
        "small: 25 and 50 ms, the two smallest",
    ),
    Statement(
        "fair-at-300-ms",
        "III.B",
        "The link is shared fairly where the queue is 300 ms.",
        tuple(Bound(_share_of_bbr(300, rtt), least=0.4, most=0.6) for rtt in RTTS),
        "fairly: BBR has between 40 and 60%",
    ),
    Statement(
        "fair-at-300-ms-only",
        "III.B",
        "A fair share is only achieved with a queue of 300 ms.",
        (
            *(Bound(_share_of_bbr(queue, rtt), least=0.6) for queue in (25, 50, 100) for rtt in RTTS),
            *(Bound(_share_of_bbr(1000, rtt), most=0.4) for rtt in RTTS),
        ),
        "not fair: BBR has more than 60% with smaller queues, and less than 40% with the larger one",
    ),
    Statement(
        "cubic-starved-at-small-queues",
        "I, II and IV",
        "BBR starves CUBIC where the queue is small.",
        tuple(Bound(_share_of_bbr(queue, rtt), least=0.6) for queue in (25, 50) for rtt in RTTS),
        "small: 25 and 50 ms; starves: CUBIC has less than 40%, as BBR has at the largest queue",
    ),
    Statement(
        "bbr-starved-at-the-largest-queue",
        "II and IV",
        "CUBIC starves BBR where the queue is large.",
        tuple(Bound(_share_of_bbr(1000, rtt), most=0.4) for rtt in RTTS),
        "large: 1000 ms; starves: BBR has less than 40%",
    ),
)

EXPERIMENTS = (
    Experiment(
        "dai-fig1",
        PAPER,
        "figure 1",
        "How do one BBR flow and one CUBIC flow share 2 Mbit/s, by the size of the queue?",
        STATEMENTS,
        figures=(
            Plots(
                "Figure 1",
                "utilisation of the channel by one BBR flow and one CUBIC flow",
                ("utilisation",),
                SweptAxis("buffer", "queue (ms)", {text: float(ms) for ms, text in QUEUES.items()}, "even"),
                tuple(PlotPanel(f"RTT {rtt}", "two-flows", {"rtt": rtt}) for rtt in RTTS),
            ),
        ),
    ),
)
