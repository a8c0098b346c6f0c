"""Makes the picture of a figure, with its title, its caption and its text for who can't see it."""

import re
from dataclasses import dataclass

from ccmix.charts.finish import titled
from ccmix.charts.json_types import Part
from ccmix.papers.experiment import Paper
from ccmix.papers.figure import Maps, OverBuffer, Plots, published_series, sources
from ccmix.papers.figure_data import Material, is_measured
from ccmix.papers.lab_settings import lab_settings
from ccmix.papers.map_drawing import MAP_COLUMNS, maps
from ccmix.papers.plot_drawing import over_buffer, plots

WITHOUT_TEXTS = {"aria": False}  # of each mark: they make the file twice as large, and an <img> shows none
INTERVALS = "the lab's means with 95% intervals"


@dataclass(frozen=True)
class DrawnFigure:
    """Holds a Vega-Lite specification, the picture's text for who can't see it, and the caption below it."""

    spec: Part
    alt_text: str
    caption: str


def drawn(figure: Maps | Plots | OverBuffer, paper: Paper, material: Material) -> DrawnFigure | None:
    """Returns the picture of a figure; None where the lab has measured nothing of it."""
    runs = material.of_entries(entry for _, entry in sources(figure))
    if not runs or not is_measured(figure, material):
        return None
    published = f"published ({'; '.join(published_series(figure))})" if published_series(figure) else ""
    match figure:
        case Maps():
            drawing, columns = maps(figure, material), MAP_COLUMNS
            marks = f"Left: {published}. Right: the lab's means."
        case Plots():
            drawing, columns, mark = plots(figure, material)
            marks = (f"Diamonds: {published}. " if published else "") + f"{mark}: {INTERVALS}."
        case OverBuffer():
            drawing, columns = over_buffer(figure, material), len(figure.panels)
            marks = f"Diamonds: {published}. Points: the lab's means."
    below = f"{marks} Lab: {lab_settings(runs)}."
    title = f"{paper.author.capitalize()} {_year(paper)}, {figure.name}: {figure.title}"
    caption = " ".join(filter(None, [f"{figure.name}, {figure.title}. {below}", figure.note]))
    spec = titled(title, below, "", drawing, columns)
    spec["config"] |= WITHOUT_TEXTS
    return DrawnFigure(spec, f"{title}. {below}", caption)


def _year(paper: Paper) -> str:
    """Returns the year that ends a citation."""
    found = re.search(r"\d{4}$", paper.citation)
    return found[0] if found else ""
