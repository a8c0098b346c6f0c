"""Encodes, decodes and validates the JSON files of the archive: run.json and campaign.json.

No other module does so with the types of `model`. Decoding is strict: values of a wrong type,
numbers that are not finite, and missing or unknown fields are errors. In campaign.json, runs refer
to their path and traffic by number: a hundred thousand runs share a few paths, so the file has each
path and each traffic once.
"""

import functools
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import SchemaError

from ccmix.files import ArchiveError, FolderLinkError, read_bytes, write_new, write_whole
from ccmix.model import HostPath, Measurement, Run, Topology, Traffic
from ccmix.model.results import CampaignOrigin, CampaignPlan, FinishedRun
from ccmix.model.run import RunSpread
from ccmix.units import MOST_RATE_BPS

SCHEMA = 4  # of run.json and campaign.json; raised if an old reader would misread new files
MOST_BYTES = 8 * 2**20  # a run.json has some 10 kB, and 1 MB if it lists many flows
MOST_VALUES = (
    500_000  # a value takes 20 bytes of the file, and up to 100 bytes of memory while it is read
)
_LAST_COMMITS = {"2": "529f4275", "3": "a883b578"}  # that read an older schema
_SCHEMA_BEGIN = re.compile(rb'\s*\{\s*"schema"\s*:\s*([^\s,}]{1,40})\s*(?:,|(?=\})|\Z)')
STRICT = ConfigDict(strict=True, allow_inf_nan=False, extra="forbid")
_T = TypeVar("_T")


class _OtherSchemaError(ValueError):
    """Reports that a file has another schema number than this ccmix reads."""


@dataclass(frozen=True)
class Codec(Generic[_T]):
    """Encodes values of one type as JSON, and decodes and validates them. The limits keep a damaged
    or hostile file from taking too much memory.
    """

    kind: type[_T]
    most_bytes: int = MOST_BYTES  # of a file that is read
    most_values: int = MOST_VALUES
    # Returns a number that no measurement has, with its name
    impossible: Callable[[_T], str | None] = lambda _: None

    @functools.cached_property
    def _adapter(self) -> TypeAdapter[tuple[_T]]:
        """Returns Pydantic's validator of the type. It validates a tuple of one value, because a
        dataclass would not get the strict configuration.
        """
        try:
            # a bare dataclass takes no config
            return TypeAdapter(tuple[self.kind], config=STRICT)  # type: ignore[name-defined]
        except SchemaError as error:
            if KeyboardInterrupt.__name__ in str(
                error
            ):  # pydantic wraps the KeyboardInterrupt of a Ctrl-C at this time
                raise KeyboardInterrupt from error
            raise

    def encode(self, value: _T) -> Any:
        """Returns the value in the types of JSON: dictionaries, lists, strings, numbers."""
        return self._adapter.dump_python((value,), mode="json")[0]

    def text(self, value: _T) -> str:
        """Returns the text of a file: the value as JSON, with the schema number first."""
        return json.dumps({"schema": SCHEMA, **self.encode(value)}, indent=1)

    def decode(self, content: bytes) -> _T:
        """Returns the value that JSON without a schema number describes. Raises ValueError, which
        names the first wrong field.
        """
        if excess := self.excess(content):
            raise ValueError(excess)
        return self._decode_text(b"[%b]" % content)

    def decode_file(self, content: bytes) -> _T:
        """Returns the value that a file's content describes. Raises ValueError if the file has
        another schema number or a wrong field, which the message names.
        """
        beginning = _SCHEMA_BEGIN.match(content)
        if not beginning:
            raise ValueError("it has no schema number, which ccmix writes first")
        if beginning[1] != b"%d" % SCHEMA:
            schema = beginning[1].decode(errors="replace")
            commit = _LAST_COMMITS.get(schema)
            older = f": the last commit that reads it is {commit}" if commit else ""
            raise _OtherSchemaError(f"has schema {schema}, but this ccmix reads {SCHEMA}{older}")
        blanked = re.sub(rb"\S", b" ", beginning[0])  # keeps the lines and columns of errors
        return self._decode_text(
            b"[{%b%b]" % (blanked[1:].removeprefix(b" "), content[beginning.end() :])
        )

    def _decode_text(self, text: bytes | str) -> _T:
        """Returns the value that JSON describes: a list with one item. Raises ValueError, which
        names the first wrong field.
        """
        try:
            value = self._adapter.validate_json(text)[0]
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
        if number := self.impossible(value):
            raise ValueError(f"it has no plausible {number}")
        return value

    def excess(self, content: bytes) -> str | None:
        """Returns why a document would take too much memory when it is read; None if it would not.

        The size does not say enough: '[],' takes 30 times its size in memory. So the values are
        counted, too, by the characters that begin or separate them.
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
        value_schema = self._adapter.json_schema(mode="validation")
        definitions = value_schema["$defs"]
        document = definitions.pop(self.kind.__name__)
        properties = {"schema": {"const": SCHEMA, "type": "integer"}} | document["properties"]
        required = ["schema", *document["required"]]
        return {"$schema": "https://json-schema.org/draft/2020-12/schema", **document} | {
            "properties": properties,
            "required": required,
            "$defs": definitions,
        }


TIMES = ("started_s", "began_s", "ended_s", "measured_s")
LATEST_S = 1e11  # of the wall clock, since 1970: the year 5138
LARGEST_NUMBER = 1e30  # of any metric: sums of larger squares would not be finite


def _impossible_in_run(finished: FinishedRun) -> str | None:
    """Returns a number that no measurement has, with its name; None if there is none. Such numbers
    would make the statistics fail, or mean nothing.
    """
    metrics = finished.metrics
    more = (metrics.bottleneck, metrics.policer, metrics.rtt_probe, finished.facts.imported)
    parts = (finished, finished.execution, metrics, *metrics.groups, *metrics.flows, *more)
    bounds = dict.fromkeys(TIMES, (0.0, LATEST_S))
    if finished.verdict.status == "valid":
        bounds["goodput_bps"] = (0.0, MOST_RATE_BPS)
    return _impossible(filter(None, parts), bounds)


def _impossible(parts: Iterable[object], bounds: Mapping[str, tuple[float, float]]) -> str | None:
    """Returns the first number of the parts that is outside of its bounds, with its name. `bounds`
    are given by name; all other numbers may be up to LARGEST_NUMBER.
    """
    for part in parts:
        for name, value in vars(part).items():
            least, most = bounds.get(name, (-LARGEST_NUMBER, LARGEST_NUMBER))
            if isinstance(value, int | float) and not least <= value <= most:
                return f"{name}: {value!s:.30}"
    return None


FINISHED_RUN = Codec(FinishedRun, impossible=_impossible_in_run)
MEASUREMENT = Codec(Measurement, 32 * 2**20)  # a path with 1,000 ends has 10 MB of counters


def write(file: Path, codec: Codec[_T], value: _T) -> None:
    """Writes the value to a file with its schema number. The file is on disk when this returns.
    Raises OSError.
    """
    write_whole(file, codec.text(value))


def write_staged(file: Path, codec: Codec[_T], value: _T) -> None:
    """Writes the value to a file with its schema number, in one line, and without waiting for the
    disk. It is for a folder that files.staged() will put on disk with all of its files. Raises
    OSError.
    """
    write_new(file, json.dumps({"schema": SCHEMA, **codec.encode(value)}).encode())


def read(outdir: Path, file: Path, codec: Codec[_T]) -> _T:
    """Reads the value in a file that write() wrote, below the campaign folder `outdir`.

    Raises ArchiveError if the file is damaged, has another schema, or is reached through a link,
    and FileNotFoundError if there is no file.
    """
    content = _read_content(outdir, file, codec)
    try:
        return codec.decode_file(content)
    except _OtherSchemaError as error:
        raise ArchiveError(f"{file}: {error}") from error
    except ValueError as error:
        raise ArchiveError(
            f"{file}: can't be read: {error}: put back the file that ccmix wrote"
        ) from error


def _read_content(outdir: Path, file: Path, codec: Codec[_T]) -> bytes:
    """Returns the bytes of a file below the campaign folder `outdir`, within the limits of the
    codec. Raises ArchiveError, and FileNotFoundError.
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
    PlanDocument,
    128 * 2**20,
    6_000_000,
    lambda document: _impossible([document.origin], {"started_s": (0.0, LATEST_S)}),
)


