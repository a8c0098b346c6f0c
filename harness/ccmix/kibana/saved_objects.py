"""Describes the objects that Kibana imports ("saved objects"): data views, charts and dashboards.

A dashboard has panels from left to right and top to bottom, controls that filter them, and links to
the other dashboards.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import Any, Literal, Protocol

import yaml

from ccmix.index.fields import FIELDS, KINDS, DocumentKind, fields_of

Json = dict[str, Any]  # a JSON object of Kibana, Elasticsearch or Vega-Lite

# The oldest Kibana that has every key of the file: 8.11 brought links and colours of terms, but
# nobody tried it there
OLDEST_KIBANA = "8.12"
TIME_FIELD = "@timestamp"
CORE_VERSION = "8.8.0"
# The newest model of each type that every Kibana since OLDEST_KIBANA knows; newer versions migrate
# it when they import it.
TYPE_VERSIONS = {
    "index-pattern": "8.0.0",
    "lens": "8.9.0",
    "visualization": "8.5.0",
    "dashboard": "8.9.0",
}

DATA_TYPES = {
    "keyword": "string",
    "constant_keyword": "string",
    "text": "string",
    "flattened": "string",
    "ip": "ip",
    "boolean": "boolean",
    "date": "date",
    "double": "number",
    "long": "number",
}
RATE_PATTERN = (
    "0,0.[0] bitd"  # Kibana appends no "/s" here: formats of columns do (lens.RATE_FORMAT)
)
# Times of some seconds, which are not written as milliseconds
AS_SECONDS = ("ccmix.startup_s", "ccmix.convergence_s")
LONG_TIMES = (
    "ccmix.elapsed_s",
    "ccmix.duration_s",
    "ccmix.omit_s",
    "ccmix.interval_s",
    "ccmix.seconds",
    "ccmix.run.real_seconds",
)


@dataclass(frozen=True)
class Reference:
    """Refers from one saved object to another. The attributes of the first contain only `name`;
    `type` and `id` are those of the other, so that Kibana can change ids when it imports them.
    """

    name: str
    type: str
    id: str

    def prefixed(self, prefix: str) -> "Reference":
        """Returns the reference under the name that a dashboard must give it for one of its panels,
        whose id is the prefix.
        """
        return Reference(f"{prefix}:{self.name}", self.type, self.id)


@dataclass(frozen=True)
class SavedObject:
    """Holds an object that Kibana imports. Its attributes are as Kibana stores them, some of them
    JSON in a string.
    """

    type: str
    id: str
    attributes: Json
    references: tuple[Reference, ...] = ()

    def to_json(self) -> Json:
        """Returns the object as one line of the file that Kibana imports, with the versions that
        tell Kibana how to migrate it.
        """
        return {
            "type": self.type,
            "id": self.id,
            "attributes": self.attributes,
            "references": [asdict(reference) for reference in self.references],
            "coreMigrationVersion": CORE_VERSION,
            "typeMigrationVersion": TYPE_VERSIONS[self.type],
        }


def read_yaml(name: str) -> Json:
    """Returns the content of a YAML file of this package."""
    content: Json = yaml.safe_load(files("ccmix.kibana").joinpath(name).read_bytes())
    return content


_TEMPLATES = read_yaml("templates.yaml")


def filled(template: str, **values: Any) -> Json:
    """Returns a copy of a template of templates.yaml, with these values for its members."""
    constants: Json = _TEMPLATES[template]
    return constants | values


def json_text(value: Any) -> str:
    """Returns a value as JSON in a string, as Kibana stores some parts of its objects."""
    return json.dumps(value, ensure_ascii=False)


def to_ndjson(objects: Iterable[SavedObject]) -> str:
    """Returns the text of the file that Kibana imports: one JSON object on each line."""
    return "".join(json.dumps(each.to_json(), ensure_ascii=False) + "\n" for each in objects)


def _number_format(pattern: str) -> Json:
    return {"id": "number", "params": {"pattern": pattern}}


def _duration_format(output: str) -> Json:
    """Returns Kibana's format for a duration in seconds, in the unit `output`, such as
    "asMilliseconds".
    """
    return {
        "id": "duration",
        "params": {
            "inputFormat": "seconds",
            "outputFormat": output,
            "outputPrecision": 2,
            "showSuffix": True,
            "useShortSuffix": True,
        },
    }


# Kibana's format for each unit of the table of fields; units without one are written as plain
# numbers.
FORMATS = {
    "bit/s": _number_format(RATE_PATTERN),
    "byte": {"id": "bytes", "params": {"pattern": "0,0.[0] bd"}},
    "percent": {"id": "percent", "params": {"pattern": "0,0.[000]%"}},
    "s": _duration_format("asMilliseconds"),
    "BDP": _number_format("0,0.[00]"),
}


@dataclass(frozen=True)
class DataView:
    """Describes one kind of documents to Kibana: the indices that have them, and the formats of
    their fields.
    """

    kind: DocumentKind

    @property
    def id(self) -> str:
        return f"ccmix-{self.kind.name}"

    def data_type(self, field: str) -> str:
        """Returns Kibana's type of a field. Raises ValueError if this kind of document lacks it."""
        if field not in FIELDS or self.kind.name not in FIELDS[field].kinds:
            raise ValueError(f"{self.kind.name} has no field {field}")
        return DATA_TYPES[FIELDS[field].type]

    def saved(self) -> SavedObject:
        """Returns the data view as an object that Kibana can import. The times AS_SECONDS are shown
        in seconds, LONG_TIMES as plain numbers, all other times in milliseconds.
        """
        formats = {
            field.name: _duration_format("asSeconds")
            if field.name in AS_SECONDS
            else FORMATS[field.unit]
            for field in fields_of(self.kind.name)
            if field.unit in FORMATS and field.name not in LONG_TIMES
        }
        attributes = {
            "title": self.kind.index_pattern,
            "name": f"ccmix: {self.kind.meaning.partition(':')[0]}",
            "timeFieldName": TIME_FIELD,
            "fieldFormatMap": json_text(formats),
        }
        return SavedObject("index-pattern", self.id, attributes)


