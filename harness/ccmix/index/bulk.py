"""Documents as the body of Elasticsearch's bulk requests: lines of JSON, an action and a document in turn.

Objects are nested, and a field is left out where few documents have it: a server takes half as long to read that as
names with dots and nulls.
"""

import datetime
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from ccmix.index.context import Document, milliseconds
from ccmix.index.fields import ECS_VERSION, KINDS, PREFIX, Kind
from ccmix.index.samples import Samples

DOCUMENTS_AT_ONCE = 500  # some 0.6 MB
OURS = "ccmix"
WITHOUT_THE_SAME = ("ccmix.end", "ccmix.final", "ccmix.cca", "ccmix.queue.place")  # what decides which values there are


@dataclass(frozen=True)
class Lines:
    """Actions and documents of one kind, as a body has them."""

    kind: str
    documents: int
    text: str


def index_name(kind: Kind, begin_s: float) -> str:
    """Samples lie in the index of the month in which their run began."""
    if not kind.samples:
        return f"{PREFIX}{kind.name}"
    return f"{PREFIX}{kind.name}-{datetime.datetime.fromtimestamp(begin_s, datetime.UTC):%Y.%m}"


def document_id(owner: str, row: int) -> str:
    """Unique in an index: `owner` is the run's id, or the campaign's. The same place in the archive has the same id."""
    return f"{owner}-{row}"


def document_lines(owner: str, documents: Iterable[tuple[str, Document]]) -> Iterator[Lines]:
    """One document at a time; those of a kind are numbered in their order."""
    counts: dict[str, int] = {}
    for name, document in documents:
        kind = KINDS[name]
        row = counts[name] = counts.get(name, -1) + 1
        action = {"index": {"_index": index_name(kind, 0.0), "_id": document_id(owner, row)}}
        there = {field: value for field, value in document.items() if value is not None}
        whole = _nested(_of_every_document(kind) | {"ccmix.row": row} | there)
        yield Lines(name, 1, f"{_compact(action)}\n{_compact(whole)}\n")


def sample_lines(owner: str, shared: Mapping[str, Any], begin_s: float, samples: Samples) -> Iterator[Lines]:
    """Some thousand documents at a time; those with values for the same fields together.

    `shared` is what all of them say; nearly all of it is made into JSON once.
    """
    kind = KINDS[samples.kind]
    moment = pl.col("ccmix.elapsed_s").fill_null(0.0) * 1000 + milliseconds(begin_s)
    row = pl.int_range(samples.first, samples.first + pl.len(), dtype=pl.Int64)
    rows = samples.table.with_columns(moment.round().cast(pl.Int64).alias("@timestamp"), row.alias("ccmix.row"))
    constant = {
        field: value
        for field, value in (_of_every_document(kind) | dict(shared)).items()
        if value is not None and field not in rows.columns
    }
    objects = {_object(column) for column in rows.columns}
    once = {field: value for field, value in constant.items() if _object(field) not in objects and _is_ours(field)}
    each = [pl.lit(value).alias(field) for field, value in constant.items() if field not in once]
    action = pl.lit(f'{{"index":{{"_index":"{index_name(kind, begin_s)}","_id":"{owner}-')
    begin = pl.lit('"}}\n{"' + OURS + '":' + _compact(_nested(once)[OURS])[:-1] + ",")
    alike = [column for column in WITHOUT_THE_SAME if column in rows.columns]
    for part in rows.partition_by(alike) if alike else [rows]:
        known = part.select(column for column in part if column.null_count() < part.height).with_columns(each)
        ours, others = (_json(known.columns, ours=own) for own in (True, False))
        lines = pl.concat_str(action, "ccmix.row", begin, ours, pl.lit(","), others, pl.lit("\n"))
        for some in known.iter_slices(DOCUMENTS_AT_ONCE):
            yield Lines(samples.kind, some.height, some.select(lines.str.join("")).item())


def _object(field: str) -> str:
    """The member of the object `ccmix`, or of the document, that a field is, or is in."""
    return ".".join(field.split(".")[: 2 if _is_ours(field) else 1])


def _is_ours(field: str) -> bool:
    return field.startswith(f"{OURS}.")


def _json(columns: Sequence[str], *, ours: bool) -> pl.Expr:
    """The members of the object `ccmix`, or all other members, and the brace that ends the object."""
    chosen = {column: column for column in columns if _is_ours(column) == ours}
    tree = _nested(chosen)
    return _struct(tree[OURS] if ours else tree).struct.json_encode().str.slice(1)


def _struct(tree: Mapping[str, Any]) -> pl.Expr:
    return pl.struct(
        (_struct(part) if isinstance(part, dict) else pl.col(part)).alias(name) for name, part in tree.items()
    )  # fmt: skip


def _nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """{'a.b': 1} as {'a': {'b': 1}}."""
    tree: dict[str, Any] = {}
    for field, value in flat.items():
        *objects, leaf = field.split(".")
        place = tree
        for name in objects:
            place = place.setdefault(name, {})
        place[leaf] = value
    return tree


def _of_every_document(kind: Kind) -> Document:
    named = {"event.dataset": kind.dataset}
    return named if kind.samples else named | {"event.module": OURS, "ecs.version": ECS_VERSION}


def _compact(content: Any) -> str:
    return json.dumps(content, separators=(",", ":"), allow_nan=False)
