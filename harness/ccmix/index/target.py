"""Finds the server and the credentials for it. Secrets come from the environment or a file of one's own, never from the
INI file or the command line, where the archive or the list of processes would have them.
"""

import ipaddress
import os
import ssl
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from ccmix.server_url import CREDENTIALS, read_url

API_KEY, USER, PASSWORD = "CCMIX_INDEX_API_KEY", "CCMIX_INDEX_USER", "CCMIX_INDEX_PASSWORD"
CA = "CCMIX_INDEX_CA"
PATIENCE = "CCMIX_INDEX_PATIENCE"
SECRETS = (API_KEY, USER, PASSWORD)
KEYS = ("api-key", "user", "password")  # of the file


class TargetError(Exception):
    """Something is wrong with the URL, the credentials or the CA; the sentence says what, and never has a secret."""


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
    url: str, credentials: Path | None = None, ca: Path | None = None, environment: Mapping[str, str] = os.environ
) -> Target:
    """Reads the options, else the environment. Raises TargetError."""
    try:
        url = read_url(url)
    except ValueError as error:
        raise TargetError(f"the URL {error}") from None
    file = credentials or (Path(environment[CREDENTIALS]) if environment.get(CREDENTIALS) else None)
    secrets = _read(file) if file else Credentials(*(environment.get(name) or None for name in SECRETS))
    if bool(secrets.user) != bool(secrets.password):
        raise TargetError(f"a user needs a password, and the other way round: {file or f'{USER} and {PASSWORD}'}")
    if secrets.api_key and secrets.user:
        raise TargetError(f"both an API key and a user are given: leave one out of {file or 'the environment'}")
    _check_characters(secrets, str(file or "the environment"))
    authority = ca or (Path(environment[CA]) if environment.get(CA) else None)
    if authority:
        _check_authority(authority)
    if secrets.given and not _is_private(url):
        raise TargetError(f"{url}: credentials would pass the network in the clear: use https")
    return Target(url, secrets, authority)


def _check_characters(credentials: Credentials, place: str) -> None:
    """Refuses what no HTTP header could carry (RFC 9110, RFC 7617)."""
    if credentials.api_key and not (
        credentials.api_key.isascii() and credentials.api_key.isprintable() and " " not in credentials.api_key
    ):
        raise TargetError(f"{place}: the API key has characters that none has")
    if credentials.user and (":" in credentials.user or not credentials.user.isprintable()):
        raise TargetError(f"{place}: the user has characters that none has")
    if credentials.password and not credentials.password.isprintable():
        raise TargetError(f"{place}: the password has characters that none has")


def _check_authority(file: Path) -> None:
    if not file.is_file():
        raise TargetError(f"{file}: there is no such file of CA certificates")
    try:
        ssl.create_default_context(cafile=file)
    except OSError as error:
        raise TargetError(f"{file}: is no file of CA certificates in PEM: {error.strerror or error}") from error


def _read(file: Path) -> Credentials:
    """Reads `KEY = VALUE` lines, for the owner's eyes alone."""
    try:
        mode = file.stat().st_mode
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise TargetError(f"{file}: can't be read: {error.strerror}") from error
    except UnicodeDecodeError:  # it has the content
        raise TargetError(f"{file}: can't be read: it is not UTF-8") from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise TargetError(f"{file}: others may read it: chmod 600 {file}")
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    parts = [line.partition("=") for line in lines]
    values = {key.strip(): value.strip() for key, _, value in parts}
    if len(values) < len(parts) or not set(values) <= set(KEYS):
        raise TargetError(f"{file}: has other lines than api-key = ..., or user = ... and password = ..., once each")
    return Credentials(values.get("api-key"), values.get("user"), values.get("password"))


def _is_private(url: str) -> bool:
    """Returns whether nobody else can hear what is sent there."""
    parts = urlsplit(url)
    if parts.scheme == "https" or parts.hostname == "localhost":
        return True
    try:
        return ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return False
