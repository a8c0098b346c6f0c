"""Finds the Elasticsearch server to send to, and sends runs there as they finish.

A child process of low priority sends (`index = URL` in an entry): making and sending documents must
take no time from a measurement, and its failure fails no run. The archive is its only source, so
indexing can be repeated. Secrets come from the environment or a private file, never from the INI
file or the command line, which the archive and the list of processes show.
"""

import contextlib
import ipaddress
import os
import ssl
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from ccmix.agent.deadline import Deadline
from ccmix.failures import WrongInput
from ccmix.files import check_regular
from ccmix.isolated import FOLDER, python_command
from ccmix.server_url import CREDENTIALS, read_url
from ccmix.temporary import temporary_file

API_KEY, USER, PASSWORD = "CCMIX_INDEX_API_KEY", "CCMIX_INDEX_USER", "CCMIX_INDEX_PASSWORD"
CA = "CCMIX_INDEX_CA"
PATIENCE = "CCMIX_INDEX_PATIENCE"
SECRETS = (API_KEY, USER, PASSWORD)
MOST_CREDENTIALS_BYTES, MOST_CERTIFICATES_BYTES = 100_000, 10_000_000
KEYS = ("api-key", "user", "password")  # of the file

COMMAND = "from ccmix.cli import main; main()"
NICENESS = 19
PATIENCE_S = 60.0  # after the last run, if the server accepts nothing
MOST_WAIT_S = 600.0  # after the last run, even if the server accepts some documents
ENDS_WITHIN_S = 10.0  # when the campaign was interrupted, or the wait is over


class TargetError(WrongInput):
    """The URL, the credentials or the CA are wrong; the message names the problem, and never
    contains a secret.
    """


@dataclass(frozen=True)
class Credentials:
    """Holds an API key, or user and password, or nothing."""

    api_key: str | None = field(default=None, repr=False)
    user: str | None = None
    password: str | None = field(default=None, repr=False)

    @property
    def given(self) -> bool:
        return bool(self.api_key or self.user)


@dataclass(frozen=True)
class Target:
    """Describes a server. `ca` verifies its certificate instead of the system's CAs."""

    url: str
    credentials: Credentials = Credentials()
    ca: Path | None = None


