"""Gives each CCA its colour, the same in the HTML report, in all charts and in Kibana."""

from collections.abc import Iterable

# Colours that differ for colour-blind readers too (Okabe and Ito), fixed for the most used CCAs.
COLOURS = {
    "cubic": "#D55E00", "bbr": "#0072B2", "bbr2": "#009E73", "bbr3": "#CC79A7", "reno": "#E69F00", "htcp": "#56B4E9",
}  # fmt: skip
OTHER_COLOURS = ("#000000", "#999999", "#F0E442", "#7F3C8D", "#11A579", "#A5AA99")
# The rest of Linux' CCAs: Vega draws a CCA that is in no scale in the range's first colours again.
OTHER_CCAS = ("bic", "cdg", "dctcp", "highspeed", "hybla", "illinois", "lp", "nv", "scalable", "vegas", "veno",
              "westwood", "yeah")  # fmt: skip
NO_CCA = "#666666"  # UDP, and flows of an unknown CCA
ONE_COLOUR = "#333333"  # what belongs to no CCA, such as the fairness of a whole run


def all_colours() -> dict[str, str]:
    """Returns the colour of every CCA of Linux."""
    return COLOURS | {cca: OTHER_COLOURS[number % len(OTHER_COLOURS)] for number, cca in enumerate(OTHER_CCAS)}


def colours_of(ccas: Iterable[str]) -> dict[str, str]:
    """Returns the colours of these CCAs, in alphabetical order; CCAs that Linux doesn't have get OTHER_COLOURS."""
    known, wanted = all_colours() | {"-": NO_CCA}, sorted(set(ccas))
    unknown = [cca for cca in wanted if cca not in known]
    more = {cca: OTHER_COLOURS[number % len(OTHER_COLOURS)] for number, cca in enumerate(unknown)}
    return {cca: (known | more)[cca] for cca in wanted}
