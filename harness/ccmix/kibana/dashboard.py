"""Describes a dashboard: panels from left to right and top to bottom, controls that filter them, links to others."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Protocol

from ccmix.kibana.data_views import DataView
from ccmix.kibana.saved import OLDEST_KIBANA, Json, Reference, SavedObject, embedded

WIDTH = 48  # columns of Kibana's grid
LINKS_HEIGHT = 3
PANEL_VERSION = "8.12.2"  # Kibana's when this form of panels was last tried with a real one
NO_SEARCH = {"query": {"query": "", "language": "kuery"}, "filter": []}


class PanelContent(Protocol):
    """Describes what a panel shows."""

    @property
    def title(self) -> str: ...
    @property
    def view(self) -> DataView: ...
    def saved(self, id_: str) -> SavedObject: ...


@dataclass(frozen=True)
class Panel:
    """Holds a chart, `width` of 48 columns wide and `height` rows high; a click offers the dashboard `leads_to`."""

    name: str
    chart: PanelContent
    width: int
    height: int
    leads_to: str | None = None


@dataclass(frozen=True)
class Control:
    """Describes a filter above the panels: a list of values, or a range of numbers."""

    field: str
    title: str
    kind: Literal["optionsList", "rangeSlider"] = "optionsList"


@dataclass(frozen=True)
class GridPlace:
    """Says where a panel lies on the grid."""

    x: int
    y: int
    width: int
    height: int


@dataclass(frozen=True)
class TimeRange:
    """Holds the times that a dashboard shows when it is opened, as Kibana has them: 'now-1y', '2026-11-22T00:00Z'."""

    first: str
    last: str


LAST_YEAR = TimeRange("now-1y", "now")


@dataclass(frozen=True)
class Dashboard:
    """Describes a dashboard; its name is part of its address, and the controls look for values in `view`."""

    name: str
    title: str
    description: str
    view: DataView
    controls: tuple[Control, ...]
    panels: tuple[Panel, ...]

    @property
    def id(self) -> str:
        return f"ccmix-{self.name}"

    def panel_id(self, panel: Panel) -> str:
        """Returns the id of a panel, and of its chart.

        No other dashboard has it: Kibana keeps the state of a panel by its id when a click leads to another dashboard.
        """
        return f"{self.id}-{panel.name}"

    def places(self) -> list[GridPlace]:
        """Returns each panel's place: beside the one before if there is room, else in a new row below the highest."""
        places, x, y, row = [], 0, LINKS_HEIGHT, 0
        for panel in self.panels:
            if x + panel.width > WIDTH:
                x, y, row = 0, y + row, 0
            places.append(GridPlace(x, y, panel.width, panel.height))
            x, row = x + panel.width, max(row, panel.height)
        return places

    def saved(self, others: Iterable["Dashboard"], times: TimeRange = LAST_YEAR) -> list[SavedObject]:
        """Returns the charts of the panels and, last, the dashboard of these times with links to all `others`."""
        charts = [panel.chart.saved(self.panel_id(panel)) for panel in self.panels]
        links, references = self._links(others)
        panels = [_panel(f"{self.id}-links", "links", GridPlace(0, 0, WIDTH, LINKS_HEIGHT), links)]
        for panel, chart, place in zip(self.panels, charts, self.places(), strict=True):
            id_ = self.panel_id(panel)
            enhancements, drilldowns = _drilldown(panel, id_)
            settings = {"enhancements": enhancements}
            panels.append(_panel(id_, chart.type, place, settings) | {"panelRefName": f"panel_{id_}"})
            references += [Reference(f"panel_{id_}", chart.type, chart.id).prefixed(id_), *drilldowns]
        controls, control_references = self._controls()
        attributes = {
            "title": f"ccmix: {self.title}",
            "description": f"{self.description}. For Kibana {OLDEST_KIBANA} and newer",
            "hits": 0,
            "version": 1,
            "panelsJSON": embedded(panels),
            "optionsJSON": embedded({
                "useMargins": True, "syncColors": False, "syncCursor": True, "syncTooltips": False,
                "hidePanelTitles": False,
            }),
            "controlGroupInput": controls,
            "timeRestore": True,
            "timeFrom": times.first,
            "timeTo": times.last,
            "refreshInterval": {"pause": True, "value": 60_000},
            "kibanaSavedObjectMeta": {"searchSourceJSON": embedded(NO_SEARCH)},
        }  # fmt: skip
        return [*charts, SavedObject("dashboard", self.id, attributes, (*references, *control_references))]

    def _links(self, dashboards: Iterable["Dashboard"]) -> tuple[Json, list[Reference]]:
        links, references = [], []
        for order, other in enumerate(each for each in dashboards if each.name != self.name):
            name = f"link_{other.name}_dashboard"
            links.append({
                "type": "dashboardLink", "id": other.name, "label": other.title, "order": order,
                "destinationRefName": name,
                "options": {"openInNewTab": False, "useCurrentFilters": True, "useCurrentDateRange": True},
            })  # fmt: skip
            references.append(Reference(name, "dashboard", other.id).prefixed(f"{self.id}-links"))
        return {"attributes": {"layout": "horizontal", "links": links}, "enhancements": {}}, references

    def _controls(self) -> tuple[Json, list[Reference]]:
        panels, references = {}, []
        for order, control in enumerate(self.controls):
            name = control.field.replace(".", "-").replace("@", "")
            panels[name] = {
                "type": f"{control.kind}Control", "order": order, "width": "small", "grow": True,
                "explicitInput": {
                    "id": name, "fieldName": control.field, "title": control.title, "enhancements": {},
                },
            }  # fmt: skip
            references.append(Reference(f"controlGroup_{name}:{control.kind}DataView", "index-pattern", self.view.id))
        ignore = dict.fromkeys(("ignoreFilters", "ignoreQuery", "ignoreTimerange", "ignoreValidations"), False)
        group = {
            "chainingSystem": "HIERARCHICAL", "controlStyle": "oneLine",
            "ignoreParentSettingsJSON": embedded(ignore), "panelsJSON": embedded(panels),
        }  # fmt: skip
        return group, references


def _panel(id_: str, type_: str, place: GridPlace, settings: Json) -> Json:
    grid = {"x": place.x, "y": place.y, "w": place.width, "h": place.height, "i": id_}
    return {
        "version": PANEL_VERSION, "type": type_, "gridData": grid, "panelIndex": id_, "embeddableConfig": settings,
    }  # fmt: skip


def _drilldown(panel: Panel, id_: str) -> tuple[Json, list[Reference]]:
    """Returns what a click on a value does: it opens another dashboard, with that value and all filters."""
    if panel.leads_to is None:
        return {}, []
    event = {
        "eventId": f"to-{panel.leads_to}",
        "triggers": ["FILTER_TRIGGER"],
        "action": {
            "factoryId": "DASHBOARD_TO_DASHBOARD_DRILLDOWN",
            "name": f"Show in {panel.leads_to}",
            "config": {"openInNewTab": False, "useCurrentFilters": True, "useCurrentDateRange": True},
        },
    }
    name = f"drilldown:DASHBOARD_TO_DASHBOARD_DRILLDOWN:{event['eventId']}:dashboardId"
    reference = Reference(name, "dashboard", f"ccmix-{panel.leads_to}").prefixed(id_)
    return {"dynamicActions": {"events": [event]}}, [reference]
