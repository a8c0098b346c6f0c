"""Describes the answers of Elasticsearch that ccmix reads, and checks that an answer has this form.

A server may be another program, or lie. Fields that ccmix does not read may be there or not.
"""

import functools
import json
from dataclasses import dataclass, field
from typing import Annotated, Literal, TypeVar, cast

from pydantic import BeforeValidator, ConfigDict, Field, TypeAdapter

from ccmix.hosts.output_text import shortened

_CONFIG = ConfigDict(strict=True, allow_inf_nan=False)
_T = TypeVar("_T")

NO_INDEX = "index_not_found_exception"
SUCCEEDED = (200, 201, 404)  # 404: the document to be deleted was not there
NO_REASON = "without a reason"
# A text of the server in one short line, which people read
Sentence = Annotated[str, BeforeValidator(lambda value: shortened(str(value or "")))]
Milliseconds = Annotated[float, Field(ge=0, le=1e14)]  # since 1970


@dataclass(frozen=True)
class Rejection:
    """Holds the error of one document."""

    type: Sentence = ""
    reason: Sentence = ""
    caused_by: dict[str, Sentence] = field(default_factory=dict)


@dataclass(frozen=True)
class Action:
    """Holds the outcome for one document of a bulk request."""

    status: int
    error: Rejection | None = None

    @property
    def kind(self) -> str:
        """Returns Elasticsearch's type of the error; '' if it names none."""
        return self.error.type if self.error else ""

    @property
    def reason(self) -> str | None:
        """Returns why the server has not done the action; None if it has."""
        if not self.error:
            return None if self.status in SUCCEEDED else NO_REASON
        causes = (self.error.reason, self.error.caused_by.get("reason"))
        return ": ".join(filter(None, causes)) or NO_REASON

    @property
    def temporary(self) -> bool:
        """Returns whether the same document may be accepted later.

        The server may be too busy, its disk full (the index is then blocked), or a shard or the
        index missing.
        """
        return (
            self.status == 429
            or self.status >= 500
            or self.kind in ("cluster_block_exception", NO_INDEX)
        )


@dataclass(frozen=True)
class Bulk:
    """Holds the answer to a bulk request. Each item has the name of the action as its only key."""

    errors: bool
    items: tuple[Annotated[dict[str, Action], Field(min_length=1, max_length=1)], ...] = ()


Hit = Annotated[dict[Literal["_index", "_id"], str], Field(min_length=2)]
Search = dict[Literal["hits"], dict[Literal["hits"], list[Hit]]]
Extremes = dict[Literal["min", "max"], dict[Literal["value"], Milliseconds | None]]
Times = dict[Literal["aggregations"], Extremes]
# By index: 'mappings' with '_meta', which is missing for an index of another program, and settings
Indices = dict[str, dict[str, dict[str, dict[str, object]]]]


@functools.cache
def _adapter(kind: object) -> TypeAdapter[tuple[object]]:
    """Returns Pydantic's validator of a kind of answer, in a tuple: a dataclass would not get the
    configuration.
    """
    return TypeAdapter(tuple[kind], config=_CONFIG)  # type: ignore[valid-type,arg-type]


def read(kind: type[_T], answer: object) -> _T:
    """Returns an answer, which was decoded from JSON, as an object of its kind. Raises ValueError
    if it does not have this form.
    """
    adapter = _adapter(kind)  # type: ignore[arg-type]  # a type is hashable
    return cast("_T", adapter.validate_json(json.dumps([answer]))[0])
