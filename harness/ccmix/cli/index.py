"""`ccmix index`: sets up an Elasticsearch server, and sends the results of campaigns to it."""

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
from ccmix.model import Run

QUIET_S = 60.0  # between two messages with the same reason
LOOKS_EACH_S = 0.2  # interval of looking for finished runs
MOST_OF_A_PROCESSOR = 0.1  # share that looking may take: for 100,000 runs it takes seconds


@dataclass(frozen=True)
class IndexOptions:
    """Holds the options of `ccmix index`; `patience` is in seconds.

    `ca` is a file with CA certificates; `spool` is the folder in which documents wait for the
    server. `follow` (not shown in the help) is for `ccmix run`: send each run as soon as it has
    finished.
    """

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
    """Sends the campaigns to the server, and returns the exit status of `ccmix index`.

    A server that refuses or does not answer gives status 1. Raises ArchiveError or TargetError
    before anything is sent.
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
    """Returns the folder in which documents for this server wait until it accepts them.

    It is in ccmix's state folder, so they are still there after this process has ended.
    """
    private_folder(state_folder())
    return state_folder() / "index" / hashlib.sha256(url.encode()).hexdigest()[:16]


def _send(
    target: Target,
    campaigns: Sequence[Campaign],
    given: IndexOptions,
    renamed: Callable[[str], str],
) -> int:
    """Does the steps that the options ask for: set up the server, send campaigns, write dashboards.

    `renamed` puts the names of packed files into messages in place of temporary folders. Returns
    the exit status.
    """
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
    """Sends all runs and summaries of the campaigns to the server, and prints the counts.

    Returns the exit status: 1 if the server rejected a document or a run could not be read.
    `renamed` puts the names of packed files into messages in place of temporary folders.
    """
    with Spool(given.spool or spool_folder(target.url)) as spool:
        sender = BulkSender(server, spool, given.patience, _WaitingPrinter())
        campaign_sender = _CampaignSender(sender, given.only, renamed)
        with sender:
            if given.follow:
                _follow(server, campaign_sender, campaigns[0])
            else:
                server.check_set_up()
                for campaign in campaigns:
                    campaign_sender.runs(campaign)
                    campaign_sender.campaign(campaign)
            sender.finish()
        tell(f"{target.url}: has {campaign_sender.whole} runs, {sender.sent} documents")
        if sender.rejected:
            reason = (
                f", the first because of '{sender.first_rejection}'"
                if sender.first_rejection
                else ""
            )
            tell(
                f"{sender.rejected} documents were not accepted{reason}: see "
                f"{spool.rejected_folder}"
            )
        return output.BAD if sender.rejected or campaign_sender.unread else output.GOOD


def _write_dashboards(server: ElasticsearchServer, file: Path) -> None:
    """Writes the Kibana dashboards into a file that Kibana imports.

    They open at the time range of all runs in the index, or at the last year if it is empty. Raises
    OSError.
    """
    from ccmix.kibana.dashboards import ndjson, times_of  # noqa: PLC0415  # reads YAML, for about a second
    from ccmix.kibana.saved_objects import LAST_YEAR  # noqa: PLC0415  # reads YAML

    first_and_last_s = server.times_s()
    times = times_of(*first_and_last_s, now_s=time.time()) if first_and_last_s else LAST_YEAR
    put(ndjson(times), file)
    tell(f"{file}: dashboards that open at {times.first} to {times.last}")


class _CampaignSender:
    """Sends the runs of campaigns to the server; names runs that can't be read, and sends the rest.

    `sender` sends single documents. `only` are the names of the entries (sections of the INI file)
    to send; empty means all. `renamed` puts the names of packed files into messages in place of
    temporary folders.
    """

    def __init__(
        self, sender: BulkSender, only: Sequence[str], renamed: Callable[[str], str]
    ) -> None:
        """Stores the arguments, which the class describes; nothing has been sent yet."""
        self.sender = sender
        self._renamed = renamed
        self.whole = 0  # runs that were sent completely
        self.unread: set[str] = set()  # reasons why runs were not sent
        self._only = only

    def runs(self, campaign: Campaign, but: Container[str] = ()) -> set[str]:
        """Sends the finished runs of a campaign, except those whose names are in `but`.

        Returns the names of the runs that are done with: sent, or found to be unreadable.
        """
        done_names: set[str] = set()

        def note_unreadable(run: Run, error: ArchiveError) -> None:
            """Counts a run that can't be read as done, and tells the user why it is not sent."""
            done_names.add(run.name)
            self._print(error)

        for result in finished(campaign, self._only, but, note_unreadable):
            done_names.add(result.run.name)
            try:
                send_run(self.sender, campaign, result)
                self.whole += 1
            except ArchiveError as error:
                self._print(error)
        return done_names

    def campaign(self, campaign: Campaign) -> None:
        """Sends the documents about a campaign as a whole, such as its summary."""
        try:
            send_campaign(self.sender, campaign, self._only)
        except ArchiveError as error:
            self._print(error)

    def _print(self, error: ArchiveError) -> None:
        """Tells the user why a run is not indexed, each reason once."""
        for sentence in self._renamed(str(error)).splitlines():
            if sentence not in self.unread:
                self.unread.add(sentence)
                tell(f"not indexed: {sentence}")


def _follow(
    server: ElasticsearchServer, campaign_sender: _CampaignSender, campaign: Campaign
) -> None:
    """Sends each run of a campaign in progress when it has finished, and the campaign at the end.

    `ccmix run` starts `ccmix index --follow` as a child process, and closes its standard input when
    all runs are done. The time between two looks at the folder grows with the time that a look
    takes, so that looking does not disturb the runs.
    """
    campaign_ended = threading.Event()

    def wait_for_end_of_input() -> None:
        """Waits in a thread until `ccmix run` closes the standard input, after its last run."""
        sys.stdin.read()
        campaign_ended.set()

    threading.Thread(target=wait_for_end_of_input, daemon=True).start()
    campaign_sender.sender.patiently(server.check_set_up)
    done_names: set[str] = set()
    is_last_look, pause_s = False, LOOKS_EACH_S
    while not is_last_look:
        is_last_look = campaign_ended.wait(pause_s)
        cpu_before_s = time.process_time()
        new_names = campaign_sender.runs(campaign, but=done_names)
        done_names |= new_names
        look_took_s = 0.0 if new_names else time.process_time() - cpu_before_s
        pause_s = max(LOOKS_EACH_S, look_took_s / MOST_OF_A_PROCESSOR)
    campaign_sender.campaign(campaign)


class _WaitingPrinter:
    """Tells the user why documents wait for the server, each reason at most once in QUIET_S
    seconds.
    """

    def __init__(self) -> None:
        self._quiet: dict[str, Deadline] = {}  # by reason

    def __call__(self, waiting: Waiting) -> None:
        """Prints the reason in `waiting`; the sender calls this each time that documents wait."""
        quiet_until = self._quiet.get(waiting.why)
        if not quiet_until or quiet_until.expired:
            self._quiet[waiting.why] = Deadline(QUIET_S)
            tell(f"waiting: {waiting.why}")
