"""Documents as the body of Elasticsearch's bulk requests: lines of JSON, an action and a document in turn.

Objects are nested, and a field is left out where few documents have it: a server takes half as long to read that as
names with dots and nulls.
"""

import datetime
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from ccmix.index.context import milliseconds
from ccmix.index.fields import ECS_VERSION, KINDS, PREFIX, DocumentKind
from ccmix.index.json_types import Document, JsonObject
from ccmix.index.samples import Samples

DOCUMENTS_AT_ONCE = 1000  # some 1.1 MB
OURS = "ccmix"
WITHOUT_THE_SAME = ("ccmix.end", "ccmix.final", "ccmix.cca", "ccmix.queue.place")  # what decides which values there are

Pieces = list[str | pl.Expr]  # of a line: the same in all, or of each document


@dataclass(frozen=True)
class BulkDocuments:
    """Actions and documents of one kind, as a body has them."""

    kind: str
    index: str
    documents: int
    content: bytes


@dataclass(frozen=True)
class Body:
    """Holds the body of a bulk request, and the indices that its documents go to."""

    content: bytes
    indices: frozenset[str]


def index_name(kind: DocumentKind, begin_s: float) -> str:
    """Samples lie in the index of the month in which their run began."""
    if not kind.samples:
        return f"{PREFIX}{kind.name}"
    return f"{PREFIX}{kind.name}-{datetime.datetime.fromtimestamp(begin_s, datetime.UTC):%Y.%m}"


def document_id(owner: str, row: int) -> str:
    """Unique in an index: `owner` is the run's id, or the campaign's. The same place in the archive has the same id."""
    return f"{owner}-{row}"


def document_lines(owner: str, documents: Iterable[tuple[str, Document]]) -> Iterator[BulkDocuments]:
    """Yields one document at a time; those of a kind are numbered in their order."""
    counts: dict[str, int] = {}
    for name, document in documents:
        kind = KINDS[name]
        row = counts[name] = counts.get(name, -1) + 1
        index = index_name(kind, 0.0)
        action = {"index": {"_index": index, "_id": document_id(owner, row)}}
        there = {field: value for field, value in document.items() if value is not None}
        whole = _nested(_of_every_document(kind) | {"ccmix.row": row} | there)
        yield BulkDocuments(name, index, 1, f"{_compact(action)}\n{_compact(whole)}\n".encode())


def sample_lines(owner: str, shared: Document, begin_s: float, samples: Samples) -> Iterator[BulkDocuments]:
    """Yields some thousand documents at a time; those with values for the same fields together.

    `shared` is what all of them say. What is the same in all documents is made into JSON once.
    """
    kind = KINDS[samples.kind]
    index = index_name(kind, begin_s)
    moment = pl.col("ccmix.elapsed_s").fill_null(0.0) * 1000 + milliseconds(begin_s)
    row = pl.int_range(samples.first, samples.first + pl.len(), dtype=pl.Int64)
    rows = samples.table.with_columns(moment.round().cast(pl.Int64).alias("@timestamp"), row.alias("ccmix.row"))
    given = {field: value for field, value in (_of_every_document(kind) | dict(shared)).items() if value is not None}
    action: Pieces = [f'{{"index":{{"_index":"{index}","_id":"{owner}-', pl.col("ccmix.row"), '"}}\n']
    alike = [column for column in WITHOUT_THE_SAME if column in rows.columns]
    for part in rows.partition_by(alike) if alike else [rows]:
        members = {field: _compact(value) for field, value in given.items()} | _members(part)
        pieces = [*action, *_document(members), "\n"]
        line = pl.concat_str(pl.lit(piece) if isinstance(piece, str) else piece for piece in pieces)
        for some in part.iter_slices(DOCUMENTS_AT_ONCE):
            yield BulkDocuments(samples.kind, index, some.height, some.select(line.str.join("").cast(pl.Binary)).item())


def _members(table: pl.DataFrame) -> dict[str, str | pl.Expr]:
    """Returns for each column with values the value as JSON if all rows have the same, else the column."""
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
    """The JSON of an object whose members are JSON, columns, or such objects: text where all of it is the same in all
    documents, a struct where none is.
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
        members.append([pl.struct(own).struct.json_encode().str.strip_prefix("{")])  # its last brace is the object's
    else:
        members[-1].append("}")
    return ["{", *(piece for number, member in enumerate(members) for piece in ([","] if number else []) + member)]


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
