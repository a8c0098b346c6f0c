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

from ccmix.archive import inside, schema2
from ccmix.archive.errors import ArchiveError
from ccmix.archive.replacing import write_whole
from ccmix.model import Measurement
from ccmix.model.results import CampaignPlan, FinishedRun

SCHEMA = 3  # of run.json and campaign.json; raised when a reader of the old one would go wrong
MOST_BYTES = 8 * 2**20  # a run.json has some 10 kB, and 1 MB if it lists many flows
MOST_VALUES = 500_000  # it has one in 20 bytes, and each takes up to 100 bytes of memory while it is read
MOST_CONVERTED_BYTES, MOST_CONVERTED_VALUES = 32 * 2**20, 2_000_000  # of what is no document of this schema
_OWN_BEGIN = re.compile(rb'\{\s*"schema": %d,' % SCHEMA)
STRICT = ConfigDict(strict=True, allow_inf_nan=False, extra="forbid")
_T = TypeVar("_T")


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
        try:
            return self._adapter.validate_json(json.dumps([data]))[0]
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False)[0]
            names = ".".join(map(str, first["loc"][1:]))
            field = " ".join(names.split()) or "the document"  # a key may have any text, such as a line break
            raise ValueError(f"{field}: {first['msg']}, not {first['input']!r:.40}") from error

    def decode_own(self, content: bytes) -> _T | None:
        """Returns the value of a file that this ccmix wrote, several times as fast as decode(); None for any other
        content, of which decode() says what is wrong.
        """
        if begin := _OWN_BEGIN.match(content):
            with contextlib.suppress(ValidationError):
                return self._adapter.validate_json(b"[{%b]" % content[begin.end() :])[0]
        return None

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
_CONVERTERS = {"FinishedRun": schema2.convert_finished_run, "CampaignPlan": schema2.convert_campaign_plan}


def write(file: Path, codec: Codec[_T], value: _T) -> None:
    """Writes the value with its schema number; it is on disk when this returns. Raises OSError."""
    write_whole(file, json.dumps({"schema": SCHEMA, **codec.encode(value)}, indent=1))


def read(outdir: Path, file: Path, codec: Codec[_T]) -> _T:
    """Reads what write() wrote, or ccmix of schema 2, below the folder of its campaign.

    Raises ArchiveError for a damaged file, another schema or a link on the way, FileNotFoundError for none.
    """
    read_content = content(outdir, file, codec)
    value = codec.decode_own(read_content)
    return decoded(file, read_content, codec) if value is None else value


def decoded(file: Path, content: bytes, codec: Codec[_T]) -> _T:
    """Returns the value of a file's content, which this ccmix may not have written. Raises ArchiveError."""
    _check_size(file, content, MOST_CONVERTED_BYTES, MOST_CONVERTED_VALUES)
    data = _document(file, content)
    schema = data.pop("schema")
    if schema not in (schema2.SCHEMA, SCHEMA):
        raise ArchiveError(f"{file}: has schema {schema!r:.40}, and this ccmix reads {schema2.SCHEMA} and {SCHEMA}")
    try:
        if schema == schema2.SCHEMA:
            data = _CONVERTERS[codec.kind.__name__](_without_nan(data))
        return codec.decode(data)
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise ArchiveError(f"{file}: can't be read: {_reason(error)}: put back the one that ccmix wrote") from error


def _reason(error: Exception) -> str:
    """Returns what is wrong with a document, of what the codec or the converter raised."""
    if isinstance(error, KeyError):
        return f"it has no {error.args[0]!r}"
    if isinstance(error, TypeError | AttributeError):
        return f"a value has the wrong type ({error})"
    return str(error)


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


def _document(file: Path, content: bytes) -> dict[str, Any]:
    """Returns the JSON object in the file, which has a schema number."""
    try:
        data = json.loads(content.decode())
        _ = data["schema"], data.items()
    except UnicodeDecodeError as error:
        raise ArchiveError(f"{file}: can't be read: byte {error.start} is not UTF-8") from error
    except (ValueError, RecursionError) as error:
        raise ArchiveError(f"{file}: can't be read: it is no JSON: {error}") from error
    except (KeyError, TypeError, AttributeError) as error:
        raise ArchiveError(f"{file}: can't be read: it has no schema number, which ccmix writes first") from error
    return dict(data)


def _without_nan(data: dict[str, Any]) -> dict[str, Any]:
    """Returns the same with null for NaN and infinity, which ccmix of schema 2 read so."""
    without: dict[str, Any] = json.loads(json.dumps(data), parse_constant=lambda _: None)
    return without
