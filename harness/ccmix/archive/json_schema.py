"""Writes the JSON Schemas of run.json and campaign.json, which docs/ publishes, to a folder.

Run it as `python -m ccmix.archive.json_schema FOLDER`.
"""

import json
import sys
from pathlib import Path
from typing import Any

from ccmix.archive.codec import CAMPAIGN_PLAN, FINISHED_RUN, Codec

SCHEMAS: dict[str, Codec[Any]] = {
    "run.schema.json": FINISHED_RUN,
    "campaign.schema.json": CAMPAIGN_PLAN,
}


def schema_text(name: str) -> str:
    """Returns the text of the published schema with this file name."""
    return json.dumps(_unwrap_descriptions(SCHEMAS[name].schema()), indent=1) + "\n"


def _unwrap_descriptions(schema: Any) -> Any:
    """Joins the lines of each description in a schema. Descriptions are docstrings, and how these
    are wrapped is not part of the schema.
    """
    if isinstance(schema, list):
        return [_unwrap_descriptions(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    joined = {name: _unwrap_descriptions(value) for name, value in schema.items()}
    if isinstance(text := joined.get("description"), str):
        joined["description"] = "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))
    return joined


def main(folder: Path) -> None:
    for name in SCHEMAS:
        (folder / name).write_text(schema_text(name), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
