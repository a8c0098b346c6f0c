"""`ccmix index`: archives into an Elasticsearch, and what is to be there before."""

import hashlib
import sys
import threading
import time
from collections.abc import Container, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

import ccmix
from ccmix.agent.journal import state_folder
from ccmix.archive import ArchiveError, Campaign
from ccmix.cli import status
from ccmix.index.send import finished, send_campaign, send_run
from ccmix.index.sender import GaveUp, Sender, Waiting
from ccmix.index.server import Server, ServerError
from ccmix.index.spool import Spool
from ccmix.index.target import Target, TargetError, find_target
from ccmix.model import Run

DEMO = Path(ccmix.__file__).parents[2] / "archive"
LOOKS_EACH_S = 0.2  # for runs that have finished


@dataclass(frozen=True)
class Options:
    """The options of `ccmix index`."""

    outdirs: tuple[Path, ...]
    url: str
    setup: bool
    demo: bool
    only: tuple[str, ...]
    credentials: Path | None
    ca: Path | None
    spool: Path | None
    patience_s: float
    follow: bool


def index(options: Options) -> int:
    """Returns the exit status. Raises ArchiveError before anything is sent."""
    try:
        target = find_target(options.url, options.credentials, options.ca)
    except TargetError as error:
        raise ArchiveError(str(error)) from error
    outdirs = (*options.outdirs, *(published() if options.demo else ()))
    campaigns = [Campaign.load(outdir) for outdir in outdirs]
    if not campaigns and not options.setup:
        raise ArchiveError("nothing to index: name folders that 'ccmix run' wrote, or give --setup or --demo")
    try:
        return _send(target, campaigns, options)
    except (ServerError, GaveUp) as error:
        click.echo(error, err=True)
        return status.BAD


def published() -> list[Path]:
    """The archives that come with ccmix. Raises ArchiveError where this installation has none."""
    found = sorted(file.parent for file in DEMO.glob("*/campaign.json"))
    if not found:
        raise ArchiveError(f"{DEMO}: no published archive is there: use --demo in a clone of ccmix's repository")
    return found


def spool_folder(url: str) -> Path:
    """Of a server, in the folder for what outlives a process."""
    return state_folder() / "index" / hashlib.sha256(url.encode()).hexdigest()[:16]


def _send(target: Target, campaigns: Sequence[Campaign], options: Options) -> int:
    server = Server(target)
    if options.setup or options.demo:
        lifecycle = server.set_up()
        policies = "" if lifecycle else "; it has no lifecycle policies, so samples are kept for ever"
        click.echo(f"{target.url}: is set up{policies}", err=True)
    if not campaigns:
        return status.GOOD
    with Spool(options.spool or spool_folder(target.url)) as spool:
        sender = Sender(server, spool, options.patience_s, _Teller())
        sending = _Sending(sender, options.only)
        with sender:
            if options.follow:
                _follow(server, sending, campaigns[0])
            else:
                server.check_set_up()
                for campaign in campaigns:
                    sending.runs(campaign)
                    sending.campaign(campaign)
            sender.finish()
        click.echo(f"{target.url}: has {sending.whole} runs, {sender.sent} documents", err=True)
        if sender.rejected:
            click.echo(f"{sender.rejected} documents were not taken: see {spool.rejected_folder}", err=True)
        return status.BAD if sender.rejected or sending.unread else status.GOOD


class _Sending:
    """What is sent of campaigns, each run once. What can't be read is told, and the rest sent."""

    def __init__(self, sender: Sender, only: Sequence[str]) -> None:
        self.sender = sender
        self.whole = 0  # runs of which all was sent
        self.unread: set[str] = set()
        self._only = only

    def runs(self, campaign: Campaign, but: Container[str] = ()) -> set[str]:
        """Those that have finished, without those of these names; returns their names."""
        names: set[str] = set()

        def unread(run: Run, error: ArchiveError) -> None:
            names.add(run.name)
            self._tell(error)

        for result in finished(campaign, self._only, but, unread):
            names.add(result.run.name)
            try:
                send_run(self.sender, campaign, result)
                self.whole += 1
            except ArchiveError as error:
                self._tell(error)
        return names

    def campaign(self, campaign: Campaign) -> None:
        """Its own documents."""
        try:
            send_campaign(self.sender, campaign, self._only)
        except ArchiveError as error:
            self._tell(error)

    def _tell(self, error: ArchiveError) -> None:
        for sentence in str(error).splitlines():
            if sentence not in self.unread:
                self.unread.add(sentence)
                click.echo(f"not indexed: {sentence}", err=True)


def _follow(server: Server, sending: _Sending, campaign: Campaign) -> None:
    """Each run when it has finished, until standard input ends, and then the campaign; `ccmix run` uses it."""
    ended = threading.Event()

    def wait_for_end() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait_for_end, daemon=True).start()
    sending.sender.patiently(server.check_set_up)
    sent: set[str] = set()
    last = False
    while not last:
        last = ended.wait(LOOKS_EACH_S)
        sent |= sending.runs(campaign, but=sent)
    sending.campaign(campaign)


class _Teller:
    """Says why something waits, each reason once in a while."""

    def __init__(self) -> None:
        self._told: dict[str, float] = {}

    def __call__(self, waiting: Waiting) -> None:
        now = time.monotonic()
        if now - self._told.get(waiting.why, -60.0) >= 60.0:
            self._told[waiting.why] = now
            click.echo(f"waiting: {waiting.why}", err=True)
