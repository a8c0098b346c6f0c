"""tcpdump and tcpdump-filt: what tcpdump records, without its options that write or run something else."""

import getopt
import shlex
from collections.abc import Mapping
from typing import Any

from ccmix.config.values import Kind, read_text
from ccmix.model import Capture, ConversionLimits

HEADERS_OF_TCP = ("-s", "128", "tcp")
SHORT = "#AB:IKNOQ:SUXbc:efi:j:lnpqs:tuvxy:"
LONG = (
    "buffer-size=", "direction=", "immediate-mode", "interface=", "linktype=", "no-promiscuous-mode", "number",
    "snapshot-length=", "time-stamp-precision=", "time-stamp-type=",
)  # fmt: skip


def _read_filter(text: str) -> tuple[str, ...]:
    """Reads the arguments of tcpdump. Raises ValueError for options that ccmix gives itself."""
    try:
        arguments = shlex.split(read_text(text))
    except ValueError:
        raise ValueError('has a quotation mark too few: write for instance -s 128 -i eth0 "host {dst}"') from None
    try:
        getopt.gnu_getopt(arguments, SHORT, list(LONG))
    except getopt.GetoptError as error:
        raise ValueError(f"has what ccmix doesn't pass to tcpdump ({error.msg}): it writes the file itself") from None
    return tuple(arguments)


def capture(settings: Mapping[str, Any], address: str, nic: str | None) -> Capture:
    """Returns the capture for one destination; without arguments, the headers of all its packets."""
    arguments: tuple[str, ...] | None = settings.get("tcpdump-filt")
    if arguments is None:
        arguments = ("-s", "128", "-i", nic or "any", "host {dst}")
    given = tuple(argument.replace("{dst}", address) for argument in arguments)
    return Capture(given, settings["tcpdump-size"], _conversion(settings))


def capture_in_router(settings: Mapping[str, Any]) -> Capture:
    """Returns the capture on an emulated path: the headers of all its TCP packets."""
    return Capture(HEADERS_OF_TCP, settings["tcpdump-size"], _conversion(settings))


def _conversion(settings: Mapping[str, Any]) -> ConversionLimits:
    return ConversionLimits(settings["tcpdump-convert-time"], settings["tcpdump-convert-size"])


FILTER = Kind("arguments of tcpdump", "", _read_filter)