def find_target(
    url: str,
    credentials: Path | None = None,
    ca: Path | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Target:
    """Returns the server with its credentials and CA, from the options or the environment.

    The options `credentials` (a file with secrets) and `ca` (a file with CA certificates) win over
    the environment. Raises TargetError.
    """
    try:
        url = read_url(url)
    except ValueError as error:
        raise TargetError(f"the URL {error}") from None
    file = credentials or (Path(environment[CREDENTIALS]) if environment.get(CREDENTIALS) else None)
    secrets = (
        _read_credentials(file)
        if file
        else Credentials(*(environment.get(name) or None for name in SECRETS))
    )
    if bool(secrets.user) != bool(secrets.password):
        raise TargetError(
            f"a user needs a password, and a password a user: {file or f'{USER} and {PASSWORD}'}"
        )
    if secrets.api_key and secrets.user:
        raise TargetError(
            f"both an API key and a user are given: leave one out of {file or 'the environment'}"
        )
    _check_characters(secrets, str(file or "the environment"))
    authority = ca or (Path(environment[CA]) if environment.get(CA) else None)
    if authority:
        _check_authority(authority)
    if secrets.given and not _is_encrypted_or_local(url):
        raise TargetError(f"{url}: credentials would pass the network in the clear: use https")
    return Target(url, secrets, authority)


def _check_characters(credentials: Credentials, source: str) -> None:
    """Raises TargetError for characters that an HTTP header can't carry (RFC 9110, RFC 7617).

    `source` names the file, or the environment, in the message.
    """
    if credentials.api_key and not (
        credentials.api_key.isascii()
        and credentials.api_key.isprintable()
        and " " not in credentials.api_key
    ):
        raise TargetError(f"{source}: the API key has characters that are not allowed")
    if credentials.user and (":" in credentials.user or not credentials.user.isprintable()):
        raise TargetError(f"{source}: the user has characters that are not allowed")
    if credentials.password and not credentials.password.isprintable():
        raise TargetError(f"{source}: the password has characters that are not allowed")


def _check_authority(file: Path) -> None:
    """Raises TargetError if a file does not have CA certificates."""
    try:
        check_regular(file, MOST_CERTIFICATES_BYTES)
        ssl.create_default_context(cafile=file)
    except OSError as error:
        raise TargetError(
            f"{file}: not a file of CA certificates in PEM form: {error.strerror or error}"
        ) from error


def _read_credentials(file: Path) -> Credentials:
    """Reads `KEY = VALUE` lines from a file that only its owner may read. Raises TargetError."""
    try:
        mode = check_regular(file, MOST_CREDENTIALS_BYTES).st_mode
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise TargetError(f"{file}: can't be read: {error.strerror}") from error
    except UnicodeDecodeError:  # it has the content
        raise TargetError(f"{file}: can't be read: it is not UTF-8") from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise TargetError(f"{file}: other users may read it: chmod 600 {file}")
    lines = [
        line.strip()
        for line in text.splitlines()
        if line.strip() and not line.lstrip().startswith("#")
    ]
    parts = [line.partition("=") for line in lines]
    values = {key.strip(): value.strip() for key, _, value in parts}
    if len(values) < len(parts) or not set(values) <= set(KEYS):
        raise TargetError(
            f"{file}: only the lines api-key = ..., or user = ... and password = ..., are allowed, "
            "once each"
        )
    return Credentials(values.get("api-key"), values.get("user"), values.get("password"))


def _is_encrypted_or_local(url: str) -> bool:
    """Returns whether nobody else on the network can read the traffic to this URL."""
    parts = urlsplit(url)
    if parts.scheme == "https" or parts.hostname == "localhost":
        return True
    try:
        return ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class _SenderProcess:
    """A running `ccmix index --follow`, and the file with its messages."""

    url: str
    process: "subprocess.Popen[bytes]"
    stderr: IO[bytes]

    def end(self) -> None:
        """Tells the process, by closing its standard input, that no run will follow."""
        assert self.process.stdin
        self.process.stdin.close()


@contextlib.contextmanager
def sending(
    outdir: Path, entries: Mapping[str, Sequence[str]], report: Callable[[str], None]
) -> Iterator[None]:
    """Sends runs of a campaign while they finish, as long as the context lasts.

    `entries` has the entries to send to each URL; `report` gets the messages for the user. When the
    context ends, waits for the servers for at most MOST_WAIT_S, and reports the servers that did
    not accept everything. Removes the secrets from this process's environment, so that other child
    processes don't get them.
    """
    with contextlib.ExitStack() as files:
        running = [
            _start_sender(outdir, url, names, files.enter_context(temporary_file()))
            for url, names in entries.items()
        ]
        if running:
            for name in SECRETS:
                os.environ.pop(name, None)
        try:
            yield
            for sender in running:
                sender.end()
            limit = Deadline(MOST_WAIT_S)
            late = [sender for sender in running if not _ended_within(sender, limit.remaining_s)]
            for sender in late:
                sender.process.terminate()
                _wait_or_kill(sender, ENDS_WITHIN_S)
        except BaseException:
            for sender in running:
                sender.process.terminate()
            for sender in running:
                _wait_or_kill(sender, ENDS_WITHIN_S)
            raise
        for sender in running:
            sender.stderr.seek(0)
            for line in sender.stderr.read().decode(errors="replace").splitlines():
                report(line)
            if sender.process.returncode:
                report(
                    f"{sender.url} does not have everything; nothing is lost. To send the rest: "
                    f"ccmix index {outdir} --url {sender.url}"
                )


def _start_sender(
    outdir: Path, url: str, entries: Sequence[str], stderr: IO[bytes]
) -> _SenderProcess:
    """Starts the process that sends entries of a campaign to one URL: `ccmix index --follow`.

    The process writes its messages to the file `stderr`. After the last run, it waits up to
    PATIENCE_S for a server that accepts nothing. If the user has set another time in the
    environment variable that PATIENCE names, that time is used instead.
    """
    only = [word for entry in entries for word in ("--only", entry)]
    command = ("index", outdir, "--url", url, *only, "--follow")
    argv = python_command(COMMAND, *command, python=sys.executable, folder=FOLDER, site=True)
    process = subprocess.Popen(
        ["nice", "-n", str(NICENESS), *argv],
        env={PATIENCE: str(PATIENCE_S)} | os.environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=stderr,
        start_new_session=True,
    )
    return _SenderProcess(url, process, stderr)


def _ended_within(sender: _SenderProcess, seconds: float) -> bool:
    """Waits for the process, and returns whether it ended in time."""
    try:
        sender.process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _wait_or_kill(sender: _SenderProcess, seconds: float) -> None:
    """Waits for the process, and kills it if it does not end in time."""
    if not _ended_within(sender, seconds):
        sender.process.kill()
        sender.process.wait()
