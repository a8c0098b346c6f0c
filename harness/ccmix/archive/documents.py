"""campaign.json and run.json: written whole or not at all, and read only where this version understands them."""

import json
import os
from pathlib import Path
from typing import Any

SCHEMA = 2  # of both; raised when a reader of the old one would go wrong
PARTIAL = ".partial"


class ArchiveError(Exception):
    """A folder or file that is not what it should be; the message names it and says what to do."""


def write(file: Path, data: dict[str, Any]) -> None:
    """On disk when it returns. Raises OSError."""
    part = file.with_name(file.name + PARTIAL)
    with part.open("w") as out:
        json.dump({"schema": SCHEMA} | data, out, indent=1)
        out.flush()
        os.fsync(out.fileno())
    part.rename(file)


def read(file: Path) -> dict[str, Any]:
    """What was written. Raises ArchiveError for a damaged file or another schema, FileNotFoundError for none."""
    try:
        data = json.loads(file.read_text(encoding="utf-8"), parse_constant=lambda _: None)  # NaN: nothing could tell it
        schema = data.pop("schema")
    except FileNotFoundError:
        raise
    except UnicodeDecodeError as error:
        raise ArchiveError(f"{file}: can't be read: byte {error.start} is not UTF-8") from error
    except OSError as error:
        raise ArchiveError(f"{file}: can't be read: {error.strerror}") from error
    except ValueError as error:
        raise ArchiveError(f"{file}: can't be read: it is no JSON: {error}") from error
    except (KeyError, TypeError, AttributeError) as error:
        raise ArchiveError(f"{file}: can't be read: it has no schema's number, as ccmix writes it first") from error
    if schema != SCHEMA:
        raise ArchiveError(f"{file}: is of schema {schema}, and this ccmix reads {SCHEMA}")
    return dict(data)
