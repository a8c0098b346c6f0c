"""Figures 4 to 8 of Gomez et al. 2024: fairness, throughput and more against buffer, loss and RTT."""

from ccmix.papers.figure import Figure, PlotPanel, Plots

PAIRS = ("cubic,bbr3", "cubic,bbr2", "cubic,bbr", "bbr3,bbr2", "bbr3,bbr", "bbr2,bbr")
BY_BUFFER = (
    ("(a)", "two flows", "two-flows"),
    ("(b)", "100 flows", "hundred-flows"),
    ("(c)", "two flows and 0.025% of loss", "two-flows-loss"),
    ("(d)", "100 flows and 0.025% of loss", "hundred-flows-loss"),
)
FIG4: tuple[Figure, ...] = tuple(
    Plots(
        f"Figure 4 {letter}",
        f"fairness and throughput by buffer, {flows}",
        ("fairness", "goodput_bps"),
        "buffer",
        tuple(PlotPanel(pair.replace(",", " and "), entry, {"cca": pair}) for pair in PAIRS),
    )
    for letter, flows, entry in BY_BUFFER
)
FIG5: tuple[Figure, ...] = (
    Plots(
        "Figure 5",
        "fairness and throughput of two flows of one CCA by buffer",
        ("fairness", "goodput_bps"),
        "buffer",
        (
            PlotPanel("(a) bbr, drop-tail", "drop-tail", {"cca": "bbr"}),
            PlotPanel("(b) bbr2, drop-tail", "drop-tail", {"cca": "bbr2"}),
            PlotPanel("(c) bbr3, drop-tail", "drop-tail", {"cca": "bbr3"}),
            PlotPanel("(d) bbr3, FQ-CoDel", "fq-codel"),
        ),
        hosts={"h1": "RTT 20 ms", "h2": "RTT 100 ms"},
        columns=2,
    ),
)
FIG6: tuple[Figure, ...] = (
    Plots(
        "Figure 6",
        "queue occupancy and RTT by buffer",
        ("queue_mean_bdp", "queue_p95_bdp", "rtt_p95_s"),
        "buffer",
        (
            PlotPanel("one flow", "one-flow"),
            PlotPanel("the same, offloads on", "one-flow-offloads"),
            PlotPanel("the same, fq at the sender", "one-flow-fq"),
        ),
        log=True,
    ),
)
FIG7: tuple[Figure, ...] = (
    Plots(
        "Figure 7",
        "throughput and retransmissions by loss",
        ("goodput_bps", "retransmits"),
        "loss",
        (
            PlotPanel("one flow", "loss"),
            PlotPanel("the same, offloads on", "loss-offloads"),
            PlotPanel("the same, fq at the sender", "loss-fq"),
        ),
    ),
    Plots(
        "Beside figure 7",
        "a path of 100 Mbit/s and 40 ms on which Google's code was measured",
        ("goodput_bps", "retransmits"),
        "loss",
        (PlotPanel("one flow", "reference", series="Google's own code"),),
        ours=True,
    ),
)
FIG8: tuple[Figure, ...] = (
    Plots(
        "Figure 8",
        "throughput and retransmissions by RTT, with 0.025% of loss",
        ("goodput_bps", "retransmits"),
        "rtt",
        (PlotPanel("one flow", "one-flow"),),
    ),
)
