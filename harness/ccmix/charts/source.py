"""Where a chart's rows come from: written into it, or an answer of Elasticsearch."""

from dataclasses import dataclass

import polars as pl

from ccmix.charts.encodings import Part, rows


@dataclass(frozen=True)
class Source:
    """`data` as Vega-Lite has it; `transform` makes of its rows those that a chart's docstring names."""

    data: Part
    transform: tuple[Part, ...] = ()

    def view(self, drawing: Part, *further: Part) -> Part:
        """`drawing`, a view of one mark or of layers, of these rows after `further` transforms."""
        transform = [*self.transform, *further]
        return {"data": self.data} | ({"transform": transform} if transform else {}) | drawing


def inline(frame: pl.DataFrame) -> Source:
    return Source(rows(frame))
