"""Writes all saved objects of ccmix as the file that Kibana imports."""

from datetime import UTC, datetime

from ccmix.kibana.dashboard import LAST_YEAR, TimeRange
from ccmix.kibana.dashboards import DASHBOARDS
from ccmix.kibana.data_views import VIEWS
from ccmix.kibana.saved import SavedObject, to_ndjson

DAY_S = 86_400.0
FOLLOWED_S = 30 * DAY_S


def saved_objects(times: TimeRange = LAST_YEAR) -> list[SavedObject]:
    """Returns data views first, then each dashboard after its charts."""
    views = [view.saved() for view in VIEWS.values()]
    return views + [each for dashboard in DASHBOARDS for each in dashboard.saved(DASHBOARDS, times)]


def ndjson(times: TimeRange = LAST_YEAR) -> str:
    """Returns the content of elk/kibana/ccmix.ndjson, with dashboards that open at these times."""
    return to_ndjson(saved_objects(times))


def times_of(first_s: float, last_s: float, now_s: float) -> TimeRange:
    """Returns the times of data, in whole days (UTC): from the first run, to now or to the day of the last run.

    All are in seconds since 1970. Data that is newer than FOLLOWED_S is still coming.
    """
    last = "now" if now_s - last_s < FOLLOWED_S else _day(last_s + DAY_S)
    return TimeRange(_day(first_s), last)


def _day(moment_s: float) -> str:
    return f"{datetime.fromtimestamp(moment_s, UTC):%Y-%m-%dT00:00:00Z}"
