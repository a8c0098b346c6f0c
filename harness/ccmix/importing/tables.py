"""Reads tables of results as CSV: a line is a test, or one CCA of a test."""

import csv
import datetime
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ccmix.importing.columns import has_rows, renamed, table_of_rows
from ccmix.importing.foreign_run import ForeignRun, GroupSums, SourceError
from ccmix.importing.foreign_text import writable
from ccmix.importing.numbers import MOST_CLOCK_S, MOST_RATE_BPS, MOST_TIME_S, bounded, known, number_in
from ccmix.model import Group
from ccmix.model.group_grammar import DEFAULT_CCA
from ccmix.model.results import ImportOverrides

# The names of a column in each role, without the unit.
ROLES = {
    "dst": ("dst", "host", "destination", "receiver"),
    "src": ("src", "source", "sender"),
    "entry": ("entry",),
    "test": ("test",),
    "streams": ("streams", "parallel", "flows"),
    "cca": ("cca", "cc", "congestion"),
    "goodput": ("goodput", "goodput_mean", "receiver_throughput"),
    "throughput": ("throughput", "throughput_mean", "sender_throughput"),
    "retransmission_rate": ("retransmission_rate", "retransmit_rate"),
    "rtt": ("rtt",),
    "duration": ("duration",),
    "began": ("timestamp", "began", "began_at"),
}
RATES_BPS = {"bps": 1.0, "kbps": 1e3, "mbps": 1e6, "gbps": 1e9, "tbps": 1e12}
TIMES_S = {"s": 1.0, "ms": 1e-3, "us": 1e-6}
_UNITS = {
    "goodput": RATES_BPS, "throughput": RATES_BPS, "rtt": TIMES_S, "duration": TIMES_S,
}  # fmt: skip
_MOST = {"goodput": MOST_RATE_BPS, "throughput": MOST_RATE_BPS, "rtt": MOST_TIME_S, "duration": MOST_TIME_S}
MOST_STREAMS = 100_000
UNCLEAR = (
    "lines that follow each other differ in CCA and results alone, and have no 'test': each is taken for a test of its "
    "own; where CCAs ran at the same time, give their lines the same value in a column 'test'"
)
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_.:/+-]{0,23}|\d+(?:\.\d+)?[A-Za-z/%]+")  # such as fq_codel, 1gbit or 20ms
_LIKE_SETTINGS = (
    "rate", "bandwidth", "bw", "buffer", "bdp", "loss", "delay", "latency", "base_rtt", "mtu", "mss", "pacing", "qdisc",
    "aqm", "queue",
)  # fmt: skip
_DELIMITERS = ",;\t"


@dataclass(frozen=True)
class Columns:
    """Maps each role to its column and the factor of its unit."""

    at: Mapping[str, tuple[int, float]]
    names: tuple[str, ...]
    settings: tuple[int, ...]


@dataclass(frozen=True)
class ForeignLine:
    """Holds a line of the table: the results of a CCA in a test."""

    number: int  # in the file, from 1
    text: tuple[str, ...]
    test: str | None
    identity: tuple[str | None, ...]  # dst, src, entry, test, streams, duration and settings
    group: GroupSums
    test_streams: int
    duration_s: float
    began_s: float | None  # since 1970


def columns_of(header: Sequence[str]) -> Mapping[str, tuple[int, float]] | None:
    """Returns the column and factor of each role; None if no column has a rate, as in every table of results."""
    at: dict[str, tuple[int, float]] = {}
    for number, name in enumerate(header):
        for role, names in ROLES.items():
            if role not in at and (factor := _factor(name, names, _UNITS.get(role))) is not None:
                at[role] = (number, factor)
    return at if at.keys() & {"goodput", "throughput"} else None


def _factor(name: str, names: Sequence[str], units: Mapping[str, float] | None) -> float | None:
    """Returns the factor for values of a column of this name; None if the name is not among `names`."""
    plain = re.sub(r"[^a-z0-9]+", "_", name.strip().lower()).strip("_")
    if units is None:
        return 1.0 if plain in names else None
    bare, _, unit = plain.rpartition("_")
    return units.get(unit) if bare in names else None