class _WrongPlanError(ValueError):
    """Reports that one part of campaign.json contradicts another part."""


def write_plan(file: Path, plan: CampaignPlan) -> None:
    """Writes a plan to campaign.json. Raises OSError, and ArchiveError if the plan is larger than
    read_plan() accepts.
    """
    text = CAMPAIGN_PLAN.text(_document_of_plan(plan))
    if excess := CAMPAIGN_PLAN.excess(text.encode()):
        raise ArchiveError(f"{file}: {excess}: split these runs into several campaigns")
    write_whole(file, text)


def read_plan(outdir: Path, file: Path) -> CampaignPlan:
    """Reads the plan of a campaign from `file`, the campaign.json in its folder `outdir`.

    Raises ArchiveError if the file is damaged, has another schema, or is reached through a link,
    and FileNotFoundError if there is no file.
    """
    document = read(outdir, file, CAMPAIGN_PLAN)
    try:
        return _plan_of_document(document)
    except _WrongPlanError as error:
        raise ArchiveError(
            f"{file}: can't be read: {error}: put back the file that ccmix wrote"
        ) from error


def _document_of_plan(plan: CampaignPlan) -> PlanDocument:
    """Returns the plan in the form of campaign.json, in which runs refer to their traffic and path
    by numbers.
    """
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


def _plan_of_document(document: PlanDocument) -> CampaignPlan:
    """Returns the plan that campaign.json describes. Equal conditions become the same object, which
    saves memory. Raises _WrongPlanError.
    """
    if document.file_order and sorted(document.file_order) != list(range(len(document.runs))):
        raise _WrongPlanError("file_order does not name each run once")
    run_keys = set()
    conditions: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}
    runs = []
    for number, run in enumerate(document.runs):
        condition = conditions.setdefault(tuple(run.condition.items()), run.condition)
        run_keys.add((run.entry, id(condition), run.dst, run.iteration))
        if len(run_keys) == number:
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
