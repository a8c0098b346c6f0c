"""Reads the dashboards, and writes all saved objects as the file that Kibana imports:
`python -m ccmix.kibana.dashboards >elk/kibana/ccmix.ndjson`.
"""

import functools
import sys
from datetime import UTC, datetime
from importlib.resources import files

import yaml

from ccmix.kibana import charts, mesh, real_emulated, runs
from ccmix.kibana.lens import read_lens
from ccmix.kibana.saved_objects import (
    LAST_YEAR,
    VIEWS,
    Control,
    Dashboard,
    Json,
    Panel,
    SavedObject,
    TimeRange,
    to_ndjson,
)

VEGA = charts.CHARTS | runs.CHARTS | real_emulated.CHARTS | mesh.CHARTS


@functools.cache
def dashboards() -> tuple[Dashboard, ...]:
    """Returns the dashboards of dashboards.yaml."""
    content = yaml.safe_load(files("ccmix.kibana").joinpath("dashboards.yaml").read_bytes())
    controls = {name: Control(*about) for name, about in content["controls"].items()}
    return tuple(
        Dashboard(
            about["name"],
            about["title"],
            about["description"],
            VIEWS[about["view"]],
            tuple(controls[name] for name in about["controls"]),
            tuple(map(_panel, about["panels"])),
        )
        for about in content["dashboards"]
    )


def _panel(about: Json) -> Panel:
    chart = VEGA[about["vega"]] if "vega" in about else read_lens(about)
    width, height = about["size"]
    return Panel(about["name"], chart, width, height, about.get("leads_to"))


DAY_S = 86_400.0
FOLLOWED_S = 30 * DAY_S


def saved_objects(times: TimeRange = LAST_YEAR) -> list[SavedObject]:
    """Returns the data views, followed by each dashboard after its charts."""
    views = [view.saved() for view in VIEWS.values()]
    return views + [
        each for dashboard in dashboards() for each in dashboard.saved(dashboards(), times)
    ]


def ndjson(times: TimeRange = LAST_YEAR) -> str:
    """Returns the content of elk/kibana/ccmix.ndjson, with dashboards that open at these times."""
    return to_ndjson(saved_objects(times))


def times_of(first_s: float, last_s: float, now_s: float) -> TimeRange:
    """Returns the time range of data, in whole days (UTC): from the first run to the last, or to
    now if data is still coming.

    All times are in seconds since 1970. Data is still coming if the last is newer than FOLLOWED_S.
    """
    last = "now" if now_s - last_s < FOLLOWED_S else _day(last_s + DAY_S)
    return TimeRange(_day(first_s), last)


def _day(moment_s: float) -> str:
    return f"{datetime.fromtimestamp(moment_s, UTC):%Y-%m-%dT00:00:00Z}"


if __name__ == "__main__":
    sys.stdout.write(ndjson())
