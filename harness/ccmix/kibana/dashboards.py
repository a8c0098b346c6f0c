"""Makes the file that Kibana imports, elk/kibana/ccmix.ndjson, from dashboards.yaml.

Run it as `python -m ccmix.kibana.dashboards >elk/kibana/ccmix.ndjson`.
"""

import functools
import sys
from datetime import UTC, datetime

from ccmix.kibana import charts, vega_charts
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
    read_yaml,
    to_ndjson,
)

VEGA = charts.CHARTS | vega_charts.CHARTS


@functools.cache
def dashboards() -> tuple[Dashboard, ...]:
    """Returns the dashboards that dashboards.yaml describes, with their charts."""
    content = read_yaml("dashboards.yaml")
    controls = {name: Control(*settings) for name, settings in content["controls"].items()}
    return tuple(
        Dashboard(
            entry["name"],
            entry["title"],
            entry["description"],
            VIEWS[entry["view"]],
            tuple(controls[name] for name in entry["controls"]),
            tuple(map(_panel, entry["panels"])),
        )
        for entry in content["dashboards"]
    )


def _panel(entry: Json) -> Panel:
    """Returns a panel of a dashboard, from its entry in dashboards.yaml: `vega` names a chart of
    VEGA, any other entry describes a chart of Lens.
    """
    chart = VEGA[entry["vega"]] if "vega" in entry else read_lens(entry)
    width, height = entry["size"]
    return Panel(entry["name"], chart, width, height, entry.get("leads_to"))


DAY_S = 86_400.0
FOLLOWED_S = 30 * DAY_S


def saved_objects(times: TimeRange = LAST_YEAR) -> list[SavedObject]:
    """Returns all objects that Kibana imports: the data views, and each dashboard after its charts.
    The dashboards show these times when they are opened.
    """
    views = [view.saved() for view in VIEWS.values()]
    return views + [
        each for dashboard in dashboards() for each in dashboard.saved(dashboards(), times)
    ]


def ndjson(times: TimeRange = LAST_YEAR) -> str:
    """Returns the content of elk/kibana/ccmix.ndjson, with dashboards that open at these times."""
    return to_ndjson(saved_objects(times))


def times_of(first_s: float, last_s: float, now_s: float) -> TimeRange:
    """Returns the time range for dashboards of data whose first and last runs were at these times,
    in whole days (UTC). It ends now if data is still coming.

    All times are in seconds since 1970. Data counts as still coming if the last run is newer than
    FOLLOWED_S.
    """
    last = "now" if now_s - last_s < FOLLOWED_S else _day(last_s + DAY_S)
    return TimeRange(_day(first_s), last)


def _day(moment_s: float) -> str:
    return f"{datetime.fromtimestamp(moment_s, UTC):%Y-%m-%dT00:00:00Z}"


if __name__ == "__main__":
    sys.stdout.write(ndjson())
