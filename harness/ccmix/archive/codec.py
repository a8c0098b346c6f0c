"""JSON of the archive: the only place that encodes, decodes and validates the types of `model`.

Decoding is strict: values of a wrong type, numbers that are not finite, and missing or unknown
fields are errors. In campaign.json, runs refer to their path and traffic by number: a hundred
thousand runs share a few paths, so the file has each path and each traffic once."""

import functools
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import SchemaError

from ccmix.files import ArchiveError, FolderLinkError, read_bytes, write_new, write_whole
from ccmix.model import HostPath, Measurement, Run, Topology, Traffic
from ccmix.model.results import CampaignOrigin, CampaignPlan, FinishedRun
from ccmix.model.run import RunSpread

SCHEMA = 4  # of run.json and campaign.json; raised if an old reader would misread new files
MOST_BYTES = 8 * 2**20  # a run.json has some 10 kB, and 1 MB if it lists many flows
MOST_VALUES = (
    500_000  # a value takes 20 bytes of the file, and up to 100 bytes of memory while it is read
)
_LAST_COMMITS = {"2": "529f4275", "3": "a883b578"}  # that read an older schema
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
            # a bare dataclass takes no config
            return TypeAdapter(tuple[self.kind], config=STRICT)  # type: ignore[name-defined]
        except SchemaError as error:
            if KeyboardInterrupt.__name__ in str(
                error
            ):  # pydantic wraps that of a Ctrl-C at this time
                raise KeyboardInterrupt from error
            raise

    def encode(self, value: _T) -> Any:
        """Returns the value as lists, dictionaries and scalars of JSON."""
        return self._adapter.dump_python((value,), mode="json")[0]

    def text(self, value: _T) -> str:
        """Returns the content of a file: the value as JSON, with its schema number first."""
        return json.dumps({"schema": SCHEMA, **self.encode(value)}, indent=1)

    def decode(self, data: Any) -> _T:
        """Returns the value of decoded JSON. Raises ValueError, which names the first wrong
        field.
        """
        return self._decode_text(json.dumps([data]))

    def decode_file(self, content: bytes) -> _T:
        """Returns the value of a file's content. Raises ValueError for another schema number, and
        as decode() does.
        """
        begin = _BEGIN.match(content)
        if not begin:
            raise ValueError("it has no schema number, which ccmix writes first")
        if begin[1] != b"%d" % SCHEMA:
            schema = begin[1].decode(errors="replace")
            commit = _LAST_COMMITS.get(schema)
            older = f": the last commit that reads it is {commit}" if commit else ""
            raise _OtherSchemaError(f"has schema {schema}, but this ccmix reads {SCHEMA}{older}")
        skipped = re.sub(rb"\S", b" ", begin[0])  # keeps the lines and columns of errors
        return self._decode_text(
            b"[{%b%b]" % (skipped[1:].removeprefix(b" "), content[begin.end() :])
        )

    def _decode_text(self, text: bytes | str) -> _T:
        try:
            return self._adapter.validate_json(text)[0]
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False)[0]
            if first["type"] == "json_invalid":
                raise ValueError(
                    f"it is not JSON: {first['msg'].removeprefix('Invalid JSON: ')}"
                ) from error
            names = ".".join(map(str, first["loc"][1:]))
            field = (
                " ".join(names.split()) or "the document"
            )  # a key may have any text, such as a line break
            raise ValueError(f"{field}: {first['msg']}, not {first['input']!r:.40}") from error

    def excess(self, content: bytes) -> str | None:
        """Returns why a document would take too much memory; None if it would not.

        Its size is not enough to tell: '[],' takes 30 times as much in memory. So the characters
        between values are counted.
        """
        values = sum(content.count(character) for character in (b"[", b"{", b","))
        if len(content) <= self.most_bytes and values <= self.most_values:
            return None
        return (
            f"it has {len(content)} bytes and {values} values, but ccmix reads at most "
            f"{self.most_bytes} and {self.most_values}"
        )

    def schema(self) -> dict[str, Any]:
        """Returns the JSON Schema of a file that holds the value, with its schema number first."""
        whole = self._adapter.json_schema(mode="validation")
        definitions = whole["$defs"]
        document = definitions.pop(self.kind.__name__)
        properties = {"schema": {"const": SCHEMA, "type": "integer"}} | document["properties"]
        required = ["schema", *document["required"]]
        return {"$schema": "https://json-schema.org/draft/2020-12/schema", **document} | {
            "properties": properties,
            "required": required,
            "$defs": definitions,
        }


FINISHED_RUN = Codec(FinishedRun)
MEASUREMENT = Codec(Measurement)


def write(file: Path, codec: Codec[_T], value: _T) -> None:
    """Writes the value with its schema number. The file is on disk when this returns. Raises
    OSError.
    """
    write_whole(file, codec.text(value))


def write_staged(file: Path, codec: Codec[_T], value: _T) -> None:
    """Writes the value as write() does, but in one line and without an fsync, into a folder that
    files.staged() will put on disk with all of its files. Raises OSError.
    """
    write_new(file, json.dumps({"schema": SCHEMA, **codec.encode(value)}).encode())


