"""What the slides of Zeynali et al. 2024 show: convergence, RTT fairness, and coexistence with CUBIC."""

from ccmix.papers.figure import CCA, Figure, PlotPanel, Plots

CONVERGENCE: tuple[Figure, ...] = (
    Plots(
        "Slides 'Two competing flows'",
        "time until two flows share fairly, at 16 BDP",
        ("convergence_s",),
        CCA,
        (
            PlotPanel("started together", "together"),
            PlotPanel("started 30 s apart", "apart"),
        ),
    ),
    Plots(
        "Beside these slides",
        "time until two flows that start 30 s apart share fairly, by buffer",
        ("convergence_s",),
        "buffer",
        (PlotPanel("started 30 s apart", "apart-by-buffer"),),
        ours=True,
    ),
)
HOSTS = {"h1": "long RTT", "h2": "short RTT"}
RTT: tuple[Figure, ...] = (
    Plots(
        "Slides 'RTT fairness'",
        "shares of two flows of different RTTs by buffer",
        ("share", "fairness"),
        "buffer",
        (
            PlotPanel("160 ms first, then 10 ms", "long-before-10ms"),
            PlotPanel("10 ms first, then 160 ms", "10ms-before-long"),
            PlotPanel("160 ms first, then 80 ms", "long-before-80ms"),
            PlotPanel("80 ms first, then 160 ms", "80ms-before-long"),
            PlotPanel("bbr2: 160 ms first, then 10 ms", "v2-long-before-10ms"),
            PlotPanel("bbr2: 10 ms first, then 160 ms", "v2-10ms-before-long"),
        ),
        hosts=HOSTS,
        columns=2,
    ),
)
BBRS = ("bbr", "bbr2", "bbr3")
COEXISTENCE: tuple[Figure, ...] = (
    Plots(
        "Slides 'Inter-CCA fairness: 1xBDP buffer'",
        "BBR's share beside CUBIC, and fairness",
        ("share", "fairness"),
        CCA,
        (
            PlotPanel("one BBR flow, four of CUBIC", "one-bbr-flow", series="one BBR flow"),
            PlotPanel("four BBR flows, one of CUBIC", "several-bbr-flows", series="several BBR flows"),
        ),
        BBRS,
    ),
    Plots(
        "Slide 'BBRv3' unfairness towards Cubic'",
        "one BBR flow beside one of CUBIC by buffer",
        ("share", "fairness"),
        "buffer",
        tuple(PlotPanel(f"{cca} and cubic", "one-beside-one", {"cca": f"{cca},cubic"}) for cca in BBRS),
    ),
)
