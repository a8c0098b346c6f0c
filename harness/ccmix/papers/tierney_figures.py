"""Table II of Tierney et al. 2021 in its own layout and as a picture, and the sweeps behind figure 15."""

from ccmix.papers.experiment import Quantity
from ccmix.papers.figure import Figure, PaperTable, PaperTableColumn, PaperTableLine, PlotPanel, Plots

LOSSES = {"0%": "none", "0.001%": "0.001%", "0.01%": "0.01%", "0.1%": "0.1%"}
TESTS = (
    ("one flow, BBRv2 or CUBIC", "one-stream", "one stream"),
    ("16 flows, BBRv2 or CUBIC", "sixteen-streams", "16 streams"),
    ("16 flows, both", "both", "16 streams, both"),
)
WITHOUT_A_RATE = ("one flow, no rate at the sender's card", "one-stream-fast-card-all", "one stream")
BUCKETS = {"RTT < 30 ms": "2ms or 5ms or 10ms", "RTT ≥ 30 ms": "20ms or 30ms or 50ms"}
COLUMNS: tuple[tuple[str, Quantity, float], ...] = (("M", "goodput_bps", 1e9), ("C.V.", "variation", 1.0))
SUSPECT = (
    "BBRv2 with one flow and 0.01% of loss is left out of the published numbers: it is far below the same with 0.1%, "
    "and its source is marked as an older version."
)
TABLE2: tuple[Figure, ...] = (
    PaperTable(
        "Table II",
        "mean throughput in Gbit/s (M) and its coefficient of variation (C.V.)",
        ("loss", "test"),
        tuple(
            PaperTableLine((called, test), entry, series, {"loss": loss})
            for loss, called in LOSSES.items()
            for test, entry, series in TESTS
        ),
        tuple(
            PaperTableColumn(f"{bucket}, {called}, {letter}", quantity, cca, {"delay": delays}, unit_size)
            for bucket, delays in BUCKETS.items()
            for called, cca in (("BBRv2", "bbr2"), ("CUBIC", "cubic"))
            for letter, quantity, unit_size in COLUMNS
        ),
        SUSPECT,
    ),
    Plots(
        "Table II",
        "the same as a picture",
        ("goodput_bps",),
        "loss",
        tuple(
            PlotPanel(f"{test}, {bucket}", entry, {"delay": delays}, series)
            for test, entry, series in (*TESTS, WITHOUT_A_RATE)
            for bucket, delays in BUCKETS.items()
        ),
        log=True,
        columns=2,
        note="Figures 2 to 5 are runs over time that survive as their captions alone; the statements below are about "
        "them.",
    ),
)
SWEPT = ("min_rtt_win_sec", "probe_rtt_mode_ms", "loss_thresh", "pacing_gain_up", "pacing_gain_down")
KEYS = {"pacing_gain_up": "pacing_gain", "pacing_gain_down": "pacing_gain"}  # where the key is not the entry's name
FIG15: tuple[Figure, ...] = tuple(
    Plots(
        "Figure 15",
        f"throughput of two BBRv2 flows beside two of CUBIC by {entry}",
        ("goodput_bps", "retransmission_rate"),
        KEYS.get(entry, entry),
        (PlotPanel(entry, entry),),
    )
    for entry in SWEPT
)
