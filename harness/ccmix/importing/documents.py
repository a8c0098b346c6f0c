"""Reads the JSON documents in a text: one, several after each other, or one a line, with other lines between."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from ccmix.importing.foreign_run import SourceError
from ccmix.importing.json_types import Row

_BEGIN = re.compile(r"^[ \t]*[{\[]", re.MULTILINE)
_NEXT = re.compile(r"\s*[{\[]")
_DECODER = json.JSONDecoder(parse_constant=lambda _: None)  # NaN and Infinity, which are no JSON: gaps


@dataclass(frozen=True)
class Document:
    """Holds an object, its own text, and where it begins: file and line, as in messages."""

    content: Row
    text: str
    where: str


def read_documents(text: str, name: str) -> Iterator[Document]:
    """Yields the objects in a text, and those in its lists; skips lines that begin otherwise. Raises SourceError."""
    at, line, counted = 0, 1, 0
    while begin_match := _NEXT.match(text, at) or _BEGIN.search(text, at):
        begin = begin_match.end() - 1
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
        for item in content if isinstance(content, list) else [content]:
            if isinstance(item, dict):
                yield Document(item, text[begin:at] if item is content else json.dumps(item), where)


def joined_events(documents: Iterator[Document]) -> Iterator[Document]:
    """Yields the documents; joins the pieces that iperf3's --json-stream writes to what -J would have written."""
    whole: Row | None = None
    where, texts = "", list[str]()
    for document in documents:
        event = document.content.get("event")
        if not isinstance(event, str):
            yield document
            continue
        if event == "start" and whole is not None:
            yield Document(whole, "\n".join(texts), where)
            whole = None
        if whole is None:
            whole, where, texts = {"intervals": []}, document.where, []
        texts.append(document.text)
        if event == "interval":
            whole["intervals"].append(document.content.get("data"))
        else:
            whole[event] = document.content.get("data")
    if whole is not None:
        yield Document(whole, "\n".join(texts), where)
