"""Campaigns and runs of an archive, put into the spool."""

import json
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from pathlib import Path

from polars.exceptions import PolarsError

from ccmix.analysis.results import Result
from ccmix.archive import ArchiveError, Campaign
from ccmix.index import context
from ccmix.index.bulk import Body, BulkDocuments, document_lines, sample_lines
from ccmix.index.samples import sample_tables
from ccmix.index.sender import BODY_BYTES, BulkSender
from ccmix.index.summaries import campaign_documents, run_documents
from ccmix.model import Run

NOT_UNDERSTOOD = (LookupError, TypeError, ValueError, AttributeError, PolarsError)


def send_campaign(sender: BulkSender, campaign: Campaign, entries: Sequence[str] = ()) -> int:
    """Its own documents and its conditions'; of these entries alone, where there are any. Returns their number.

    Raises ArchiveError where a run.json can't be read: conditions are not sent then.
    """
    owner = context.campaign_id(campaign)
    lines = document_lines(owner, campaign_documents(campaign, entries))
    return _put(sender, owner, _understood(lines, campaign.outdir))


def send_run(sender: BulkSender, campaign: Campaign, result: Result) -> int:
    """Sends all documents of a finished run; returns their number.

    Raises ArchiveError where some of the run can't be read: all else is sent then, and nothing removed that was there.
    """
    owner = context.run_id(context.campaign_id(campaign), result.run)
    return _put(sender, owner, run_lines(owner, campaign, result))


def finished(
    campaign: Campaign,
    entries: Sequence[str] = (),
    but: Container[str] = (),
    unread: Callable[[Run, ArchiveError], None] | None = None,
) -> Iterator[Result]:
    """Yields results in the order of the plan: those of the entries, if there are any, without the runs named `but`.

    Calls `unread` for a run.json that can't be read; without `unread`, raises its ArchiveError.
    """
    wanted = campaign.finished(lambda run: chosen(run, entries) and run.name not in but, unread)
    yield from (Result(finished, folder) for finished, folder in wanted)


def chosen(run: Run, entries: Sequence[str]) -> bool:
    return not entries or run.entry in entries


def run_lines(owner: str, campaign: Campaign, result: Result) -> Iterator[BulkDocuments]:
    """Yields all documents of a run; `owner` is its id. Raises ArchiveError at the end if some can't be read."""
    unread: list[str] = []
    for part in (_summaries, _samples):
        try:
            yield from _understood(part(owner, campaign, result), result.folder)
        except ArchiveError as error:
            unread.append(str(error))
    if unread:
        raise ArchiveError("\n".join(dict.fromkeys(unread)))


def _understood(lines: Iterator[BulkDocuments], folder: Path) -> Iterator[BulkDocuments]:
    """The same. Raises ArchiveError where what is below the folder has another form than ccmix gives it."""
    try:
        yield from lines
    except NOT_UNDERSTOOD as error:
        raise ArchiveError(f"{folder}: is not what ccmix writes: {error!r}") from error


def _summaries(owner: str, campaign: Campaign, result: Result) -> Iterator[BulkDocuments]:
    yield from document_lines(owner, run_documents(campaign, result))


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
    """In bodies, and at last how many documents there are of each kind; not where some can't be read: an earlier
    indexing may have had them.
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
