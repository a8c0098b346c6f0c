"""Lays a chart out anew for a telephone's screen: panels one below the other, legends below them."""

from ccmix.charts.json_types import Part

MOST_WIDTH = 260  # pixels of a panel, without its axis
_LEGEND_COLUMNS = 2


def narrow(spec: Part) -> Part:
    """Returns the specification for a narrow screen, without the title, whose lines are long."""
    untitled = {name: part for name, part in spec.items() if name != "title"}
    config = spec.get("config", {}) | {"legend": {"orient": "bottom", "columns": _LEGEND_COLUMNS}}
    return _laid_out(untitled) | {"config": config}


def _laid_out(part: Part) -> Part:
    """Returns a view with all that it is composed of; what is not layout stays as it is."""
    changed = dict(part)
    if "columns" in part and "concat" in part:
        changed["columns"] = 1
    if isinstance(part.get("width"), int | float):
        changed["width"] = min(part["width"], MOST_WIDTH)
    for composed in ("vconcat", "concat", "layer"):
        if composed in changed:
            changed[composed] = [_laid_out(each) for each in changed[composed]]
    legend = part.get("encoding", {}).get("color", {}).get("legend")
    if legend and "columns" in legend:
        colour = part["encoding"]["color"] | {"legend": legend | {"columns": _LEGEND_COLUMNS}}
        changed["encoding"] = part["encoding"] | {"color": colour}
    return changed
