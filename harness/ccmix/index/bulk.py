"""Sends the documents of runs, in bulk."""

import datetime
import json
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from polars.exceptions import PolarsError

from ccmix.analysis.results import Result
from ccmix.archive import ArchiveError, Campaign
from ccmix.index import context
from ccmix.index.context import milliseconds
from ccmix.index.fields import ECS_VERSION, KINDS, PREFIX, Document, DocumentKind, JsonObject
from ccmix.index.samples import Samples, sample_tables
from ccmix.index.sender import BODY_BYTES, BulkSender
from ccmix.index.summaries import campaign_documents, run_documents
from ccmix.model import Run

DOCUMENTS_AT_ONCE = 1000  # some 1.1 MB
OURS = "ccmix"
WITHOUT_THE_SAME = (
    "ccmix.end",
    "ccmix.final",
    "ccmix.cca",
    "ccmix.queue.place",
)  # the fields that decide which values a document has

Pieces = list[str | pl.Expr]  # of a line: the same in all, or of each document

NOT_UNDERSTOOD = (LookupError, TypeError, ValueError, AttributeError, PolarsError)


@dataclass(frozen=True)
class BulkDocuments:
    """Actions and documents of one kind, as a body has them."""

    kind: str
    index: str
    documents: int
    content: bytes


@dataclass(frozen=True)
class Body:
    """Holds the body of a bulk request, and the indices of its documents."""

    content: bytes
    indices: frozenset[str]


def document_lines(
    owner: str, documents: Iterable[tuple[str, Document]]
) -> Iterator[BulkDocuments]:
    """Yields documents one by one; the documents of a kind are numbered in their order.

    `owner` is the id of the run or the campaign: the same place in the archive has the same id.
    """
    counts: dict[str, int] = {}
    for name, document in documents:
        kind = KINDS[name]
        row = counts[name] = counts.get(name, -1) + 1
        index = kind.index_pattern
        action = {"index": {"_index": index, "_id": f"{owner}-{row}"}}
        there = {field: value for field, value in document.items() if value is not None}
        whole = _nested(_of_every_document(kind) | {"ccmix.row": row} | there)
        yield BulkDocuments(name, index, 1, f"{_compact(action)}\n{_compact(whole)}\n".encode())


def sample_lines(
    owner: str, shared: Document, begin_s: float, samples: Samples
) -> Iterator[BulkDocuments]:
    """Yields some thousand documents at a time, grouped by the fields that have values.

    `shared` are fields that all documents have. Values that are the same in all documents are made
    into JSON only once.
    """
    kind = KINDS[samples.kind]
    month = datetime.datetime.fromtimestamp(begin_s, datetime.UTC)  # in which the run began
    index = f"{PREFIX}{kind.name}-{month:%Y.%m}"
    moment = pl.col("ccmix.elapsed_s").fill_null(0.0) * 1000 + milliseconds(begin_s)
    row = pl.int_range(samples.first, samples.first + pl.len(), dtype=pl.Int64)
    rows = samples.table.with_columns(
        moment.round().cast(pl.Int64).alias("@timestamp"), row.alias("ccmix.row")
    )
    given = {
        field: value
        for field, value in (_of_every_document(kind) | dict(shared)).items()
        if value is not None
    }
    action: Pieces = [
        f'{{"index":{{"_index":"{index}","_id":"{owner}-',
        pl.col("ccmix.row"),
        '"}}\n',
    ]
    alike = [column for column in WITHOUT_THE_SAME if column in rows.columns]
    for part in rows.partition_by(alike) if alike else [rows]:
        members = {field: _compact(value) for field, value in given.items()} | _members(part)
        pieces = [*action, *_document(members), "\n"]
        line = pl.concat_str(pl.lit(piece) if isinstance(piece, str) else piece for piece in pieces)
        for some in part.iter_slices(DOCUMENTS_AT_ONCE):
            yield BulkDocuments(
                samples.kind,
                index,
                some.height,
                some.select(line.str.join("").cast(pl.Binary)).item(),
            )


def _members(table: pl.DataFrame) -> dict[str, str | pl.Expr]:
    """Returns for each column with values the value as JSON if all rows have the same, otherwise
    the column.
    """
    known = table.select(column for column in table if column.null_count() < table.height)
    alike = known.select(pl.all().eq_missing(pl.all().first()).all()).row(0, named=True)
    first = known.row(0, named=True)
    return {name: _compact(first[name]) if alike[name] else pl.col(name) for name in known.columns}


def _document(members: Mapping[str, str | pl.Expr]) -> Pieces:
    """`members`: of each field, JSON or a column; at least one is JSON."""
    made = _object(_nested(members))
    assert not isinstance(made, pl.Expr)
    return [made] if isinstance(made, str) else made


def _object(tree: JsonObject) -> "str | pl.Expr | Pieces":
    """Returns the JSON of an object whose members are JSON, columns, or objects: text if it is the
    same in all documents, a struct if no part is the same.
    """
    same: list[str] = []
    mixed: list[Pieces] = []
    own: list[pl.Expr] = []
    for name, member in tree.items():
        made = _object(member) if isinstance(member, dict) else member
        if isinstance(made, str):
            same.append(f"{_compact(name)}:{made}")
        elif isinstance(made, pl.Expr):
            own.append(made.alias(name))
        else:
            mixed.append([f"{_compact(name)}:", *made])
    if not mixed and not own:
        return f"{{{','.join(same)}}}"
    if not mixed and not same:
        return pl.struct(own)
    members: list[Pieces] = [[",".join(same)]] if same else []
    members += mixed
    if own:
        members.append(
            [pl.struct(own).struct.json_encode().str.strip_prefix("{")]
        )  # its last brace is the object's
    else:
        members[-1].append("}")
    return [
        "{",
        *(
            piece
            for number, member in enumerate(members)
            for piece in ([","] if number else []) + member
        ),
    ]