VIEWS = {name: DataView(kind) for name, kind in KINDS.items()}
GROUPS, INTERVALS = VIEWS["groups"], VIEWS["intervals"]


WIDTH = 48  # columns of Kibana's grid
LINKS_HEIGHT = 3
PANEL_VERSION = "8.12.2"  # the version of Kibana with which this form of panels was last tried


class PanelContent(Protocol):
    """Describes what a panel of a dashboard shows: a chart of Lens or in Vega-Lite."""

    @property
    def title(self) -> str: ...
    @property
    def view(self) -> DataView: ...
    def saved(self, id_: str) -> SavedObject: ...


@dataclass(frozen=True)
class Panel:
    """Describes a panel of a dashboard: its chart, `width` columns (of 48) wide and `height` rows
    high. A click on a value offers the dashboard `leads_to`, if there is one.
    """

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
class GridPosition:
    """Holds the position and size of a panel, in cells of the dashboard's grid."""

    x: int
    y: int
    width: int
    height: int


@dataclass(frozen=True)
class TimeRange:
    """Holds the time range that a dashboard shows when it is opened, in Kibana's notation:
    'now-1y', '2026-11-22T00:00Z'.
    """

    first: str
    last: str


LAST_YEAR = TimeRange("now-1y", "now")


@dataclass(frozen=True)
class Dashboard:
    """Describes a dashboard. Its name is part of its address, and its controls offer values from
    the documents of `view`.
    """

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
        """Returns the id of a panel, which its chart has too.

        No other dashboard may have the same id: Kibana keeps the state of a panel by its id when a
        click leads to another dashboard.
        """
        return f"{self.id}-{panel.name}"

    def positions(self) -> list[GridPosition]:
        """Returns each panel's position: to the right of the panel before it if there is room,
        otherwise in a new row, below the highest panel of the row above.
        """
        positions, x, y, row_height = [], 0, LINKS_HEIGHT, 0
        for panel in self.panels:
            if x + panel.width > WIDTH:
                x, y, row_height = 0, y + row_height, 0
            positions.append(GridPosition(x, y, panel.width, panel.height))
            x, row_height = x + panel.width, max(row_height, panel.height)
        return positions

    def saved(
        self, others: Iterable["Dashboard"], times: TimeRange = LAST_YEAR
    ) -> list[SavedObject]:
        """Returns the objects that Kibana imports for this dashboard: the charts of its panels and,
        last, the dashboard itself. It opens with the range `times`, and has links to all `others`.
        """
        charts = [panel.chart.saved(self.panel_id(panel)) for panel in self.panels]
        links, references = self._links(others)
        panels = [
            _panel_json(f"{self.id}-links", "links", GridPosition(0, 0, WIDTH, LINKS_HEIGHT), links)
        ]
        for panel, chart, position in zip(self.panels, charts, self.positions(), strict=True):
            id_ = self.panel_id(panel)
            enhancements, click_references = _click_action(panel, id_)
            settings = {"enhancements": enhancements}
            panels.append(
                _panel_json(id_, chart.type, position, settings) | {"panelRefName": f"panel_{id_}"}
            )
            references += [
                Reference(f"panel_{id_}", chart.type, chart.id).prefixed(id_),
                *click_references,
            ]
        controls, control_references = self._controls()
        attributes = filled(
            "dashboard",
            title=f"ccmix: {self.title}",
            description=f"{self.description}. For Kibana {OLDEST_KIBANA} and newer",
            panelsJSON=json_text(panels),
            controlGroupInput=controls,
            timeFrom=times.first,
            timeTo=times.last,
        )
        return [
            *charts,
            SavedObject("dashboard", self.id, attributes, (*references, *control_references)),
        ]

    def _links(self, dashboards: Iterable["Dashboard"]) -> tuple[Json, list[Reference]]:
        """Returns the settings of the panel with links to the other dashboards, and the references
        that these links need.
        """
        links, references = [], []
        for order, other in enumerate(each for each in dashboards if each.name != self.name):
            name = f"link_{other.name}_dashboard"
            link = filled(
                "link", id=other.name, label=other.title, order=order, destinationRefName=name
            )
            links.append(link)
            references.append(Reference(name, "dashboard", other.id).prefixed(f"{self.id}-links"))
        return {
            "attributes": {"layout": "horizontal", "links": links},
            "enhancements": {},
        }, references

    def _controls(self) -> tuple[Json, list[Reference]]:
        """Returns the group of controls (the filters above the panels) in Kibana's JSON, and the
        references to the data view in which they look up values.
        """
        panels, references = {}, []
        for order, control in enumerate(self.controls):
            name = control.field.replace(".", "-").replace("@", "")
            panels[name] = {
                "type": f"{control.kind}Control",
                "order": order,
                "width": "small",
                "grow": True,
                "explicitInput": {
                    "id": name,
                    "fieldName": control.field,
                    "title": control.title,
                    "enhancements": {},
                },
            }
            references.append(
                Reference(
                    f"controlGroup_{name}:{control.kind}DataView", "index-pattern", self.view.id
                )
            )
        return filled("control-group", panelsJSON=json_text(panels)), references


def _panel_json(id_: str, type_: str, position: GridPosition, settings: Json) -> Json:
    """Returns a panel in the form in which Kibana stores it in its dashboard. `type_` is the type
    of its chart, or "links".
    """
    grid = {"x": position.x, "y": position.y, "w": position.width, "h": position.height, "i": id_}
    return {
        "version": PANEL_VERSION,
        "type": type_,
        "gridData": grid,
        "panelIndex": id_,
        "embeddableConfig": settings,
    }


def _click_action(panel: Panel, id_: str) -> tuple[Json, list[Reference]]:
    """Returns the action for a click on a value in the panel, and its reference: it opens another
    dashboard, filtered by that value and by all current filters. Both are empty if the panel leads
    nowhere.
    """
    if panel.leads_to is None:
        return {}, []
    event = filled("click", eventId=f"to-{panel.leads_to}")
    event["action"] = event["action"] | {"name": f"Show in {panel.leads_to}"}
    name = f"drilldown:{event['action']['factoryId']}:{event['eventId']}:dashboardId"
    reference = Reference(name, "dashboard", f"ccmix-{panel.leads_to}").prefixed(id_)
    return {"dynamicActions": {"events": [event]}}, [reference]
