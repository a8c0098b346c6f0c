"""Writes saved objects of Kibana 8 in the form that its import reads: one JSON object a line."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]  # an object of Kibana's, Elasticsearch's or Vega-Lite's JSON

# The oldest Kibana that has every key of the file: 8.11 brought links and colours of terms, but nobody tried it there
OLDEST_KIBANA = "8.12"
CORE_VERSION = "8.8.0"
# The newest model of each type that every Kibana since OLDEST_KIBANA knows; newer ones migrate it when they import it.
TYPE_VERSIONS = {"index-pattern": "8.0.0", "lens": "8.9.0", "visualization": "8.5.0", "dashboard": "8.9.0"}


@dataclass(frozen=True)
class Reference:
    """Holds the name by which an object's attributes refer to another object, and that object."""

    name: str
    type: str
    id: str

    def prefixed(self, prefix: str) -> "Reference":
        """Returns the reference as a dashboard must name it for one of its panels."""
        return Reference(f"{prefix}:{self.name}", self.type, self.id)

    def to_json(self) -> dict[str, str]:
        return {"name": self.name, "type": self.type, "id": self.id}


@dataclass(frozen=True)
class SavedObject:
    """Holds one object; its attributes are as Kibana stores them, some of them JSON in a string."""

    type: str
    id: str
    attributes: Json
    references: tuple[Reference, ...] = ()

    def to_json(self) -> Json:
        return {
            "type": self.type,
            "id": self.id,
            "attributes": self.attributes,
            "references": [reference.to_json() for reference in self.references],
            "coreMigrationVersion": CORE_VERSION,
            "typeMigrationVersion": TYPE_VERSIONS[self.type],
        }


def embedded(value: Any) -> str:
    """Returns JSON as the string in which Kibana keeps parts of its objects."""
    return json.dumps(value, ensure_ascii=False)


def to_ndjson(objects: Iterable[SavedObject]) -> str:
    """Returns the file that Kibana imports."""
    return "".join(json.dumps(each.to_json(), ensure_ascii=False) + "\n" for each in objects)
