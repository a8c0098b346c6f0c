"""JSON of the archive: the one place that encodes, decodes and validates the types of `model`.

Decoding is strict: a value of another type, a number that is not finite, a missing field and an unknown one are errors.
"""

import contextlib
import functools
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import SchemaError

from ccmix.archive import inside
from ccmix.archive.errors import ArchiveError
from ccmix.archive.replacing import write_whole
from ccmix.model import Measurement
from ccmix.model.results import CampaignPlan, FinishedRun

SCHEMA = 3  # of run.json and campaign.json; raised when a reader of the old one would go wrong
MOST_BYTES = 8 * 2**20  # a run.json has some 10 kB, and 1 MB if it lists many flows
MOST_VALUES = 500_000  # it has one in 20 bytes, and each takes up to 100 bytes of memory while it is read
MOST_WHOLE_BYTES, MOST_WHOLE_VALUES = 32 * 2**20, 2_000_000  # of a plan that plans.py does not read run by run
_LAST_COMMITS = {"2": "529f4275"}  # that read an older schema
_BEGIN = re.compile(rb'\s*\{\s*"schema"\s*:\s*([^\s,}]{1,40})\s*(?:,|(?=\})|\Z)')
STRICT = ConfigDict(strict=True, allow_inf_nan=False, extra="forbid")
_T = TypeVar("_T")


class _OtherSchemaError(ValueError):
    """Says that a file has another schema."""


@dataclass(frozen=True)
class Codec(Generic[_T]):
    """Encodes and decodes one type."""

    kind: type[_T]
    most_bytes: int = MOST_BYTES  # of a file that is read
    most_values: int = MOST_VALUES

    @functools.cached_property
    def _adapter(self) -> TypeAdapter[tuple[_T]]:
        try:
            return TypeAdapter(tuple[self.kind], config=STRICT)  # type: ignore[name-defined]  # a bare dataclass takes no config
        except SchemaError as error:
            if KeyboardInterrupt.__name__ in str(error):  # pydantic wraps the one of a Ctrl-C in the meantime
                raise KeyboardInterrupt from error
            raise

    def encode(self, value: _T, without: str | None = None) -> Any:
        """Returns what JSON can hold; leaves out the field `without`."""
        return self._adapter.dump_python((value,), mode="json", exclude={0: {without}} if without else None)[0]

    def decode(self, data: Any) -> _T:
        """Returns the value of what JSON held. Raises ValueError, which names the first wrong field."""
        return self._decode_text(json.dumps([data]))

    def decode_file(self, content: bytes) -> _T:
        """Returns the value of a file's content. Raises ValueError for another schema, or as decode() does."""
        begin = _BEGIN.match(content)
        if not begin:
            raise ValueError("it has no schema number, which ccmix writes first")
        if begin[1] != b"%d" % SCHEMA:
            schema = begin[1].decode(errors="replace")
            commit = _LAST_COMMITS.get(schema)
            older = f": the last commit that reads it is {commit}" if commit else ""
            raise _OtherSchemaError(f"has schema {schema}, and this ccmix reads {SCHEMA}{older}")
        skipped = re.sub(rb"\S", b" ", begin[0])  # keeps the lines and columns of errors
        return self._decode_text(b"[{%b%b]" % (skipped[1:].removeprefix(b" "), content[begin.end() :]))

    def decode_own(self, content: bytes) -> _T | None:
        """Returns the value of a file that this ccmix wrote; None for any other content."""
        with contextlib.suppress(ValueError):
            return self.decode_file(content)
        return None

    def _decode_text(self, text: bytes | str) -> _T:
        try:
            return self._adapter.validate_json(text)[0]
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False)[0]
            if first["type"] == "json_invalid":
                raise ValueError(f"it is not JSON: {first['msg'].removeprefix('Invalid JSON: ')}") from error
            names = ".".join(map(str, first["loc"][1:]))
            field = " ".join(names.split()) or "the document"  # a key may have any text, such as a line break
            raise ValueError(f"{field}: {first['msg']}, not {first['input']!r:.40}") from error

    def schema(self) -> dict[str, Any]:
        """Returns the JSON Schema of a file that holds the value, with its schema number first."""
        whole = self._adapter.json_schema(mode="validation")
        definitions = whole["$defs"]
        document = definitions.pop(self.kind.__name__)
        properties = {"schema": {"const": SCHEMA, "type": "integer"}} | document["properties"]
        required = ["schema", *document["required"]]
        return {"$schema": "https://json-schema.org/draft/2020-12/schema", **document} | {
            "properties": properties, "required": required, "$defs": definitions,
        }  # fmt: skip


FINISHED_RUN = Codec(FinishedRun)
CAMPAIGN_PLAN = Codec(CampaignPlan, 256 * 2**20, 12_000_000)  # 2 kB and 100 values for each of 100,000 runs
MEASUREMENT = Codec(Measurement)


def write(file: Path, codec: Codec[_T], value: _T) -> None:
    """Writes the value with its schema number; it is on disk when this returns. Raises OSError."""
    write_whole(file, json.dumps({"schema": SCHEMA, **codec.encode(value)}, indent=1))


def read(outdir: Path, file: Path, codec: Codec[_T]) -> _T:
    """Reads what write() wrote, below the folder of its campaign.

    Raises ArchiveError for a damaged file, another schema or a link on the way, FileNotFoundError for none.
    """
    return decoded(file, content(outdir, file, codec), codec)


def decoded(file: Path, content: bytes, codec: Codec[_T]) -> _T:
    """Returns the value of a file's content. Raises ArchiveError."""
    _check_size(file, content, MOST_WHOLE_BYTES, MOST_WHOLE_VALUES)
    try:
        return codec.decode_file(content)
    except _OtherSchemaError as error:
        raise ArchiveError(f"{file}: {error}") from error
    except ValueError as error:
        raise ArchiveError(f"{file}: can't be read: {error}: put back the one that ccmix wrote") from error


def content(outdir: Path, file: Path, codec: Codec[_T]) -> bytes:
    """Returns the content of a file below the folder of a campaign. Raises ArchiveError, and FileNotFoundError."""
    try:
        read_content = inside.read_bytes(outdir, file, codec.most_bytes)
        _check_size(file, read_content, codec.most_bytes, codec.most_values)
    except inside.FolderLinkError:
        raise
    except ArchiveError as error:
        raise ArchiveError(f"{error}: put back the one that ccmix wrote") from error
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ArchiveError(f"{file}: can't be read: {error.strerror}") from error
    return read_content


def _check_size(file: Path, content: bytes, most_bytes: int, most_values: int) -> None:
    """Raises ArchiveError for a document that would take too much memory.

    Its size does not say that: '[],' becomes 30 times as much. What stands before a value, or after it, is counted.
    """
    values = sum(content.count(character) for character in (b"[", b"{", b","))
    if len(content) > most_bytes or values > most_values:
        raise ArchiveError(
            f"{file}: can't be read: it has {len(content)} bytes and {values} values, and ccmix writes at most "
            f"{most_bytes} and {most_values}"
        )
