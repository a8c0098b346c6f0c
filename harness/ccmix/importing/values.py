"""Reads values of third-party files, and defines the run that all importers return.

Bad values in JSON objects become None.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    GetCoreSchemaHandler,
    OnErrorOmit,
)
from pydantic_core import CoreSchema, core_schema

from ccmix.analysis.tables import RunTables
from ccmix.archive import ArchiveError
from ccmix.model import Group
from ccmix.model.group_grammar import DEFAULT_CCA

MOST_BYTES = 2**28  # of a file that is read whole
TOO_LARGE = f"is larger than {MOST_BYTES >> 20} MiB: split it"
MOST_RATE_BPS = 1e15  # beyond what any path has
MOST_TIME_S = 1e9  # 30 years
MOST_COUNT = 2**53  # of bytes or segments: what JSON's numbers are exact to
_BEGIN = re.compile(r"^[ \t]*[{\[]", re.MULTILINE)
_NEXT = re.compile(r"\s*[{\[]")
# NaN and infinity, as printf of any system writes them
_NOT_FINITE = r"[-+]?(?:nan|inf(?:inity)?|1\.#\w+)(?:\(\w*\))?"
_MISSING = re.compile(rf"{_NOT_FINITE}|-*|n/?a|null|none", re.IGNORECASE)
# The same, or nothing, in the place of a number in JSON. JSON within a string has '\\n' and '\\t'
_BLANKS = r"(?:\s|\\[nrt])*+"
_MISSING_IN_JSON = re.compile(
    rf'("\s*+:{_BLANKS})(?:{_NOT_FINITE}|-)?(?={_BLANKS}[,}}])', re.IGNORECASE
)
JSON_DECODER = json.JSONDecoder(
    parse_constant=lambda _: None
)  # NaN and Infinity, which are not JSON, become None

Object = Mapping[str, Any]  # as a source has it
Row = dict[str, Any]  # an object from a reader, in the form of iperf3's or pScheduler's JSON
Kind = TypeVar("Kind")


class SourceError(ArchiveError):
    """Says that a file can't be read in the format that it seems to have: file, line, and how to
    fix it.
    """


def read_text(file: Path, name: str) -> str:
    """Reads a text file in UTF-8, or in UTF-16 with a byte order mark. `name` is for messages.
    Raises SourceError and OSError.
    """
    if too_large(file):
        raise SourceError(f"{name}: {TOO_LARGE}")
    content = file.read_bytes()
    try:
        return content.decode(encoding_of(content))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise SourceError(
            f"{name}:{line}: is not text in UTF-8: convert the file, such as by: iconv -f latin1 "
            "-t utf-8"
        ) from error


def too_large(file: Path) -> bool:
    """Returns whether a file is too large to be read into memory as a whole. Raises OSError."""
    return file.stat().st_size > MOST_BYTES


def encoding_of(begin: bytes) -> str:
    """Returns the encoding that the byte order mark at the beginning of a file states; UTF-8
    without one.
    """
    return "utf-16" if begin[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"


def writable(name: str) -> str:
    """Returns a name with ? for characters that can't be printed: halves of surrogate pairs, which
    can't be written to a file, and control characters, which act on a terminal and are not allowed
    in SVG.
    """
    if name.isprintable():
        return name
    return "".join(letter if letter.isprintable() else "?" for letter in name)


def read_number(text: str, most: float, factor: float = 1.0) -> float:
    """Reads a number in ASCII digits, and multiplies it by `factor`, the size of its unit.

    Raises ValueError if the product is not from 0 to `most`. The message is the end of a sentence,
    such as 'is not a number', to which the caller adds the text.
    """
    try:
        number = float(text) * factor if "_" not in text and text.isascii() else None
    except ValueError:
        number = None
    if number is None:
        raise ValueError("is not a number")
    if not math.isfinite(number):
        raise ValueError("is not a finite number")
    if not 0 <= number <= most:
        raise ValueError(f"is not from 0 to {most:g}")
    return number


def is_missing(text: str) -> bool:
    """Returns whether a text stands for a missing number: '-nan', 'nan(ind)', 'inf', '-', 'N/A',
    'null' or nothing.
    """
    return _MISSING.fullmatch(text) is not None


def within(number: float, most: float) -> float | None:
    """Returns the number if it is from 0 to `most`, otherwise None: files may have impossible
    values.
    """
    return number if 0 <= number <= most else None


class _OrDefault:
    """Annotates a field of a pydantic model, so that the given default replaces a missing or wrong
    value. Otherwise, pydantic would refuse the whole object.
    """

    def __init__(self, **default: Any) -> None:
        self._default = default

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Tells pydantic how to validate the field; pydantic calls this for the field's type."""
        return core_schema.with_default_schema(handler(source), on_error="default", **self._default)


