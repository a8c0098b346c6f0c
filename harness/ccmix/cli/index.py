"""`ccmix index`: sets up an Elasticsearch server, and sends archives to it."""

from __future__ import annotations

import hashlib
import math
import sys
import threading
import time
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from ccmix.agent.deadline import Deadline
from ccmix.agent.journal import private_folder, state_folder
from ccmix.archive import ArchiveError, Campaign
from ccmix.archive.packed import opened
from ccmix.cli import options, output
from ccmix.cli.output import put, tell
from ccmix.index.bulk import finished, send_campaign, send_run
from ccmix.index.sender import BulkSender, GaveUp, Waiting
from ccmix.index.server import ElasticsearchServer, ServerError
from ccmix.index.spool import Spool
from ccmix.index.target import PATIENCE, Target, find_target
from ccmix.kibana.dashboards import ndjson, times_of
from ccmix.kibana.saved_objects import LAST_YEAR
from ccmix.model import Run

QUIET_S = 60.0  # between two messages with the same reason
LOOKS_EACH_S = 0.2  # interval of looking for finished runs
MOST_OF_A_PROCESSOR = 0.1  # share that looking may take: for 100,000 runs it takes seconds


@dataclass(frozen=True)
class IndexOptions:
    """Holds the options of `ccmix index`; `patience` in seconds."""

    outdirs: tuple[Path, ...]
    url: str
    setup: bool
    only: tuple[str, ...]
    credentials: Path | None
    ca: Path | None
    spool: Path | None
    patience: float
    dashboards: Path | None
    follow: bool


@click.command("index")
@options.outdirs(required=False)
@click.option(
    "--url",
    metavar="URL",
    envvar="CCMIX_INDEX_URL",
    required=True,
    help="The Elasticsearch 8 server without a password, such as https://elastic.example.org:9200.",
)
@click.option(
    "--setup",
    is_flag=True,
    help="First create or update templates, indices and the policy for samples.",
)
@options.only
@click.option(
    "--credentials",
    type=options.PathType(dir_okay=False),
    metavar="FILE",
    help="A file with 'api-key = ...', or 'user = ...' and 'password = ...'. The variables "
    "CCMIX_INDEX_API_KEY, _USER and _PASSWORD replace it.",
)
@click.option(
    "--ca",
    type=options.PathType(dir_okay=False),
    metavar="FILE",
    help="CA certificates to verify the server  [default: the system's]",
)
@click.option(
    "--spool",
    type=options.PathType(file_okay=False),
    metavar="FOLDER",
    help="Where documents wait  [default: in ccmix's state folder]",
)
@click.option(
    "--patience",
    type=click.FloatRange(0, math.inf, max_open=True),
    envvar=PATIENCE,
    default=600.0,
    show_default=True,
    metavar="SECONDS",
    help="Give up after the server has accepted nothing for this time.",
)
@click.option(
    "--dashboards",
    type=options.PathType(dir_okay=False),
    metavar="FILE",
    help="Then write Kibana dashboards that open at the times of all runs in the index.",
)
@click.option("--follow", is_flag=True, hidden=True)
@options.collected(IndexOptions)
def index(given: IndexOptions) -> None:
    """Put the campaigns in OUTDIRS into an Elasticsearch server, for Kibana.

    The same command again changes nothing; after a new analysis it replaces the old documents. If
    the server can't accept documents now, they wait on disk for another try. Documents that it
    refuses are set aside, with the reason.

    \b
    ccmix index --url http://localhost:9200 --setup          once
    ccmix index --url http://localhost:9200 results/demo
    """
    sys.exit(_index(given))


def _index(given: IndexOptions) -> int:
    """Indexes the campaigns; returns the exit status. Raises ArchiveError or TargetError before
    anything is sent.
    """
    target = find_target(given.url, given.credentials, given.ca)
    with opened(given.outdirs) as archives:
        campaigns = [Campaign.load(outdir) for outdir in archives.folders]
        if not campaigns and not given.setup and not given.dashboards:
            raise ArchiveError(
                "nothing to index: name folders written by 'ccmix run', or give --setup"
            )
        try:
            return _send(target, campaigns, given, archives.rename)
        except (ServerError, GaveUp) as error:
            tell(error)
            return output.BAD


def spool_folder(url: str) -> Path:
    """Returns the server's folder below the state folder, which outlives processes."""
    private_folder(state_folder())
    return state_folder() / "index" / hashlib.sha256(url.encode()).hexdigest()[:16]