def read(outdir: Path, file: Path, codec: Codec[_T]) -> _T:
    """Reads a file that write() wrote, below the folder of its campaign.

    Raises ArchiveError if the file is damaged, has another schema, or is behind a link, and
    FileNotFoundError if there is no file.
    """
    content = _content(outdir, file, codec)
    try:
        return codec.decode_file(content)
    except _OtherSchemaError as error:
        raise ArchiveError(f"{file}: {error}") from error
    except ValueError as error:
        raise ArchiveError(
            f"{file}: can't be read: {error}: put back the file that ccmix wrote"
        ) from error


def _content(outdir: Path, file: Path, codec: Codec[_T]) -> bytes:
    """Returns the content of a file below the folder of a campaign. Raises ArchiveError, and
    FileNotFoundError.
    """
    try:
        content = read_bytes(outdir, file, codec.most_bytes)
    except FolderLinkError:
        raise
    except ArchiveError as error:
        raise ArchiveError(f"{error}: put back the file that ccmix wrote") from error
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ArchiveError(f"{file}: can't be read: {error.strerror}") from error
    if excess := codec.excess(content):
        raise ArchiveError(f"{file}: can't be read: {excess}: put back the file that ccmix wrote")
    return content


Number = Annotated[int, Field(ge=0)]  # of a path or a traffic of the document, from 0


@dataclass(frozen=True)
class PlannedRun:
    """Holds a run as model.Run has it, with the numbers of its traffic and its path."""

    entry: str
    condition: dict[str, str]
    dst: str
    iteration: int
    seed: int | None
    traffic: Number
    path: Number
    accept_limits: tuple[str, ...] = ()
    spread: RunSpread | None = None


@dataclass(frozen=True)
class PlanDocument:
    """Holds a plan as model.results.CampaignPlan has it, with each path and each traffic once."""

    origin: CampaignOrigin
    ini: str
    traffics: tuple[Traffic, ...]
    paths: tuple[Topology | HostPath, ...]
    runs: tuple[PlannedRun, ...]
    title: str = ""
    file_order: tuple[int, ...] = ()
    unknown: dict[str, tuple[str, ...]] = field(default_factory=dict)


CAMPAIGN_PLAN = Codec(  # 1 kB and 60 values for each of 100,000 runs with 40 streams
    PlanDocument, 128 * 2**20, 6_000_000
)


class _WrongPlanError(ValueError):
    """Says which part of a document contradicts another part."""


def write_plan(file: Path, plan: CampaignPlan) -> None:
    """Writes a plan. Raises OSError, and ArchiveError if the plan is too large to be read."""
    text = CAMPAIGN_PLAN.text(_document(plan))
    if excess := CAMPAIGN_PLAN.excess(text.encode()):
        raise ArchiveError(f"{file}: {excess}: split these runs into several campaigns")
    write_whole(file, text)


def read_plan(outdir: Path, file: Path) -> CampaignPlan:
    """Reads a plan as read() does."""
    document = read(outdir, file, CAMPAIGN_PLAN)
    try:
        return _plan(document)
    except _WrongPlanError as error:
        raise ArchiveError(
            f"{file}: can't be read: {error}: put back the file that ccmix wrote"
        ) from error


def _document(plan: CampaignPlan) -> PlanDocument:
    traffics: dict[Traffic, int] = {}
    paths: dict[Topology | HostPath, int] = {}
    runs = []
    for run in plan.runs:
        traffic = traffics.setdefault(run.traffic, len(traffics))
        path = paths.setdefault(run.path, len(paths))
        runs.append(PlannedRun(**{**vars(run), "traffic": traffic, "path": path}))
    return PlanDocument(
        plan.origin,
        plan.ini,
        tuple(traffics),
        tuple(paths),
        tuple(runs),
        plan.title,
        plan.file_order,
        plan.unknown,
    )


def _plan(document: PlanDocument) -> CampaignPlan:
    """Returns the plan of a document; equal conditions share an object in memory. Raises
    _WrongPlanError.
    """
    if document.file_order and sorted(document.file_order) != list(range(len(document.runs))):
        raise _WrongPlanError("file_order does not name each run once")
    names = set()
    conditions: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}
    runs = []
    for number, run in enumerate(document.runs):
        condition = conditions.setdefault(tuple(run.condition.items()), run.condition)
        names.add((run.entry, id(condition), run.dst, run.iteration))
        if len(names) == number:
            raise _WrongPlanError(f"runs.{number} appears twice")
        try:
            traffic, path = document.traffics[run.traffic], document.paths[run.path]
        except IndexError as error:
            raise _WrongPlanError(
                f"runs.{number} refers to a path or traffic that the file does not have"
            ) from error
        shared = {"condition": condition, "traffic": traffic, "path": path}
        runs.append(Run(**{**vars(run), **shared}))
    return CampaignPlan(
        document.origin,
        document.ini,
        tuple(runs),
        document.title,
        document.file_order,
        document.unknown,
    )
