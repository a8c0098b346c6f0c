"""Makes the documents of runs into bodies of Elasticsearch's bulk requests, and sends them.

A body has two lines of JSON for each document: the action, with index and id, and the document.
"""

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
# The fields that decide which other fields of a document have values
DECIDING_FIELDS = ("ccmix.end", "ccmix.final", "ccmix.cca", "ccmix.queue.place")

Pieces = list[str | pl.Expr]  # of a line: the same in all, or of each document

NOT_UNDERSTOOD = (LookupError, TypeError, ValueError, AttributeError, PolarsError)


@dataclass(frozen=True)
class BulkDocuments:
    """Actions and documents of one kind as bytes, in the form that a bulk request has."""

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
    """Makes documents, given as (kind, document), into actions and documents of a bulk request.

    `owner` is the id of the run or campaign. The id of a document is OWNER-NUMBER, where the number
    counts the documents of its kind. So if a run is indexed again, its documents are replaced.
    """
    counts: dict[str, int] = {}
    for name, document in documents:
        kind = KINDS[name]
        row = counts[name] = counts.get(name, -1) + 1
        index = kind.index_pattern
        action = {"index": {"_index": index, "_id": f"{owner}-{row}"}}
        known_fields = {field: value for field, value in document.items() if value is not None}
        complete = _nested_objects(_constant_fields(kind) | {"ccmix.row": row} | known_fields)
        yield BulkDocuments(name, index, 1, f"{_compact(action)}\n{_compact(complete)}\n".encode())


def sample_lines(
    owner: str, shared: Document, begin_s: float, samples: Samples
) -> Iterator[BulkDocuments]:
    """Makes a table of samples into actions and documents, some thousand at a time.

    `shared` has the fields that are the same in all of them; they are made into JSON only once.
    `begin_s` is when the run began, in seconds since 1970. Rows are grouped by the fields that
    decide which other fields have values, so that a group's documents have the same fields.
    """
    kind = KINDS[samples.kind]
    month = datetime.datetime.fromtimestamp(begin_s, datetime.UTC)  # in which the run began
    index = f"{PREFIX}{kind.name}-{month:%Y.%m}"
    moment = pl.col("ccmix.elapsed_s").fill_null(0.0) * 1000 + milliseconds(begin_s)
    row = pl.int_range(samples.first, samples.first + pl.len(), dtype=pl.Int64)
    rows = samples.table.with_columns(
        moment.round().cast(pl.Int64).alias("@timestamp"), row.alias("ccmix.row")
    )
    constant = {
        field: value
        for field, value in (_constant_fields(kind) | dict(shared)).items()
        if value is not None
    }
    action: Pieces = [
        f'{{"index":{{"_index":"{index}","_id":"{owner}-',
        pl.col("ccmix.row"),
        '"}}\n',
    ]
    grouping = [column for column in DECIDING_FIELDS if column in rows.columns]
    for part in rows.partition_by(grouping) if grouping else [rows]:
        values = {field: _compact(value) for field, value in constant.items()} | _json_or_columns(
            part
        )
        # an expression for the two lines of each document
        pieces = [*action, *_document_pieces(values), "\n"]
        line = pl.concat_str(pl.lit(piece) if isinstance(piece, str) else piece for piece in pieces)
        for block in part.iter_slices(DOCUMENTS_AT_ONCE):
            yield BulkDocuments(
                samples.kind,
                index,
                block.height,
                block.select(line.str.join("").cast(pl.Binary)).item(),
            )


def _json_or_columns(table: pl.DataFrame) -> dict[str, str | pl.Expr]:
    """Returns the value of each column: its JSON if all rows have the same, otherwise the column.

    Columns without any value are left out.
    """
    non_empty = table.select(column for column in table if column.null_count() < table.height)
    is_same = non_empty.select(pl.all().eq_missing(pl.all().first()).all()).row(0, named=True)
    first = non_empty.row(0, named=True)
    return {
        name: _compact(first[name]) if is_same[name] else pl.col(name) for name in non_empty.columns
    }


def _document_pieces(members: Mapping[str, str | pl.Expr]) -> Pieces:
    """Returns the pieces of a document's line: texts that all documents share, and columns.

    `members` has a JSON text or a column for each field, and a JSON text for at least one of them.
    """
    pieces = _object_json(_nested_objects(members))
    assert not isinstance(pieces, pl.Expr)
    return [pieces] if isinstance(pieces, str) else pieces


def _object_json(tree: JsonObject) -> "str | pl.Expr | Pieces":
    """Returns the JSON of a nested object whose values are JSON texts, columns, or objects.

    It is a text if all documents have the same JSON, and a struct of columns if they share no part
    of it. Otherwise it is a list of texts and columns, which polars joins for each row.
    """
    texts: list[str] = []
    mixed: list[Pieces] = []
    columns: list[pl.Expr] = []
    for name, member in tree.items():
        json_value = _object_json(member) if isinstance(member, dict) else member
        if isinstance(json_value, str):
            texts.append(f"{_compact(name)}:{json_value}")
        elif isinstance(json_value, pl.Expr):
            columns.append(json_value.alias(name))
        else:
            mixed.append([f"{_compact(name)}:", *json_value])
    if not mixed and not columns:
        return f"{{{','.join(texts)}}}"
    if not mixed and not texts:
        return pl.struct(columns)
    members: list[Pieces] = [[",".join(texts)]] if texts else []
    members += mixed
    if columns:
        members.append(
            [pl.struct(columns).struct.json_encode().str.strip_prefix("{")]
        )  # the last brace of the struct's JSON closes the whole object
    else:
        members[-1].append("}")
    pieces: Pieces = ["{", *members[0]]
    for member in members[1:]:
        pieces += [",", *member]
    return pieces


