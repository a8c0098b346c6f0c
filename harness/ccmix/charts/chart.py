"""Describes a chart that is ready to be drawn."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from ccmix.charts.json_types import Part

Kind = Literal["setting", "heat-map", "share", "box", "distribution", "table", "time-series", "bbr-state"]
Image = Literal["svg", "png", "json"]
KINDS: tuple[Kind, ...] = get_args(Kind)  # in the order in which a report shows them


@dataclass(frozen=True)
class Chart:
    """Holds a Vega-Lite specification with its data, and a text that says what it shows.

    `name` is a file's name without suffix, unique among the charts of a report. `condition` is None where several are
    shown. `runs` are the folders of what is drawn.
    """

    kind: Kind
    name: str
    title: str
    settings: str
    alt_text: str
    spec: Part
    condition: str | None
    runs: tuple[Path, ...]