def _nested(flat: Mapping[str, object]) -> JsonObject:
    """Turns {'a.b': 1} into {'a': {'b': 1}}."""
    tree: JsonObject = {}
    for field, value in flat.items():
        *objects, leaf = field.split(".")
        place = tree
        for name in objects:
            place = place.setdefault(name, {})
        place[leaf] = value
    return tree


def _of_every_document(kind: DocumentKind) -> Document:
    named = {"event.dataset": kind.dataset}
    return named if kind.samples else named | {"event.module": OURS, "ecs.version": ECS_VERSION}


def _compact(content: Any) -> str:
    return json.dumps(content, separators=(",", ":"), allow_nan=False)


def send_campaign(sender: BulkSender, campaign: Campaign, entries: Sequence[str] = ()) -> int:
    """Sends the documents of the campaign and its conditions, only of these entries if there are
    any. Returns their number.

    Raises ArchiveError if a run.json can't be read; conditions are then not sent.
    """
    owner = context.campaign_id(campaign)
    lines = document_lines(owner, campaign_documents(campaign, entries))
    return _put(sender, owner, _understood(lines, campaign.outdir))


def send_run(sender: BulkSender, campaign: Campaign, result: Result) -> int:
    """Sends all documents of a finished run; returns their number.

    Raises ArchiveError if a part of the run can't be read: everything else is then sent, and
    documents of an earlier indexing are kept.
    """
    owner = context.run_id(context.campaign_id(campaign), result.run)
    return _put(sender, owner, run_lines(owner, campaign, result))


def finished(
    campaign: Campaign,
    entries: Sequence[str] = (),
    but: Container[str] = (),
    unread: Callable[[Run, ArchiveError], None] | None = None,
) -> Iterator[Result]:
    """Yields results in the order of the plan, only of these entries if there are any, and without
    the runs named in `but`.

    Calls `unread` for a run.json that can't be read; without `unread`, raises its ArchiveError.
    """
    wanted = campaign.finished(lambda run: chosen(run, entries) and run.name not in but, unread)
    yield from (Result(finished, folder) for finished, folder in wanted)


def chosen(run: Run, entries: Sequence[str]) -> bool:
    return not entries or run.entry in entries


def run_lines(owner: str, campaign: Campaign, result: Result) -> Iterator[BulkDocuments]:
    """Yields all documents of a run; `owner` is its id. Raises ArchiveError at the end if a part of
    it can't be read.
    """
    unread: list[str] = []
    summaries = document_lines(owner, run_documents(campaign, result))
    for part in (summaries, _samples(owner, campaign, result)):
        try:
            yield from _understood(part, result.folder)
        except ArchiveError as error:
            unread.append(str(error))
    if unread:
        raise ArchiveError("\n".join(dict.fromkeys(unread)))


def _understood(lines: Iterator[BulkDocuments], folder: Path) -> Iterator[BulkDocuments]:
    """Yields the same documents. Raises ArchiveError if files in the folder don't have the form
    that ccmix writes.
    """
    try:
        yield from lines
    except NOT_UNDERSTOOD as error:
        raise ArchiveError(f"{folder}: not in the form that ccmix writes: {error!r}") from error


def _samples(owner: str, campaign: Campaign, result: Result) -> Iterator[BulkDocuments]:
    shared = context.of_run(campaign, result.finished)
    begin_s = context.begin_s(campaign, result.finished)
    for samples in sample_tables(result.finished, result.folder):
        yield from sample_lines(owner, shared, begin_s, samples)


def bodies(lines: Iterable[BulkDocuments]) -> Iterator[Body]:
    """Yields bodies of bulk requests, of some MB each."""
    waiting: list[BulkDocuments] = []
    size = 0
    for some in lines:
        if size and size + len(some.content) > BODY_BYTES:
            yield _body(waiting)
            waiting, size = [], 0
        waiting.append(some)
        size += len(some.content)
    if waiting:
        yield _body(waiting)


def _body(lines: Sequence[BulkDocuments]) -> Body:
    return Body(b"".join(some.content for some in lines), frozenset(some.index for some in lines))


def _put(sender: BulkSender, owner: str, lines: Iterable[BulkDocuments]) -> int:
    """Sends bodies, and at the end the number of documents of each kind. That number is not sent if
    some documents can't be read, because an earlier indexing may have sent them.
    """
    sender.begin(owner)
    counts: Counter[str] = Counter()
    unread: list[ArchiveError] = []

    def counted() -> Iterator[BulkDocuments]:
        try:
            for some in lines:
                counts[some.kind] += some.documents
                yield some
        except ArchiveError as error:
            unread.append(error)

    for body in bodies(counted()):
        sender.put(owner, body.content, indices=body.indices)
    if unread:
        raise unread[0]
    sender.put(owner, json.dumps(counts).encode(), is_end=True)
    return counts.total()
