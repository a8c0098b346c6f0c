"""Tierney et al. 2021: CUBIC and BBRv2 on data transfer nodes, over 10 Gbit/s."""

from collections.abc import Iterator

from ccmix.papers import tierney_figures
from ccmix.papers.experiment import (
    ALTERNATIVES,
    BesidePublished,
    Bound,
    Criterion,
    Experiment,
    MeanOf,
    Of,
    Paper,
    Quantity,
    Quotient,
    Statement,
    Tried,
)

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


def _all_runs(entry: str) -> str:
    """Returns an entry with the one that has more runs of some cells."""
    return ALTERNATIVES.join((entry, f"{entry}-again"))


BOTH = _all_runs("both")


def _alone(entry: str, cca: str, loss: str, delay: str) -> Of:
    return Of("goodput_bps", _all_runs(entry), cca=cca, at={"cca": cca, "loss": loss, "delay": delay})


def _bbr2_over_cubic(entry: str, loss: str, delay: str) -> Quotient:
    return Quotient(_alone(entry, "bbr2", loss, delay), _alone(entry, "cubic", loss, delay))


def _both(loss: str, delay: str) -> Quotient:
    at = {"loss": loss, "delay": delay}
    return Quotient(Of("goodput_bps", BOTH, cca="bbr2", at=at), Of("goodput_bps", BOTH, cca="cubic", at=at))


def _share_of_bbr2(loss: str, delay: str) -> Of:
    return Of("share", BOTH, cca="bbr2", at={"loss": loss, "delay": delay})


LOSSES = ("0%", "0.001%", "0.01%", "0.1%")
SHORT, LONG = ALTERNATIVES.join(("2ms", "5ms", "10ms")), ALTERNATIVES.join(("20ms", "30ms", "50ms"))


def _variation(cca: str, delays: str) -> MeanOf:
    """Selects the coefficients of variation of a CCA in all rows of table II."""
    alone = (
        Of("variation", entry, cca=cca, at={"cca": cca, "loss": loss, "delay": delays})
        for entry in ("one-stream", "sixteen-streams")
        for loss in LOSSES
    )
    mixed = (Of("variation", "both", cca=cca, at={"loss": loss, "delay": delays}) for loss in LOSSES)
    return MeanOf((*alone, *mixed))


TABLE2 = (
    Statement(
        "bbr2-near-line-rate",
        "V.A, figure 2",
        "A single BBRv2 flow is close to line rate with 0.001% of loss.",
        tuple(Bound(_alone("one-stream", "bbr2", "0.001%", delay), least=9e9) for delay in ("5ms", "30ms")),
        "close: at least 9 Gbit/s; RTTs of 10 and 60 ms",
        tried=(
            Tried("one-stream-offloads", "offloads on"),
            Tried("one-stream-fast-card", "no rate at the sender's card"),
            Tried("one-stream-longer", "twice the time"),
        ),
    ),
    Statement(
        "cubic-drops-with-little-loss",
        "V.A, figure 2",
        "A single CUBIC flow drops considerably with 0.001% of loss.",
        tuple(Bound(_alone("one-stream", "cubic", "0.001%", delay), most=5e9) for delay in ("5ms", "30ms")),
        "considerably: to less than half of the line rate; RTTs of 10 and 60 ms",
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
        (
            Bound(_both("0.01%", "5ms"), least=1.0),
            *(Bound(_both(*cell), least=1.5) for cell in (("0.01%", "50ms"), ("0.1%", "5ms"), ("0.1%", "50ms"))),
        ),
        "clear: by 50% or more; RTTs of 10 and 100 ms, as in the figures. At 10 ms and 0.01%, where section V.C says "
        "about 15%, it wins at all",
    ),
    Statement(
        "fifteen-percent-at-low-latency",
        "V.C on figure 4a",
        "BBRv2 is about 15% faster than CUBIC at 10 ms with 0.01% of loss.",
        (Bound(_both("0.01%", "5ms"), least=1.05, most=1.25),),
        "about: 5 to 25%",
    ),
    Statement(
        "four-times-at-high-latency",
        "V.C on figure 4b",
        "BBRv2 is around four times as fast as CUBIC with 16 flows, high latency and loss around 0.01%.",
        (Bound(_both("0.01%", "50ms"), least=3.0, most=5.0),),
        "around: 3 to 5 times; 100 ms, as in the figure",
    ),
    Statement(
        "advantage-grows-with-the-rtt",
        "V.A, figures 4 and 5",
        "BBRv2's advantage over CUBIC increases with the RTT.",
        tuple(
            Bound(Quotient(_share_of_bbr2(loss, "50ms"), _share_of_bbr2(loss, "5ms")), least=1.0)
            for loss in ("0.01%", "0.1%")
        ),
        "its share is larger at 100 than at 10 ms",
    ),
    Statement(
        "advantage-grows-with-loss",
        "V.A, figure 5, and VI",
        "BBRv2 does even better with 0.1% of loss than with 0.01%.",
        tuple(
            Bound(Quotient(_share_of_bbr2("0.1%", delay), _share_of_bbr2("0.01%", delay)), least=1.0)
            for delay in ("5ms", "50ms")
        ),
        "its share is larger, at 10 and at 100 ms",
    ),
    Statement(
        "bbr2-more-stable",
        "V.F, table II",
        "BBRv2 is much more stable than CUBIC: its coefficient of variation is a fourth of CUBIC's below 30 ms of RTT, "
        "and a fifth from 30 ms on.",
        tuple(
            Bound(Quotient(_variation("cubic", delays), _variation("bbr2", delays)), least=2.0)
            for delays in (SHORT, LONG)
        ),
        "the mean over the 12 rows, as in the paper; much more: at least twice. The coefficient is that over the three "
        "RTTs, in each iteration; the paper's is over its iterations, too",
    ),
)


