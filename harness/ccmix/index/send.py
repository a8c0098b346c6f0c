"""Campaigns and runs of an archive, put into the spool."""

import json
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence

from ccmix.archive import Campaign
from ccmix.index import context
from ccmix.index.bulk import Lines, document_lines, sample_lines
from ccmix.index.samples import sample_tables
from ccmix.index.sender import BODY_BYTES, Sender
from ccmix.index.summaries import campaign_documents, run_documents
from ccmix.model import Run
from ccmix.report.results import Result


def send_campaign(sender: Sender, campaign: Campaign, entries: Sequence[str] = ()) -> int:
    """Its own documents and its conditions'; of these entries alone, where there are any. Returns their number."""
    owner = context.campaign_id(campaign)
    return _put(sender, owner, document_lines(owner, campaign_documents(campaign, entries)))


def send_run(sender: Sender, campaign: Campaign, result: Result) -> int:
    """All documents of a finished run; returns their number."""
    owner = context.run_id(context.campaign_id(campaign), result.run)
    return _put(sender, owner, run_lines(owner, campaign, result))


def finished(campaign: Campaign, entries: Sequence[str] = (), but: Container[str] = ()) -> Iterator[Result]:
    """In the order of the plan; of these entries alone, where there are any, and without the runs of these names."""
    for run, summary, folder in campaign.finished(lambda run: chosen(run, entries) and run.name not in but):
        yield Result(run, summary, folder)


def chosen(run: Run, entries: Sequence[str]) -> bool:
    return not entries or run.entry in entries


def run_lines(owner: str, campaign: Campaign, result: Result) -> Iterator[Lines]:
    """All documents of a run; `owner` is its id."""
    yield from document_lines(owner, run_documents(campaign, result))
    shared = context.of_run(campaign, result.run, result.summary)
    begin_s = context.begin_s(campaign, result.summary)
    for samples in sample_tables(result.run, result.summary, result.folder):
        yield from sample_lines(owner, shared, begin_s, samples)


def bodies(lines: Iterable[Lines]) -> Iterator[bytes]:
    """Of bulk requests, of some MB."""
    waiting: list[str] = []
    size = 0
    for some in lines:
        if size and size + len(some.text) > BODY_BYTES:
            yield "".join(waiting).encode()
            waiting, size = [], 0
        waiting.append(some.text)
        size += len(some.text)
    if waiting:
        yield "".join(waiting).encode()


def _put(sender: Sender, owner: str, lines: Iterable[Lines]) -> int:
    """In bodies, and at last how many documents there are of each kind."""
    sender.begin(owner)
    counts: Counter[str] = Counter()

    def counted() -> Iterator[Lines]:
        for some in lines:
            counts[some.kind] += some.documents
            yield some

    for body in bodies(counted()):
        sender.put(owner, body)
    sender.put(owner, json.dumps(counts).encode(), is_end=True)
    return counts.total()