def delimiter_of(header: str) -> str:
    return max(_DELIMITERS, key=header.count)


def read_table(text: str, name: str, overrides: ImportOverrides) -> Iterator[ForeignRun]:
    """Yields the tests in a table; `name` is the file's, for messages. Raises SourceError.

    A line is a test. Lines that follow each other, have the same `test` and differ in CCA and results alone are one
    test, in which each CCA occurs once. `streams` counts those of the whole test, which its CCAs share evenly, in
    their order.
    """
    rows = has_rows(text)
    if rows:
        text = table_of_rows(text, name, overrides.columns)
    header = text.partition("\n")[0]
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter_of(header))
    try:
        cells_of_header = next(lines, [])
        if overrides.columns is not None and not rows:
            cells_of_header = renamed(cells_of_header, name, overrides.columns)
        columns = _columns(cells_of_header, name, overrides)
        together: list[ForeignLine] = []
        unclear = False
        for cells in lines:
            if not any(cell.strip() for cell in cells):
                continue
            line = _line(cells, columns, f"{name}:{lines.line_num}", lines.line_num)
            if together and not _same_test(together, line):
                beside = line.test is None and _alike(together, line)
                yield _foreign_run(together, columns, name, overrides, unclear or beside)
                together, unclear = [], beside
            together.append(line)
        if together:
            yield _foreign_run(together, columns, name, overrides, unclear)
    except csv.Error as error:
        raise SourceError(f"{name}:{lines.line_num}: is not CSV: {error}: mend this line or take it out") from error


def _columns(header: Sequence[str], name: str, overrides: ImportOverrides) -> Columns:
    at = columns_of(header)
    names = tuple(cell.strip() for cell in header)
    if at is None:
        raise SourceError(
            f"{name}:1: no column has a rate: name one of them goodput_Gbps or throughput_Gbps (or _Mbps, _bps), or "
            f"say which is one, such as --columns 'RATE=goodput_mbps'; there are {writable(', '.join(names))[:200]}"
        )
    if twice := next((column for column in names if column and names.count(column) > 1), None):
        raise SourceError(f"{name}:1: several columns are named '{twice[:40]}': rename or remove all but one")
    for setting in overrides.settings:
        if setting not in names:
            raise SourceError(f"{name}:1: has no column '{setting}' for --setting; it has {', '.join(names)[:200]}")
    return Columns(at, names, tuple(names.index(setting) for setting in overrides.settings))


def _line(cells: Sequence[str], columns: Columns, where: str, number: int) -> ForeignLine:
    if len(cells) != len(columns.names):
        raise SourceError(
            f"{where}: has {len(cells)} columns and the header {len(columns.names)}: mend this line or take it out"
        )

    def cell(role: str) -> str | None:
        at = columns.at.get(role)
        return (cells[at[0]].strip() or None) if at else None

    def number_of(role: str, most: float) -> float | None:
        text = cell(role)
        if text is None:
            return None
        try:
            return bounded(number_in(text) * columns.at[role][1], most)
        except ValueError as error:
            column = columns.names[columns.at[role][0]]
            raise SourceError(
                f"{where}: {column}: '{text[:40]}' {error}: mend it, or leave it empty where it is not known"
            ) from error

    streams = number_of("streams", MOST_STREAMS)
    if streams is not None and (streams < 1 or streams != int(streams)):
        raise SourceError(f"{where}: streams: {streams:g} is no number of streams: write 1 or more")
    goodput_bps, throughput_bps = (number_of(role, MOST_RATE_BPS) for role in ("goodput", "throughput"))
    received_bps = throughput_bps if goodput_bps is None else goodput_bps
    if received_bps is None:
        raise SourceError(f"{where}: has no goodput and no throughput: fill it in, or take the line out")
    return ForeignLine(
        number=number,
        text=tuple(cells),
        test=cell("test"),
        identity=(
            *(cell(role) for role in ("dst", "src", "entry", "test", "streams", "duration")),
            *(cells[at].strip() for at in columns.settings),
        ),
        group=GroupSums(
            cca=writable(cell("cca") or DEFAULT_CCA),
            streams=int(streams or 0),
            goodput_bps=received_bps,
            throughput_bps=throughput_bps,
            retransmission_rate=number_of("retransmission_rate", 1.0),
            rtt_median_s=number_of("rtt", _MOST["rtt"]),
            goodput_estimated=goodput_bps is None,
        ),
        test_streams=int(streams or 0),
        duration_s=number_of("duration", _MOST["duration"]) or 0.0,
        began_s=_moment_s(cell("began")),
    )


