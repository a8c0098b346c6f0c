"""Says in a sentence what came of a figure."""

from collections.abc import Sequence

from ccmix.papers import score_text, text
from ccmix.papers.figure import Figure, MapRow, Maps, OverBuffer, Plots, published_series, quantities, sources
from ccmix.papers.figure_data import UTILISATION, Material, map_cells, points_over_buffer
from ccmix.papers.scores import Score

TEXT_ALONE = "Of this figure text alone survives, so nothing published is drawn beside the lab's."
NOT_THERE = "This is not in the paper: the lab's alone is drawn."


def scores_of(figure: Figure, scores: Sequence[Score]) -> list[Score]:
    """Returns the scores that belong to a figure: of its quantities, and of its pairs of series and entry."""
    pairs = sources(figure)
    return [
        score
        for score in scores
        if score.comparison.quantity in quantities(figure)
        and (score.comparison.series, score.comparison.entry) in pairs
    ]


def sentence(figure: Figure, scores: Sequence[Score], material: Material) -> str:
    """Returns what came of a figure, by its scores where it has some that stand nowhere above."""
    if scores:
        return score_text.sentence(scores)
    if not published_series(figure):
        return NOT_THERE if isinstance(figure, Plots) and figure.ours else TEXT_ALONE
    match figure:
        case Maps():
            return f"Over the cells that both have: {'; '.join(_both(figure, row, material) for row in figure.rows)}."
        case OverBuffer():
            points = [point for point in points_over_buffer(figure, material) if point.number == UTILISATION]
            published = sum(point.published for point in points)
            own = len(points) - published
            return (
                f"{published} published utilisations stand beside {own} of the lab's, with gains and retransmissions."
            )
        case _:
            return "The scores of these numbers are above."


def _both(figure: Maps, row: MapRow, material: Material) -> str:
    """Returns the ranges of a map and of the lab's over the cells that both have."""
    there, here = (map_cells(figure, row, material, published=published) for published in (True, False))
    pairs = [
        (cell.value, own.value)
        for cell, own in zip(there, here, strict=True)
        if cell.value is not None and own.value is not None
    ]
    what = f"gain of {row.cca} over {row.over}" if row.over else row.cca
    if not pairs:
        return f"{what}, none"
    published, lab = (_range(figure, row, [pair[side] for pair in pairs]) for side in (0, 1))
    cells = text.counted(len(pairs), "cell", "cells")
    return f"{what} in {cells}, {published} published ({row.series}) and {lab} in the lab"


def _range(figure: Maps, row: MapRow, values: Sequence[float]) -> str:
    if not row.over:
        return " to ".join(text.of_quantity(figure.quantity, value) for value in (min(values), max(values)))
    least, most = (round(value, 2) + 0.0 for value in (min(values), max(values)))  # + 0.0: no minus before a zero
    return f"{least:+,.0%} to {most:+,.0%}"