def _nested_objects(flat: Mapping[str, object]) -> JsonObject:
    """Turns {'a.b': 1} into {'a': {'b': 1}}."""
    tree: JsonObject = {}
    for field, value in flat.items():
        *objects, leaf = field.split(".")
        parent = tree
        for name in objects:
            parent = parent.setdefault(name, {})
        parent[leaf] = value
    return tree


def _constant_fields(kind: DocumentKind) -> Document:
    """Returns the fields that say of which kind a document is, and who made it."""
    fields = {"event.dataset": kind.dataset}
    return fields if kind.samples else fields | {"event.module": OURS, "ecs.version": ECS_VERSION}


def _compact(content: Any) -> str:
    """Returns the JSON of a value without spaces; NaN raises ValueError."""
    return json.dumps(content, separators=(",", ":"), allow_nan=False)


def send_campaign(sender: BulkSender, campaign: Campaign, entries: Sequence[str] = ()) -> int:
    """Sends the documents of a campaign and its conditions; returns their number.

    `entries` limits them to some entries of the INI file; empty means all. Raises ArchiveError if a
    run.json can't be read; conditions are then not sent.
    """
    owner = context.campaign_id(campaign)
    lines = document_lines(owner, campaign_documents(campaign, entries))
    return _send_bodies(sender, owner, _checked(lines, campaign.outdir))


def send_run(sender: BulkSender, campaign: Campaign, result: Result) -> int:
    """Sends all documents of a finished run; returns their number.

    If a part of the run can't be read, sends everything else, keeps the documents of an earlier
    indexing, and raises ArchiveError.
    """
    owner = context.run_id(context.campaign_id(campaign), result.run)
    return _send_bodies(sender, owner, run_lines(owner, campaign, result))


def finished(
    campaign: Campaign,
    entries: Sequence[str] = (),
    but: Container[str] = (),
    unread: Callable[[Run, ArchiveError], None] | None = None,
) -> Iterator[Result]:
    """Yields the finished runs of a campaign in the order of the plan.

    `entries` limits them to some entries; empty means all. `but` has names of runs to leave out. If
    a run.json can't be read, calls `unread` with the run and the error; if `unread` is None, raises
    the error.
    """
    wanted = campaign.finished(lambda run: chosen(run, entries) and run.name not in but, unread)
    yield from (Result(finished, folder) for finished, folder in wanted)


def chosen(run: Run, entries: Sequence[str]) -> bool:
    """Returns whether the run's entry is among the chosen ones; empty means all."""
    return not entries or run.entry in entries


def run_lines(owner: str, campaign: Campaign, result: Result) -> Iterator[BulkDocuments]:
    """Yields all documents of a run, in the form of a bulk request.

    If a part of the run (the summaries or the samples) can't be read, the documents of the other
    part are yielded, and ArchiveError is raised at the end.

    owner: the run's id, by which all of its documents can be found
    """
    unread: list[str] = []
    summaries = document_lines(owner, run_documents(campaign, result))
    for part in (summaries, _sample_lines_of_run(owner, campaign, result)):
        try:
            yield from _checked(part, result.folder)
        except ArchiveError as error:
            unread.append(str(error))
    if unread:
        raise ArchiveError("\n".join(dict.fromkeys(unread)))


def _checked(lines: Iterator[BulkDocuments], folder: Path) -> Iterator[BulkDocuments]:
    """Yields the same lines, and turns errors of foreign data into ArchiveError.

    Lines are made from files of the archive, which may not have the form that ccmix writes.
    """
    try:
        yield from lines
    except NOT_UNDERSTOOD as error:
        raise ArchiveError(f"{folder}: not in the form that ccmix writes: {error!r}") from error


def _sample_lines_of_run(owner: str, campaign: Campaign, result: Result) -> Iterator[BulkDocuments]:
    """Yields the samples of a run: the rows of its series, such as the states of sockets."""
    shared = context.run_fields(campaign, result.finished)
    begin_s = context.begin_s(campaign, result.finished)
    for samples in sample_tables(result.finished, result.folder):
        yield from sample_lines(owner, shared, begin_s, samples)


def bodies(lines: Iterable[BulkDocuments]) -> Iterator[Body]:
    """Collects lines into bodies of bulk requests, which have at most BODY_BYTES.

    If `lines` has an item that is larger than that, the item gets a body of its own.
    """
    waiting: list[BulkDocuments] = []
    size = 0
    for batch in lines:
        if size and size + len(batch.content) > BODY_BYTES:
            yield _body(waiting)
            waiting, size = [], 0
        waiting.append(batch)
        size += len(batch.content)
    if waiting:
        yield _body(waiting)


def _body(lines: Sequence[BulkDocuments]) -> Body:
    """Joins documents to the body of one bulk request."""
    return Body(b"".join(part.content for part in lines), frozenset(part.index for part in lines))


def _send_bodies(sender: BulkSender, owner: str, lines: Iterable[BulkDocuments]) -> int:
    """Sends the lines, then the number of documents of each kind; returns their total.

    The numbers tell the sender which documents of an earlier indexing are stale. They are not sent
    if some documents can't be read, because the index may still have them from before.
    """
    sender.begin(owner)
    counts: Counter[str] = Counter()
    unread: list[ArchiveError] = []

    def counted() -> Iterator[BulkDocuments]:
        """Yields the lines, and counts their documents by kind."""
        try:
            for batch in lines:
                counts[batch.kind] += batch.documents
                yield batch
        except ArchiveError as error:
            unread.append(error)

    for body in bodies(counted()):
        sender.put(owner, body.content, indices=body.indices)
    if unread:
        raise unread[0]
    sender.put(owner, json.dumps(counts).encode(), is_end=True)
    return counts.total()
