"""Tests that the generator makes elk/kibana/ccmix.ndjson, and that it follows Kibana's rules for
saved objects.
"""

import json
from collections.abc import Iterable
from itertools import combinations
from typing import Any

import pytest

from ccmix.charts.encodings import COLOURS
from ccmix.index.fields import FIELDS
from ccmix.kibana.dashboards import dashboards, ndjson, times_of
from ccmix.kibana.lens import Lens
from ccmix.kibana.saved_objects import OLDEST_KIBANA, VIEWS, WIDTH, GridPosition, TimeRange
from support import kibana_keys as since
from support.commands import REPOSITORY

FILE = REPOSITORY / "elk" / "kibana" / "ccmix.ndjson"
OBJECTS: list[dict[str, Any]] = [json.loads(line) for line in FILE.read_text().splitlines()]
SAVED_DASHBOARDS = [each for each in OBJECTS if each["type"] == "dashboard"]
LENS = [each for each in OBJECTS if each["type"] == "lens"]
# Versions that Kibana 8.12 wrote itself; newer versions migrate them.
VERSIONS = {
    "index-pattern": "8.0.0",
    "lens": "8.9.0",
    "visualization": "8.5.0",
    "dashboard": "8.9.0",
}


def panels(dashboard: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(dashboard["attributes"]["panelsJSON"])
    return found


def names(dashboard: dict[str, Any]) -> set[str]:
    return {reference["name"] for reference in dashboard["references"]}


def test_the_file_is_what_the_generator_makes() -> None:
    assert FILE.read_text() == ndjson(), (
        "run: .venv/bin/python -m ccmix.kibana.dashboards >elk/kibana/ccmix.ndjson"
    )


def at_most(version: str, newest: str) -> bool:
    """Returns whether Kibana of the version `newest` has a key that came with `version`."""
    return tuple(map(int, version.split("."))) <= tuple(map(int, newest.split(".")))


def younger(saved: dict[str, Any]) -> dict[str, str]:
    """Returns the keys of an object that OLDEST_KIBANA does not have, each with its version; '?'
    if none is known.
    """
    attributes = saved["attributes"]
    pairs: list[tuple[since.Since, Iterable[str]]] = [
        (since.SAVED_OBJECT, saved),
        (since.ATTRIBUTES[saved["type"]], attributes),
    ]
    if saved["type"] == "dashboard":
        group = attributes["controlGroupInput"]
        controls = json.loads(group["panelsJSON"]).values()
        pairs += [
            (since.CONTROL_GROUP, group),
            (since.OPTIONS, json.loads(attributes["optionsJSON"])),
            (since.REFRESH, attributes["refreshInterval"]),
            *((since.CONTROL, control) for control in controls),
            *((since.CONTROL_INPUT, control["explicitInput"]) for control in controls),
            *((since.PANEL, panel) for panel in panels(saved)),
            *((since.GRID, panel["gridData"]) for panel in panels(saved)),
            *((since.PANEL_TYPES, [panel["type"]]) for panel in panels(saved)),
            *(
                (since.LINK, link)
                for panel in panels(saved)
                for link in panel["embeddableConfig"].get("attributes", {}).get("links", ())
            ),
        ]
    if saved["type"] == "lens":
        state = attributes["state"]
        columns = state["datasourceStates"]["formBased"]["layers"]["data"]["columns"].values()
        formats = [column["params"]["format"] for column in columns if "format" in column["params"]]
        mappings = [
            layer["colorMapping"]
            for layer in state["visualization"].get("layers", ())
            if "colorMapping" in layer
        ]
        pairs += [
            *((since.COLUMN, column) for column in columns),
            *((since.COLUMN_PARAMS, column["params"]) for column in columns),
            *((since.COLUMN_FORMATS, [format_["id"]]) for format_ in formats),
            *((since.FORMAT_PARAMS, format_["params"]) for format_ in formats),
            *((since.COLOUR_MAPPING, mapping) for mapping in mappings),
            *(
                (since.COLOUR_TYPES, [assignment["color"]["type"]])
                for mapping in mappings
                for assignment in (*mapping["assignments"], *mapping["specialAssignments"])
            ),
        ]
    versions = {key: known.get(key, "?") for known, keys in pairs for key in keys}
    return {
        key: version
        for key, version in versions.items()
        if version == "?" or not at_most(version, OLDEST_KIBANA)
    }


@pytest.mark.parametrize("saved", OBJECTS, ids=lambda each: each["id"])
def test_the_oldest_kibana_has_every_key_by_its_public_schemas(saved: dict[str, Any]) -> None:
    """This replaces an import into a real Kibana; kibana_keys.py has the source of its table."""
    assert younger(saved) == {}


def test_a_key_that_came_later_is_seen() -> None:
    """Kibana 8.12.2 refused a file with this key."""
    [saved] = [each for each in SAVED_DASHBOARDS if each["id"] == "ccmix-run"]
    group = saved["attributes"]["controlGroupInput"] | {"showApplySelections": False}
    assert younger(saved | {"attributes": saved["attributes"] | {"controlGroupInput": group}}) == {
        "showApplySelections": "8.14"
    }


def test_colours_of_terms_have_what_the_oldest_kibana_needs() -> None:
    needed = max(
        (version for version in since.NEEDED_IN_COLOUR_MAPPING if at_most(version, OLDEST_KIBANA)),
        key=lambda version: tuple(map(int, version.split("."))),
    )
    mappings = [
        layer["colorMapping"]
        for each in LENS
        for layer in each["attributes"]["state"]["visualization"].get("layers", ())
        if "colorMapping" in layer
    ]
    assert mappings
    assert all(set(mapping) == since.NEEDED_IN_COLOUR_MAPPING[needed] for mapping in mappings)


def test_the_file_and_the_guide_name_the_oldest_kibana() -> None:
    assert all(
        f"Kibana {OLDEST_KIBANA} " in each["attributes"]["description"] for each in SAVED_DASHBOARDS
    )
    assert (
        f"Kibana {OLDEST_KIBANA} or newer"
        in (REPOSITORY / "docs" / "howto" / "kibana.md").read_text()
    )


def test_no_two_dashboards_share_the_id_of_a_panel() -> None:
    """Kibana would keep a panel's state when a click leads from one dashboard to another."""
    ids = [panel["panelIndex"] for saved in SAVED_DASHBOARDS for panel in panels(saved)]
    assert len(set(ids)) == len(ids)
    assert all(
        panel["gridData"]["i"] == panel["panelIndex"]
        for saved in SAVED_DASHBOARDS
        for panel in panels(saved)
    )


def test_every_object_is_there_once_and_says_its_version() -> None:
    assert len({(each["type"], each["id"]) for each in OBJECTS}) == len(OBJECTS)
    for each in OBJECTS:
        assert (each["coreMigrationVersion"], each["typeMigrationVersion"]) == (
            "8.8.0",
            VERSIONS[each["type"]],
        )


def test_every_reference_leads_to_an_object_of_the_file() -> None:
    there = {(each["type"], each["id"]) for each in OBJECTS}
    for each in OBJECTS:
        assert {(reference["type"], reference["id"]) for reference in each["references"]} <= there
        assert len({reference["name"] for reference in each["references"]}) == len(
            each["references"]
        )


@pytest.mark.parametrize("saved", SAVED_DASHBOARDS, ids=lambda each: each["id"])
def test_what_a_dashboard_names_is_among_its_references_and_nothing_else_is(
    saved: dict[str, Any],
) -> None:
    named = set()
    for panel in panels(saved):
        index, settings = panel["panelIndex"], panel["embeddableConfig"]
        if "panelRefName" in panel:
            named.add(f"{index}:{panel['panelRefName']}")
        for link in settings.get("attributes", {}).get("links", ()):
            named.add(f"{index}:{link['destinationRefName']}")
        for event in settings["enhancements"].get("dynamicActions", {}).get("events", ()):
            named.add(
                f"{index}:drilldown:{event['action']['factoryId']}:{event['eventId']}:dashboardId"
            )
    for name, control in json.loads(saved["attributes"]["controlGroupInput"]["panelsJSON"]).items():
        named.add(f"controlGroup_{name}:{control['type'].removesuffix('Control')}DataView")
    assert named == names(saved)


@pytest.mark.parametrize("saved", SAVED_DASHBOARDS, ids=lambda each: each["id"])
def test_links_lead_to_all_other_dashboards_with_filters_and_times_kept(
    saved: dict[str, Any],
) -> None:
    (links,) = (panel for panel in panels(saved) if panel["type"] == "links")
    assert all(
        link["options"]
        == {"openInNewTab": False, "useCurrentFilters": True, "useCurrentDateRange": True}
        for link in links["embeddableConfig"]["attributes"]["links"]
    )
    led = {
        each["id"]
        for each in saved["references"]
        if each["name"].startswith(f"{saved['id']}-links:")
    }
    assert led == {each["id"] for each in SAVED_DASHBOARDS} - {saved["id"]}


def test_clicks_keep_filters_and_times_and_reach_every_dashboard_but_two() -> None:
    reached = set()
    for saved in SAVED_DASHBOARDS:
        for panel in panels(saved):
            for event in (
                panel["embeddableConfig"]["enhancements"]
                .get("dynamicActions", {})
                .get("events", ())
            ):
                config = event["action"]["config"]
                assert config["useCurrentFilters"]
                assert config["useCurrentDateRange"]
        reached |= {each["id"] for each in saved["references"] if ":drilldown:" in each["name"]}
    assert reached == {each["id"] for each in SAVED_DASHBOARDS} - {"ccmix-mesh", "ccmix-compare"}


@pytest.mark.parametrize("dashboard", dashboards(), ids=lambda each: each.name)
def test_panels_lie_beside_each_other(dashboard: Any) -> None:
    def cells(place: GridPosition) -> set[tuple[int, int]]:
        xs, ys = range(place.x, place.x + place.width), range(place.y, place.y + place.height)
        return {(x, y) for x in xs for y in ys}

    places = dashboard.positions()
    assert all(place.x + place.width <= WIDTH for place in places)
    assert not any(cells(one) & cells(other) for one, other in combinations(places, 2))


@pytest.mark.parametrize("dashboard", dashboards(), ids=lambda each: each.name)
def test_every_control_filters_every_panel(dashboard: Any) -> None:
    """A filter on a field that a panel's documents don't have would leave the panel empty."""
    for control in dashboard.controls:
        for panel in dashboard.panels:
            assert panel.chart.view.kind.name in FIELDS[control.field].kinds, (
                control.field,
                panel.name,
            )
        numbers = FIELDS[control.field].type in {"double", "long"}
        assert control.kind == ("rangeSlider" if numbers else "optionsList")


@pytest.mark.parametrize("saved", LENS, ids=lambda each: each["id"])
def test_no_column_hides_zeros_and_rates_have_their_unit(saved: dict[str, Any]) -> None:
    """Kibana writes 979.1 Mbit/s in this format, as the package @elastic/numeral shows, which
    formats Kibana's numbers.
    """
    columns = saved["attributes"]["state"]["datasourceStates"]["formBased"]["layers"]["data"][
        "columns"
    ]
    for column in columns.values():
        assert not column["params"].get("emptyAsNull"), column["label"]
        field = FIELDS.get(column["sourceField"])
        if (
            field
            and field.unit == "bit/s"
            and column["dataType"] == "number"
            and not column["isBucketed"]
        ):
            assert column["params"]["format"] == {
                "id": "custom",
                "params": {"decimals": 1, "pattern": "0,0.[0] bitd", "suffix": "/s"},
            }


def test_a_sum_of_what_may_be_missing_is_refused() -> None:
    chart = Lens(
        "title", VIEWS["hosts"], {"n": ["sum", "ccmix.host.softnet_drops", "n"]}, {"kind": "number"}
    )
    with pytest.raises(ValueError, match="may be missing"):
        chart.saved("id")


def test_every_dashboard_has_a_filter_for_campaigns() -> None:
    for dashboard in dashboards():
        assert "ccmix.campaign.name" in {control.field for control in dashboard.controls}


def test_sliders_are_for_numbers_with_whole_steps() -> None:
    """Kibana 8.12's sliders have steps of 1."""
    sliders = {
        control.field
        for dashboard in dashboards()
        for control in dashboard.controls
        if control.kind == "rangeSlider"
    }
    assert {FIELDS[field].unit for field in sliders} <= {"ms", "bit/s", "flows", "1"}


def test_times_of_the_data() -> None:
    """They are from the day of the first run to the day after the last, or to now if runs are still
    coming.
    """
    day = 86_400.0
    assert times_of(1.5 * day, 3.2 * day, 400 * day) == TimeRange(
        "1970-01-02T00:00:00Z", "1970-01-05T00:00:00Z"
    )
    assert times_of(1.5 * day, 399 * day, 400 * day) == TimeRange("1970-01-02T00:00:00Z", "now")
    opened = [json.loads(line)["attributes"] for line in ndjson(TimeRange("a", "b")).splitlines()]
    assert {(each["timeFrom"], each["timeTo"]) for each in opened if "timeFrom" in each} == {
        ("a", "b")
    }


@pytest.mark.parametrize("saved", LENS, ids=lambda each: each["id"])
def test_what_is_split_by_cca_has_the_reports_colours(saved: dict[str, Any]) -> None:
    state = saved["attributes"]["state"]
    columns = state["datasourceStates"]["formBased"]["layers"]["data"]["columns"]
    for layer in state["visualization"].get("layers", ()):
        split = columns.get(layer.get("splitAccessor"), {}).get("sourceField")
        given = {
            assignment["rule"]["values"][0]: assignment["color"]["colorCode"]
            for assignment in layer.get("colorMapping", {}).get("assignments", ())
        }
        assert given == (COLOURS if split == "ccmix.cca" else {})


@pytest.mark.parametrize("saved", LENS, ids=lambda each: each["id"])
def test_a_chart_draws_all_its_columns_and_no_others(saved: dict[str, Any]) -> None:
    state = saved["attributes"]["state"]
    layer = state["datasourceStates"]["formBased"]["layers"]["data"]
    columns = layer["columnOrder"]
    buckets = [layer["columns"][name]["isBucketed"] for name in columns]
    assert buckets == sorted(buckets, reverse=True)
    drawn = json.dumps(state["visualization"])
    assert all(f'"{name}"' in drawn for name in columns)
    accessors = _accessors(state["visualization"])
    assert accessors <= set(columns), accessors


def _accessors(state: Any) -> set[str]:
    if isinstance(state, list):
        return set[str]().union(*map(_accessors, state))
    if not isinstance(state, dict):
        return set()
    own = {
        value
        for key, value in state.items()
        if key.endswith(("Accessor", "columnId")) and isinstance(value, str)
    }
    return (
        own | set(state.get("accessors", ())) | set[str]().union(*map(_accessors, state.values()))
    )


@pytest.mark.parametrize("dashboard", dashboards(), ids=lambda each: each.name)
def test_the_guide_has_a_drawing_of_modest_size(dashboard: Any) -> None:
    image = f"images/kibana-{dashboard.name}.svg"
    assert (
        f"![{dashboard.title}](../{image})"
        in (REPOSITORY / "docs" / "reference" / "dashboards.md").read_text()
    )
    assert 5_000 < (REPOSITORY / "docs" / image).stat().st_size < 300_000
