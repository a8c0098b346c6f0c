"""Lists the keys that Kibana's public schemas have, with the version since which each is there.

A stand-in for an import into a real Kibana, which can't be had here: whoever imports a file into a
real one sees more. Sources, in the repository elastic/kibana, each read at commits before and after
a change (paths of versions 8.x):

- dashboards, and their group of controls: src/plugins/dashboard/common/content_management, v1 and
v2, which refuse all
  keys that they don't name; showApplySelections came with pull request 174714
- panels: src/plugins/dashboard/common/content_management/v1/types.ts
- links: src/plugins/links/common/content_management/v1/cm_services.ts, and pull request 166896
- Lens: x-pack/plugins/lens/common/content_management/v1/cm_services.ts; the state's keys are those
of the columns
  below x-pack/plugins/lens/public; formats of columns: pull requests 128246, 141372, 158468
- colours of terms: packages/kbn-coloring/src/shared_components/color_mapping/config/types.ts, pull
requests 162389 and
  175144
- Vega: src/plugins/visualizations/common/content_management/v1/cm_services.ts
- data views: src/plugins/data_views/common/content_management/v1/cm_services.ts

"8.8" is that version or an older one.
"""

Since = dict[str, str]


def of(version: str, *keys: str) -> Since:
    return dict.fromkeys(keys, version)


SAVED_OBJECT = of(
    "8.8", "type", "id", "attributes", "references", "coreMigrationVersion", "typeMigrationVersion"
)
ATTRIBUTES: dict[str, Since] = {
    "index-pattern": of(
        "8.8",
        "title",
        "name",
        "timeFieldName",
        "fields",
        "fieldAttrs",
        "sourceFilters",
        "fieldFormatMap",
        "type",
        "typeMeta",
        "allowNoIndex",
        "runtimeFieldMap",
    ),
    "lens": of("8.8", "title", "description", "visualizationType", "state"),
    "visualization": of(
        "8.8",
        "title",
        "description",
        "version",
        "kibanaSavedObjectMeta",
        "uiStateJSON",
        "visState",
        "savedSearchRefName",
    ),
    "dashboard": of(
        "8.8",
        "title",
        "description",
        "kibanaSavedObjectMeta",
        "timeRestore",
        "timeFrom",
        "timeTo",
        "refreshInterval",
        "controlGroupInput",
        "panelsJSON",
        "optionsJSON",
        "hits",
        "version",
    )
    | of("9.1", "sections"),
}
CONTROL_GROUP = of(
    "8.8", "panelsJSON", "controlStyle", "chainingSystem", "ignoreParentSettingsJSON"
) | of("8.14", "showApplySelections")
CONTROL = of("8.8", "type", "order", "width", "grow", "explicitInput")
CONTROL_INPUT = of(
    "8.8", "id", "fieldName", "title", "enhancements", "selectedOptions", "exclude", "singleSelect"
) | of("8.13", "step")
OPTIONS = of("8.8", "useMargins", "syncColors", "syncCursor", "syncTooltips", "hidePanelTitles")
REFRESH = of("8.8", "pause", "value", "display", "section")
PANEL = of(
    "8.8", "version", "type", "gridData", "panelIndex", "embeddableConfig", "panelRefName", "title"
)
GRID = of("8.8", "x", "y", "w", "h", "i")
PANEL_TYPES = of("8.8", "lens", "visualization") | of("8.11", "links")
LINK = of("8.11", "type", "id", "label", "order", "destinationRefName", "options")
COLUMN = of(
    "8.8",
    "label",
    "customLabel",
    "dataType",
    "operationType",
    "scale",
    "sourceField",
    "isBucketed",
    "params",
    "filter",
)
COLUMN_PARAMS = of(
    "8.8",
    "emptyAsNull",
    "format",
    "size",
    "orderBy",
    "orderDirection",
    "otherBucket",
    "missingBucket",
    "parentFormat",
    "type",
    "ranges",
    "maxBars",
    "includeEmptyRows",
    "interval",
    "dropPartials",
)
COLUMN_FORMATS = of("8.8", "number", "percent", "bytes", "bits") | of("8.9", "custom")
FORMAT_PARAMS = of("8.8", "decimals", "suffix") | of("8.9", "pattern", "compact")
COLOUR_MAPPING = of(
    "8.11", "paletteId", "colorMode", "assignmentMode", "assignments", "specialAssignments"
)
NEEDED_IN_COLOUR_MAPPING = {
    "8.11": set(COLOUR_MAPPING),
    "8.13": set(COLOUR_MAPPING) - {"assignmentMode"},
}
COLOUR_TYPES = of("8.11", "colorCode", "categorical", "gradient") | of("8.13", "loop")