def _moment_s(text: str | None) -> float | None:
    """Returns seconds since 1970 of ISO 8601, in UTC if it names no zone, or of such seconds; None for other text."""
    try:
        moment = datetime.datetime.fromisoformat(text or "")
    except ValueError:
        return _seconds(text)
    aware = moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)
    return known(aware.timestamp(), MOST_CLOCK_S) or None


def _seconds(text: str | None) -> float | None:
    try:
        return known(number_in(text or ""), MOST_CLOCK_S) or None
    except ValueError:
        return None


def _same_test(together: Sequence[ForeignLine], line: ForeignLine) -> bool:
    return line.test is not None and _alike(together, line)


def _alike(together: Sequence[ForeignLine], line: ForeignLine) -> bool:
    """Returns whether the line has a new CCA and differs from those before in CCA and results alone."""
    ccas = {previous.group.cca for previous in together}
    return together[-1].identity == line.identity and line.group.cca not in ccas


def _unclear(line: ForeignLine, columns: Columns) -> dict[str, str]:
    """Returns the columns of words, and those named like a setting: they may be settings, and not results."""
    known_columns = {at for at, _ in columns.at.values()} | set(columns.settings)
    return {
        name: text.strip()
        for at, (name, text) in enumerate(zip(columns.names, line.text, strict=True))
        if at not in known_columns and name and (_WORD.fullmatch(text.strip()) or name.lower() in _LIKE_SETTINGS)
    }


def _foreign_run(
    together: Sequence[ForeignLine], columns: Columns, name: str, overrides: ImportOverrides, unclear: bool
) -> ForeignRun:
    first = together[0]
    dst, src, entry = first.identity[:3]
    dealt = [
        first.test_streams // len(together) + (at < first.test_streams % len(together)) for at in range(len(together))
    ]
    if first.test_streams and not all(dealt):
        raise SourceError(f"{name}:{first.number}: {first.test_streams} streams can't be of {len(together)} CCAs")
    ccas = [line.group.cca for line in together]
    if overrides.cca and ccas == [DEFAULT_CCA]:
        ccas = [overrides.cca]
    results = tuple(
        GroupSums(
            cca, streams, sums.goodput_bps, sums.throughput_bps, sums.retransmission_rate, sums.rtt_median_s,
            sums.goodput_estimated,
        )
        for cca, streams, sums in zip(ccas, dealt, (line.group for line in together), strict=True)
    )  # fmt: skip
    rtts_s = {sums.rtt_median_s for sums in results}
    return ForeignRun(
        kind="table",
        source=f"{name}:{first.number}",
        results=results,
        groups=tuple(map(Group, ccas)),
        streams=first.test_streams,
        entry=entry,
        settings={columns.names[at]: first.text[at].strip() for at in columns.settings},
        src=src,
        dst=dst,
        duration_s=first.duration_s,
        unclear=_unclear(first, columns),
        began_s=first.began_s,
        ended_s=first.began_s + first.duration_s if first.began_s is not None else None,
        rtt_median_s=rtts_s.pop() if len(rtts_s) == 1 else None,
        details={"rows": [dict(zip(columns.names, line.text, strict=True)) for line in together]},
        diagnostics=(f"{name}: {UNCLEAR}",) if unclear else (),
        missing=("a table has no series", *(() if first.duration_s else ("the duration is not known",))),
        estimated=("goodput_bps",) if any(sums.goodput_estimated for sums in results) else (),
    )
