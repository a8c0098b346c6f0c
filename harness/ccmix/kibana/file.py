"""Writes all saved objects of ccmix as the file that Kibana imports."""

from ccmix.kibana.dashboards import DASHBOARDS
from ccmix.kibana.data_views import VIEWS
from ccmix.kibana.saved import SavedObject, to_ndjson


def saved_objects() -> list[SavedObject]:
    """Returns data views first, then each dashboard after its charts."""
    views = [view.saved() for view in VIEWS.values()]
    return views + [each for dashboard in DASHBOARDS for each in dashboard.saved(DASHBOARDS)]


def ndjson() -> str:
    """Returns the content of elk/kibana/ccmix.ndjson."""
    return to_ndjson(saved_objects())
