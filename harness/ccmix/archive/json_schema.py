"""Writes the JSON Schema of run.json and campaign.json: `python -m ccmix.archive.json_schema FOLDER`."""

import json
import sys
from pathlib import Path
from typing import Any

from ccmix.archive.codec import CAMPAIGN_PLAN, FINISHED_RUN, Codec

SCHEMAS: dict[str, Codec[Any]] = {"run.schema.json": FINISHED_RUN, "campaign.schema.json": CAMPAIGN_PLAN}


def schema_text(name: str) -> str:
    """Returns the schema that is published under this name."""
    return json.dumps(SCHEMAS[name].schema(), indent=1) + "\n"


def main(folder: Path) -> None:
    for name in SCHEMAS:
        (folder / name).write_text(schema_text(name), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