class _OrEmpty:
    """Annotates a field of a pydantic model whose type is a model, too, so that an object without
    values replaces a missing or wrong value.
    """

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Tells pydantic how to validate the field; pydantic calls this for the field's type."""
        return core_schema.with_default_schema(
            handler(source), default_factory=lambda: source.model_validate({}), on_error="default"
        )


def _number_up_to(most: float) -> Any:
    """Restricts a field of a pydantic model to numbers from 0 to `most`, not given as text."""
    return Field(strict=True, ge=0, le=most, allow_inf_nan=False)


def _whole_number(value: Any) -> Any:
    """Turns a float into an int, because some programs write counts as 1.0 in JSON."""
    return int(value) if isinstance(value, float) and math.isfinite(value) else value


_OR_NONE = _OrDefault(default=None)
NeededRate = Annotated[
    float, _number_up_to(MOST_RATE_BPS)
]  # bit/s; without a needed value, an object of Items is left out
Rate = Annotated[NeededRate | None, _OR_NONE]
NeededSeconds = Annotated[float, _number_up_to(MOST_TIME_S)]
Seconds = Annotated[NeededSeconds | None, _OR_NONE]
Microseconds = Annotated[float | None, _number_up_to(1e9), _OR_NONE]
NeededCount = Annotated[
    int, Field(strict=True, ge=0, le=MOST_COUNT), BeforeValidator(_whole_number)
]
Count = Annotated[NeededCount | None, _OR_NONE]
Text = Annotated[str | None, Field(strict=True, min_length=1), AfterValidator(writable), _OR_NONE]
Flag = Annotated[bool, _OrDefault(default=False)]
Maybe = Annotated[Kind | None, _OR_NONE]
Part = Annotated[Kind, _OrEmpty()]
Items = Annotated[list[OnErrorOmit[Kind]], _OrDefault(default=[])]


class ForeignObject(BaseModel):
    """Models an object of a third-party JSON document: a field is None if it is missing or
    wrong.
    """


@dataclass(frozen=True)
class Document:
    """Holds a JSON object from a file, its own text to keep, and its `location` for messages:
    'FILE:LINE' of its begin.
    """

    content: Row
    text: str
    location: str


def read_documents(text: str, name: str) -> Iterator[Document]:
    """Yields the JSON objects in a text, and those in its lists; skips lines that are not JSON.
    Raises SourceError.

    iperf3's --json-stream writes one object for each event of a test: these are joined into the
    document that -J would have written.
    """
    joined: Row | None = None
    location, pieces = "", list[str]()
    for document in _json_objects(_MISSING_IN_JSON.sub(r"\1null", text), name):
        event, data = document.content.get("event"), document.content.get("data")
        if not isinstance(event, str):
            yield document
            continue
        if event == "start" and joined is not None:
            yield Document(joined, "\n".join(pieces), location)
            joined = None
        if joined is None:
            joined, location, pieces = {"intervals": []}, document.location, []
        pieces.append(document.text)
        if event == "interval":
            joined["intervals"].append(data)
        else:
            joined[event] = data
    if joined is not None:
        yield Document(joined, "\n".join(pieces), location)


