"""Campaigns and runs of an archive, put into the spool."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence

from ccmix.archive import Campaign
from ccmix.index import context
from ccmix.index.bulk import document_lines, sample_lines
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


def finished(campaign: Campaign, entries: Sequence[str] = ()) -> Iterator[Result]:
    """In the order of the plan; of these entries alone, where there are any."""
    for run, summary, folder in campaign.finished():
        if chosen(run, entries):
            yield Result(run, summary, folder)


def chosen(run: Run, entries: Sequence[str]) -> bool:
    return not entries or run.entry in entries


def run_lines(owner: str, campaign: Campaign, result: Result) -> Iterator[tuple[str, str]]:
    """Kind, and action and document, of all documents of a run; `owner` is its id."""
    yield from document_lines(owner, run_documents(campaign, result))
    shared = context.of_run(campaign, result.run, result.summary)
    begin_s = context.begin_s(campaign, result.summary)
    for samples in sample_tables(result.run, result.summary, result.folder):
        for lines in sample_lines(owner, shared, begin_s, samples):
            for line in lines:
                yield samples.kind, line


def _put(sender: Sender, owner: str, lines: Iterator[tuple[str, str]]) -> int:
    """In bodies of some MB, and at last how many there are of each kind."""
    sender.begin(owner)
    counts: Counter[str] = Counter()
    waiting: list[str] = []
    size = 0
    for kind, line in lines:
        counts[kind] += 1
        waiting.append(line)
        size += len(line)
        if size >= BODY_BYTES:
            sender.put(owner, "".join(waiting).encode())
            waiting, size = [], 0
    if waiting:
        sender.put(owner, "".join(waiting).encode())
    sender.put(owner, json.dumps(counts).encode(), is_end=True)
    return counts.total()
