"""Reads values of third-party files, and defines the run that all importers return.

Bad values in JSON objects become None.
"""

import bz2
import contextlib
import gzip
import json
import lzma
import math
import re
import subprocess
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Annotated, Any, TypeVar

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

HEADER_BYTES = 6
_NUMBERS = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,15})?)")
MOST_BYTES = 2**28  # of a file that is read whole
TOO_LARGE = f"is larger than {MOST_BYTES >> 20} MiB: split it"
MOST_RATE_BPS = 1e15  # beyond what any path has
MOST_TIME_S = 1e9  # 30 years
MOST_COUNT = 2**53  # of bytes or segments: what JSON's numbers are exact to
NOT_A_RESULT = "is not the result of a test"
_JSON = (
    r"(?P<json>\{\s*[\"}]|\[\s*[\"{\[\]])"  # as an object or a list begins that may have results
)
JSON_LINE = re.compile(rf"^{_JSON}", re.MULTILINE)
NEXT_JSON = re.compile(rf"\s*{_JSON}")
# A key that every result has
RESULT_KEY = re.compile(r"\"(?:start|intervals|event|result-merged|result-full|succeeded)\"\s*:")
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


@contextlib.contextmanager
def opened(file: Path, name: str) -> Iterator[IO[bytes]]:
    """Opens a file to read its content, which gzip, bzip2, xz or zstd may have compressed. `name`
    is for messages. Raises SourceError for damaged compressed content, and OSError.
    """
    with file.open("rb") as raw:
        begin = raw.read(HEADER_BYTES)
    matching = (DECOMPRESSORS[magic] for magic in DECOMPRESSORS if begin.startswith(magic))
    open_content = next(matching, lambda plain: plain.open("rb"))
    try:
        with open_content(file) as content:
            yield content
    except (EOFError, zlib.error, lzma.LZMAError) as error:
        raise SourceError(f"{name}: can't be decompressed: {error}") from error


@contextlib.contextmanager
def _zstd_content(file: Path) -> Iterator[IO[bytes]]:
    """Decompresses a file with the program zstd. Raises EOFError if it is damaged, and OSError."""
    with subprocess.Popen(
        ["zstd", "-dcq", "--", str(file)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as zstd:
        assert zstd.stdout is not None
        yield zstd.stdout
    if zstd.returncode > 0:  # a signal ends it if the reader wants no more
        raise EOFError("zstd finds it damaged or cut off")


# By the first bytes of a compressed file
DECOMPRESSORS: Mapping[bytes, Callable[[Path], Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\0": lzma.open,
    b"\x28\xb5\x2f\xfd": _zstd_content,
}


def read_text(file: Path, name: str) -> str:
    """Reads a text file in UTF-8, or in UTF-16 with a byte order mark, which may be compressed.
    `name` is for messages. Raises SourceError and OSError.
    """
    with opened(file, name) as stream:
        content = stream.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise SourceError(f"{name}: {TOO_LARGE}")
    try:
        return content.decode(encoding_of(content))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise SourceError(
            f"{name}:{line}: is not text in UTF-8: convert the file, such as by: iconv -f latin1 "
            "-t utf-8"
        ) from error


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


def numeric_order(name: str) -> list[str | float]:
    """Returns a key to sort names by the values of the numbers in them: 2 comes before 10."""
    parts: list[str | float] = [*_NUMBERS.split(name)]
    parts[1::2] = map(float, parts[1::2])
    return parts


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
    'FILE:LINE' of its begin. `keys` lead to it in the JSON that contains it, such as 'hits.hits'.
    """

    content: Row
    text: str
    location: str
    keys: str = ""


@dataclass(frozen=True)
class LeftOut:
    """Names a result that can't become a run, and says why."""

    source: str
    why: str


def read_documents(
    text: str, name: str, is_result: Callable[[Object], bool]
) -> Iterator[Document | LeftOut]:
    """Yields the JSON objects in a text that are results, wherever they are in other JSON, and the
    reason for JSON without a result. Skips lines that are not JSON.

    iperf3's --json-stream writes one object for each event of a test: these are joined into the
    document that -J would have written.
    """
    joined: Row | None = None
    location, pieces = "", list[str]()
    for document in _json_results(
        _MISSING_IN_JSON.sub(r"\1null", text), name, lambda item: _is_event(item) or is_result(item)
    ):
        if isinstance(document, LeftOut) or not _is_event(document.content):
            yield document
            continue
        event, data = document.content["event"], document.content["data"]
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


def _is_event(document: Object) -> bool:
    """Returns whether a JSON object is an event of iperf3's --json-stream."""
    return isinstance(document.get("event"), str) and "data" in document


def _json_results(
    text: str, name: str, is_result: Callable[[Object], bool]
) -> Iterator[Document | LeftOut]:
    """Yields the results in a text of JSON, each with its line. Yields LeftOut for JSON that is
    broken, and for a whole JSON value without a result. After broken JSON, the next JSON begins at
    the start of a line.
    """
    position, line, counted_to = 0, 1, 0
    begins = NEXT_JSON.match(text) or JSON_LINE.search(text)
    while begins:
        begin = begins.start("json")
        line += text.count("\n", counted_to, begin)
        counted_to = begin
        location = f"{name}:{line}"
        try:
            content, position = JSON_DECODER.raw_decode(text, begin)
        except (ValueError, RecursionError) as error:
            yield _broken_json(text, name, begin, line, error)
            begins = JSON_LINE.search(text, begin + 1)
            continue
        results = list(_results_in(content, is_result))
        if not results:
            yield LeftOut(location, NOT_A_RESULT)
        for result, keys in results:
            whole = text[begin:position] if result is content else json.dumps(result)
            yield Document(result, whole, location, keys)
        begins = NEXT_JSON.match(text, position) or JSON_LINE.search(text, position)


def _broken_json(text: str, name: str, begin: int, line: int, error: Exception) -> LeftOut:
    """Says why the JSON at position `begin`, in line `line`, can't be parsed."""
    if isinstance(error, RecursionError):
        return LeftOut(f"{name}:{line}", "is nested too deeply for a result: remove it")
    if not isinstance(error, json.JSONDecodeError):
        return LeftOut(f"{name}:{line}", f"has an invalid number: {error}: remove it")
    if not RESULT_KEY.search(text, begin, error.pos):
        return LeftOut(f"{name}:{line}", NOT_A_RESULT)
    error_line = line + text.count("\n", begin, error.pos)
    ending = ", where the text ends: it was cut off" if error.pos >= len(text.rstrip()) - 1 else ""
    return LeftOut(
        f"{name}:{error_line}",
        f"is not valid JSON: {error.msg}{ending}: fix or remove the part that begins in line "
        f"{line}",
    )


def _results_in(content: Any, is_result: Callable[[Object], bool]) -> Iterator[tuple[Row, str]]:
    """Yields the results in a JSON value, in their order, each with the keys that lead to it, such
    as 'hits.hits._source'. Also looks into texts that are JSON themselves.
    """
    waiting: list[tuple[Any, str]] = [(content, "")]
    while waiting:
        value, keys = waiting.pop()
        if isinstance(value, str) and RESULT_KEY.search(value):
            with contextlib.suppress(ValueError, RecursionError):
                value = JSON_DECODER.decode(value)
        if isinstance(value, list):
            waiting += [(item, keys) for item in reversed(value)]
        elif isinstance(value, dict) and is_result(value):
            yield value, keys
        elif isinstance(value, dict):
            waiting += [
                (item, f"{keys}.{key}".lstrip(".")) for key, item in reversed(value.items())
            ]


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
