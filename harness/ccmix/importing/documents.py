"""The JSON documents in a text: one, several after each other, or one a line; with other lines between them."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ccmix.importing.found import SourceError

_BEGIN = re.compile(r"^[ \t]*[{\[]", re.MULTILINE)
_NEXT = re.compile(r"\s*[{\[]")
_DECODER = json.JSONDecoder(parse_constant=lambda _: None)  # NaN and Infinity, which are no JSON: gaps


@dataclass(frozen=True)
class Document:
    """An object, its own text, and where it begins: file and line, as in messages."""

    content: dict[str, Any]
    text: str
    where: str


def read_documents(text: str, name: str) -> Iterator[Document]:
    """The objects in a text, and those in its lists. Lines that begin otherwise are passed over. Raises SourceError."""
    at, line, counted = 0, 1, 0
    while found := _NEXT.match(text, at) or _BEGIN.search(text, at):
        begin = found.end() - 1
        line += text.count("\n", counted, begin)
        counted = begin
        where = f"{name}:{line}"
        try:
            content, at = _DECODER.raw_decode(text, begin)
        except json.JSONDecodeError as error:
            wrong = line + text.count("\n", begin, error.pos)
            cut = ", where the text ends: it was cut off" if error.pos >= len(text.rstrip()) - 1 else ""
            raise SourceError(
                f"{name}:{wrong}: is no JSON: {error.msg}{cut}: mend what begins in line {line}, or take it out"
            ) from error
        except RecursionError as error:
            raise SourceError(f"{where}: is nested too deeply for a result: take it out") from error
        except ValueError as error:
            raise SourceError(f"{where}: has a number that is none: {error}: take it out") from error
        for one in content if isinstance(content, list) else [content]:
            if isinstance(one, dict):
                yield Document(one, text[begin:at] if one is content else json.dumps(one), where)


def joined_events(documents: Iterator[Document]) -> Iterator[Document]:
    """The same, with the pieces that iperf3's --json-stream writes put together to what -J would have written."""
    whole: dict[str, Any] | None = None
    where, texts = "", list[str]()
    for one in documents:
        event = one.content.get("event")
        if not isinstance(event, str):
            yield one
            continue
        if event == "start" and whole is not None:
            yield Document(whole, "\n".join(texts), where)
            whole = None
        if whole is None:
            whole, where, texts = {"intervals": []}, one.where, []
        texts.append(one.text)
        if event == "interval":
            whole["intervals"].append(one.content.get("data"))
        else:
            whole[event] = one.content.get("data")
    if whole is not None:
        yield Document(whole, "\n".join(texts), where)
