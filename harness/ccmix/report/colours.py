"""The colour of each CCA, the same in the HTML report, in its charts and in Kibana."""

# Colours that differ for colour-blind readers too (Okabe and Ito), fixed for the most used CCAs.
COLOURS = {
    "cubic": "#D55E00", "bbr": "#0072B2", "bbr2": "#009E73", "bbr3": "#CC79A7", "reno": "#E69F00", "htcp": "#56B4E9",
}  # fmt: skip
OTHER_COLOURS = ("#000000", "#999999", "#F0E442", "#7F3C8D", "#11A579", "#A5AA99")
