"""Tierney et al. 2021: CUBIC and BBRv2 on data transfer nodes, over 10 Gbit/s."""

from ccmix.papers.experiment import BesidePublished, Bound, Experiment, Of, Paper, Quotient, Statement

PAPER = Paper(
    "tierney",
    "B. Tierney, E. Dart, E. Kissel and E. Adhikarla, Exploring the BBRv2 Congestion Control Algorithm for use on Data "
    "Transfer Nodes, INDIS 2021",
    "https://doi.org/10.1109/INDIS54524.2021.00008",
)
UNSETTLED = (
    "the paper's flows send for five minutes, of which none is left out, as those of the full form; the reduced form's "
    "send for less"
)


def _alone(entry: str, cca: str, loss: str, delay: str) -> Of:
    return Of("goodput_bps", entry, cca=cca, at={"cca": cca, "loss": loss, "delay": delay})


def _bbr2_over_cubic(entry: str, loss: str, delay: str) -> Quotient:
    return Quotient(_alone(entry, "bbr2", loss, delay), _alone(entry, "cubic", loss, delay))


def _both(loss: str, delay: str) -> Quotient:
    at = {"loss": loss, "delay": delay}
    return Quotient(Of("goodput_bps", "both", cca="bbr2", at=at), Of("goodput_bps", "both", cca="cubic", at=at))


TABLE2 = (
    Statement(
        "bbr2-near-line-rate",
        "V.A, figure 2",
        "A single BBRv2 flow is close to line rate with 0.001% of loss.",
        tuple(Bound(_alone("one-stream", "bbr2", "0.001%", delay), least=9e9) for delay in ("5ms", "30ms")),
        "close: at least 9 Gbit/s; RTTs of 10 and 60 ms",
    ),
    Statement(
        "cubic-drops-with-little-loss",
        "V.A, figure 2",
        "A single CUBIC flow drops considerably with 0.001% of loss.",
        (Bound(_alone("one-stream", "cubic", "0.001%", "30ms"), most=5e9),),
        "considerably: to less than half of the line rate, at 60 ms",
    ),
    Statement(
        "sixteen-alike-with-little-loss",
        "V.A, figure 3",
        "16 flows of CUBIC and 16 of BBRv2 have very similar throughput with 0.001% of loss, even at high latency.",
        tuple(
            Bound(_bbr2_over_cubic("sixteen-streams", "0.001%", delay), least=0.9, most=1.1)
            for delay in ("5ms", "30ms")
        ),
        "very similar: within 10%; RTTs of 10 and 60 ms",
    ),
    Statement(
        "bbr2-wins-with-more-loss",
        "V.A, figures 4 and 5",
        "BBRv2 is the clear winner beside CUBIC with 0.01% and with 0.1% of loss.",
        tuple(Bound(_both(loss, delay), least=1.5) for loss in ("0.01%", "0.1%") for delay in ("5ms", "30ms")),
        "clear: by 50% or more; RTTs of 10 and 60 ms",
    ),
    Statement(
        "four-times-at-high-latency",
        "V.C",
        "BBRv2 is around four times as fast as CUBIC with 16 flows, high latency and loss around 0.01%.",
        (Bound(_both("0.01%", "30ms"), least=3.0, most=5.0),),
        "around: 3 to 5 times; 60 ms",
    ),
)
FIG15_VALUES = ("1", "2", "5", "20")


def _of_bbr2(value: str) -> Of:
    return Of("goodput_bps", "min_rtt_win_sec", cca="bbr2", at={"min_rtt_win_sec": value})


FIG15 = (
    Statement(
        "default-is-best",
        "V.E",
        "The default of min_rtt_win_sec, 10 s, gives the best performance.",
        tuple(Bound(Quotient(_of_bbr2(value), _of_bbr2("10")), most=1.05) for value in FIG15_VALUES),
        "performance: BBRv2's goodput; best: no other value is better by more than 5%",
    ),
)

EXPERIMENTS = (
    Experiment(
        "tierney-table2",
        PAPER,
        "table II, figures 2 to 5",
        "How fast are flows of CUBIC and of BBRv2, alone and mixed, by loss and RTT?",
        TABLE2,
        # The goodput of one CCA is almost constant in some series, and its ranks are noise: both are ranked together
        tuple(
            BesidePublished(series, entry, "goodput_bps")
            for series, entry in (
                ("one stream", "one-stream"),
                ("16 streams", "sixteen-streams"),
                ("16 streams, both", "both"),
            )
        ),
        charts=("table",),
        unsettled=UNSETTLED,
    ),
    Experiment(
        "tierney-fig15",
        PAPER,
        "figure 15",
        "Are BBRv2's default parameters the best ones beside CUBIC?",
        FIG15,
        unsettled=UNSETTLED,
    ),
)
