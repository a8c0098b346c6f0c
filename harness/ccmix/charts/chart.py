"""A chart, ready to be drawn."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

Kind = Literal["setting", "heat-map", "share", "box", "distribution", "table", "time-series", "bbr-state"]
Image = Literal["svg", "png", "json"]
KINDS: tuple[Kind, ...] = get_args(Kind)  # in the order in which a report shows them


@dataclass(frozen=True)
class Chart:
    """A Vega-Lite specification with its data, and what it shows in words.

    `name` is a file's name without suffix, unique among the charts of a report. `condition` is None where several are
    shown. `runs` are the folders of what is drawn.
    """

    kind: Kind
    name: str
    title: str
    settings: str
    alt_text: str
    spec: dict[str, Any]
    condition: str | None
    runs: tuple[Path, ...]
