"""Describes where a chart's rows come from: they are written into it, or Elasticsearch answers with them."""

from dataclasses import dataclass

import polars as pl

from ccmix.charts.encodings import rows
from ccmix.charts.json_types import Part


@dataclass(frozen=True)
class ChartSource:
    """Holds `data` as Vega-Lite has it; `transform` turns its rows into those that a chart's docstring names."""

    data: Part
    transform: tuple[Part, ...] = ()

    def view(self, drawing: Part, *further: Part) -> Part:
        """Returns `drawing`, a view of one mark or of layers, with these rows as data after `further` transforms."""
        transform = [*self.transform, *further]
        return {"data": self.data} | ({"transform": transform} if transform else {}) | drawing


def inline(frame: pl.DataFrame) -> ChartSource:
    return ChartSource(rows(frame))