FAST_CARD = Tried("one-stream-fast-card-all", "no rate at the sender's card")


def _beside(quantity: Quantity, criterion: Criterion) -> Iterator[BesidePublished]:
    """Yields a comparison for each part of table II.

    Both CCAs are ranked together: the goodput of one is almost constant in some parts, and its ranks are noise.
    """
    for series, entry, tried in (
        ("one stream", "one-stream", (FAST_CARD,)),
        ("16 streams", "sixteen-streams", ()),
        ("16 streams, both", "both", ()),
    ):
        yield BesidePublished(series, entry, quantity, criterion, tried=tried)
    yield BesidePublished("one stream", FAST_CARD.entry, quantity, None)


DEFAULTS = {"min_rtt_win_sec": "10", "probe_rtt_mode_ms": "200", "loss_thresh": "5", "pacing_gain_up": "320",
            "pacing_gain_down": "192"}  # fmt: skip
OTHERS = {
    "min_rtt_win_sec": ("1", "2", "5", "20"),
    "probe_rtt_mode_ms": ("10", "25", "50", "100", "500"),
    "loss_thresh": ("1", "2", "3", "4"),
    "pacing_gain_up": ("288", "384", "512"),
    "pacing_gain_down": ("128", "160", "224"),
}  # by their entries
A_TENTH = {"min_rtt_win_sec": "a tenth of rate and buffer, five minutes as in the paper"}
PARAMETERS = {"pacing_gain_up": "pacing_gain", "pacing_gain_down": "pacing_gain"}  # where they are not the entry's name


def _of_bbr2(entry: str, value: str) -> Of:
    return Of("goodput_bps", entry, cca="bbr2", at={PARAMETERS.get(entry, entry): value})


def _default_is_best(entry: str, what: str) -> Statement:
    default = _of_bbr2(entry, DEFAULTS[entry])
    return Statement(
        f"default-{entry.replace('_', '-')}-is-best",
        "V.E",
        f"The default of {what} gives the best performance.",
        tuple(Bound(Quotient(_of_bbr2(entry, value), default), most=1.05) for value in OTHERS[entry]),
        "performance: BBRv2's goodput; best: no other value is better by more than 5%",
        tried=(Tried(f"{entry}-tenth", A_TENTH.get(entry, "a tenth of rate and buffer, two minutes")),),
    )


FIG15 = (
    _default_is_best("min_rtt_win_sec", "min_rtt_win_sec, 10 s,"),
    _default_is_best("probe_rtt_mode_ms", "probe_rtt_mode_ms, 200 ms,"),
    _default_is_best("loss_thresh", "loss_thresh, 5,"),
    _default_is_best("pacing_gain_up", "pacing_gain's first element, 320/256,"),
    _default_is_best("pacing_gain_down", "pacing_gain's second element, 192/256,"),
)

EXPERIMENTS = (
    Experiment(
        "tierney-table2",
        PAPER,
        "table II, figures 2 to 5",
        "How fast are flows of CUBIC and of BBRv2, alone and mixed, by loss and RTT?",
        TABLE2,
        (*_beside("goodput_bps", Criterion()), *_beside("variation", Criterion(most_factor=None))),
        figures=tierney_figures.TABLE2,
        whys=("cca",),
        unsettled=UNSETTLED,
    ),
    Experiment(
        "tierney-fig15",
        PAPER,
        "figure 15",
        "Are BBRv2's default parameters the best ones beside CUBIC?",
        FIG15,
        figures=tierney_figures.FIG15,
        whys=("cca",),
        unsettled=UNSETTLED,
    ),
)