def _send(
    target: Target,
    campaigns: Sequence[Campaign],
    given: IndexOptions,
    renamed: Callable[[str], str],
) -> int:
    server = ElasticsearchServer(target)
    if given.setup:
        lifecycle = server.set_up()
        policies = (
            "" if lifecycle else "; it has no lifecycle policies, so samples are kept forever"
        )
        tell(f"{target.url}: is set up{policies}")
    outcome = (
        _send_campaigns(server, target, campaigns, given, renamed) if campaigns else output.GOOD
    )
    if given.dashboards:
        _write_dashboards(server, given.dashboards)
    return outcome


def _send_campaigns(
    server: ElasticsearchServer,
    target: Target,
    campaigns: Sequence[Campaign],
    given: IndexOptions,
    renamed: Callable[[str], str],
) -> int:
    with Spool(given.spool or spool_folder(target.url)) as spool:
        sender = BulkSender(server, spool, given.patience, _WaitingPrinter())
        sending = _CampaignSender(sender, given.only, renamed)
        with sender:
            if given.follow:
                _follow(server, sending, campaigns[0])
            else:
                server.check_set_up()
                for campaign in campaigns:
                    sending.runs(campaign)
                    sending.campaign(campaign)
            sender.finish()
        tell(f"{target.url}: has {sending.whole} runs, {sender.sent} documents")
        if sender.rejected:
            first = (
                f", the first because of '{sender.first_rejection}'"
                if sender.first_rejection
                else ""
            )
            tell(
                f"{sender.rejected} documents were not accepted{first}: see {spool.rejected_folder}"
            )
        return output.BAD if sender.rejected or sending.unread else output.GOOD


def _write_dashboards(server: ElasticsearchServer, file: Path) -> None:
    """Writes the dashboards in the form that Kibana imports. Raises OSError."""
    ends = server.times_s()
    times = times_of(*ends, now_s=time.time()) if ends else LAST_YEAR
    put(ndjson(times), file)
    tell(f"{file}: dashboards that open at {times.first} to {times.last}")


class _CampaignSender:
    """Sends each run of campaigns once. Names runs that can't be read, and sends the rest."""

    def __init__(
        self, sender: BulkSender, only: Sequence[str], renamed: Callable[[str], str]
    ) -> None:
        self.sender = sender
        self._renamed = renamed  # puts the names of packed files into messages
        self.whole = 0  # runs that were sent completely
        self.unread: set[str] = set()
        self._only = only

    def runs(self, campaign: Campaign, but: Container[str] = ()) -> set[str]:
        """Sends the finished runs except those named in `but`; returns the names of the sent
        and of the unreadable runs.
        """
        names: set[str] = set()

        def unread(run: Run, error: ArchiveError) -> None:
            names.add(run.name)
            self._print(error)

        for result in finished(campaign, self._only, but, unread):
            names.add(result.run.name)
            try:
                send_run(self.sender, campaign, result)
                self.whole += 1
            except ArchiveError as error:
                self._print(error)
        return names

    def campaign(self, campaign: Campaign) -> None:
        """Sends the documents of the campaign itself."""
        try:
            send_campaign(self.sender, campaign, self._only)
        except ArchiveError as error:
            self._print(error)

    def _print(self, error: ArchiveError) -> None:
        for sentence in self._renamed(str(error)).splitlines():
            if sentence not in self.unread:
                self.unread.add(sentence)
                tell(f"not indexed: {sentence}")


def _follow(server: ElasticsearchServer, sending: _CampaignSender, campaign: Campaign) -> None:
    """Sends each run when it has finished. At the end of standard input, sends the campaign.
    `ccmix run` starts this.
    """
    ended = threading.Event()

    def wait_for_end() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait_for_end, daemon=True).start()
    sending.sender.patiently(server.check_set_up)
    sent: set[str] = set()
    last, pause_s = False, LOOKS_EACH_S
    while not last:
        last = ended.wait(pause_s)
        began_s = time.process_time()
        new = sending.runs(campaign, but=sent)
        sent |= new
        look_s = 0.0 if new else time.process_time() - began_s
        pause_s = max(LOOKS_EACH_S, look_s / MOST_OF_A_PROCESSOR)
    sending.campaign(campaign)


class _WaitingPrinter:
    """Prints why documents wait, each reason at most once in QUIET_S."""

    def __init__(self) -> None:
        self._quiet: dict[str, Deadline] = {}  # by reason

    def __call__(self, waiting: Waiting) -> None:
        quiet = self._quiet.get(waiting.why)
        if not quiet or quiet.expired:
            self._quiet[waiting.why] = Deadline(QUIET_S)
            tell(f"waiting: {waiting.why}")