def _json_objects(text: str, name: str) -> Iterator[Document]:
    """Yields the JSON objects in a text, and those in its lists, each with its line. Skips lines
    that do not begin with a bracket or brace. Raises SourceError for broken JSON after one.
    """
    position, line, counted_to = 0, 1, 0
    while begin_match := _NEXT.match(text, position) or _BEGIN.search(text, position):
        begin = begin_match.end() - 1
        line += text.count("\n", counted_to, begin)
        counted_to = begin
        location = f"{name}:{line}"
        try:
            content, position = JSON_DECODER.raw_decode(text, begin)
        except json.JSONDecodeError as error:
            error_line = line + text.count("\n", begin, error.pos)
            ending = (
                ", where the text ends: it was cut off"
                if error.pos >= len(text.rstrip()) - 1
                else ""
            )
            raise SourceError(
                f"{name}:{error_line}: is not valid JSON: {error.msg}{ending}: fix or remove the "
                f"part that begins in line {line}"
            ) from error
        except RecursionError as error:
            raise SourceError(
                f"{location}: is nested too deeply for a result: remove it"
            ) from error
        except ValueError as error:
            raise SourceError(f"{location}: has an invalid number: {error}: remove it") from error
        for item in content if isinstance(content, list) else [content]:
            if isinstance(item, dict):
                yield Document(
                    item, text[begin:position] if item is content else json.dumps(item), location
                )


@dataclass(frozen=True)
class GroupSums:
    """Holds what a table or summary reports of a group (the flows of one CCA in a test), for all of
    its streams together.

    With `goodput_estimated`, only the sender's rate is known, and `goodput_bps` is this rate.
    """

    cca: str
    streams: int
    goodput_bps: float
    throughput_bps: float | None = None
    retransmission_rate: float | None = None
    rtt_median_s: float | None = None
    goodput_estimated: bool = False


@dataclass(frozen=True)
class ForeignRun:
    """Describes a run that a third-party file reports. None, 0 and empty mean that it does not
    report the value.

    `results` are a summary's groups, or tables like those of a measured run. `missing` has
    sentences about facts that this run lacks, compared with a run of ccmix. `estimated` names
    metrics that were estimated from others. `raw` are files for the run's generators/.
    """

    kind: str  # a key of sources.KINDS
    source: str  # file, and line or number within it, as in messages
    results: tuple[GroupSums, ...] | RunTables
    groups: tuple[Group, ...] = (Group(DEFAULT_CCA),)
    streams: int = 0
    udp_bps: float | None = None  # of each stream; None: TCP
    bitrate_bps: float | None = None  # of each TCP stream, to which iperf3's -b holds it
    options: Mapping[str, str] = field(
        default_factory=dict
    )  # further known settings of the test, by their names
    unclear: Mapping[str, str] = field(
        default_factory=dict
    )  # columns that may be settings or results
    ended_early: str = ""  # after how much of its time; empty: it ran to its end
    entry: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    src: str | None = None
    dst: str | None = None
    dst_address: str | None = None
    duration_s: float = 0.0
    omit_s: float = 0.0
    interval_s: float = 0.0
    pacing_bps: float | None = None
    began_s: float | None = None
    ended_s: float | None = None
    pings_s: tuple[float, ...] = ()
    base_rtt_s: float | None = None
    rtt_median_s: float | None = None  # of the run; only with a summary
    kernel: str | None = None  # release, of the sending host
    version: str = ""  # of iperf3
    rate_bps: float | None = None  # of the bottleneck
    name_fields: Mapping[str, str] = field(
        default_factory=dict
    )  # facts from the source's name, by fields of --name-pattern
    open_questions: tuple[str, ...] = ()  # unanswered questions about the runs of its condition
    details: Object = field(
        default_factory=dict
    )  # further content of the source, as its JSON or its columns
    missing: tuple[str, ...] = ()
    estimated: tuple[str, ...] = ()
    diagnostics: tuple[str, ...] = ()
    raw: Mapping[str, bytes] = field(default_factory=dict)
    document: Object | None = None  # of a test of iperf3, to join the results of both ends

    @property
    def goodput_bps(self) -> float:
        """The sum of the goodput of all flows."""
        if isinstance(self.results, RunTables):
            return float(self.results.flows["goodput_bps"].sum())
        return sum(group.goodput_bps for group in self.results)


@dataclass(frozen=True)
class LeftOut:
    """Names a result that can't become a run, and says why."""

    source: str
    why: str
