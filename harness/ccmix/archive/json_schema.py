"""Writes the JSON Schema of run.json and campaign.json:
`python -m ccmix.archive.json_schema FOLDER`.
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
    """Returns the schema that is published under this name."""
    return json.dumps(_with_whole_paragraphs(SCHEMAS[name].schema()), indent=1) + "\n"


def _with_whole_paragraphs(schema: Any) -> Any:
    """Joins the lines of each description: how a docstring is wrapped is not part of the schema."""
    if isinstance(schema, list):
        return [_with_whole_paragraphs(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    joined = {name: _with_whole_paragraphs(value) for name, value in schema.items()}
    if isinstance(text := joined.get("description"), str):
        joined["description"] = "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))
    return joined


def main(folder: Path) -> None:
    for name in SCHEMAS:
        (folder / name).write_text(schema_text(name), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
