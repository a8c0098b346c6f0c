"""Names the JSON of charts."""

from typing import Any

Part = dict[str, Any]  # a Vega-Lite specification, or a part of one
