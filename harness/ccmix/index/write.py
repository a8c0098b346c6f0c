"""`python -m ccmix.index.write`, in the repository: writes what is made from the table of fields."""

import json
import shutil
from pathlib import Path

from ccmix.index import templates

FOLDER, TABLE = Path("elk/elasticsearch"), Path("docs/reference/index-fields.md")


def main() -> None:
    shutil.rmtree(FOLDER, ignore_errors=True)
    for name, content in templates.files().items():
        file = FOLDER / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(content, indent=1) + "\n")
    TABLE.write_text(templates.field_table())


if __name__ == "__main__":
    main()
