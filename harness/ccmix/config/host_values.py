"""Reads values of keys for real hosts: hosts, devices, netem, kernel module parameters, captures.

Names end up in command lines, so only valid names are accepted. The readers are stricter than
ccmix.hosts.address, which reads the names again to connect, because an address also goes into the
user's shell lines.
"""

import getopt
import ipaddress
import re
import shlex
from dataclasses import dataclass

from ccmix.config.problems import quoted
from ccmix.config.values import (
    Kind,
    Settings,
    read_delay_up_to,
    read_part,
    read_shares_of_loss,
    read_text,
    units,
    whole_number,
)
from ccmix.hosts.address import LOCAL_NAMES, NAMESPACE_PREFIX, parse_host
from ccmix.model import Capture, ConversionLimits, Loss, NetemPlace
from ccmix.units import TIME_S

LOCAL = "localhost"
MOST_ALIAS = 80  # bytes, since it is a folder's name
_LABELS = re.compile(
    r"[A-Za-z0-9_][A-Za-z0-9_-]{0,62}(?:\.[A-Za-z0-9_][A-Za-z0-9_-]{0,62})*\.?", re.ASCII
)
MOST_NAME = 253  # characters
_LOGIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}", re.ASCII)
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}", re.ASCII)
_DEVICE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,14}", re.ASCII)  # IFNAMSIZ, with its end
_ALIAS = re.compile(r"\w[\w .:%@+-]*")
_HOST_EXAMPLES = "write a name or an address, such as dtn.example.org or 2001:db8::1"


def read_address(text: str) -> str:
    """Reads an IP address or a host name. Raises ValueError, also for short forms of IPv4 such as
    10.1.
    """
    ends_in_number = text.rpartition(".")[
        2
    ].isdecimal()  # resolvers read it as IPv4, and 10.1 or 010.0.0.1 in a surprising way
    if ":" in text or ends_in_number:
        try:
            address, _, zone = text.partition("%")
            ipaddress.ip_address(address)
        except ValueError:
            raise ValueError(f"is not an IP address: {_HOST_EXAMPLES}") from None
        if "%" in text and not (":" in address and _DEVICE.fullmatch(zone)):
            raise ValueError(f"has no device after %: {_HOST_EXAMPLES}")
    elif len(text) > MOST_NAME or not _LABELS.fullmatch(text):
        raise ValueError(f"is not a host: {_HOST_EXAMPLES}")
    return text


def read_user(text: str) -> str:
    """Reads a login name for ssh."""
    if not _LOGIN.fullmatch(text):
        raise ValueError("is not a login: write letters, digits and . _ -, such as dtn")
    return text


def read_destination(text: str) -> tuple[str | None, str]:
    """Reads '[USER@]ADDRESS' and returns both parts; the user is None if there is none."""
    user, at, address = text.rpartition("@")
    return (read_user(user) if at else None), read_address(address)


def read_host(text: str) -> str:
    """Reads a host on which commands run: 'localhost' (or one of its addresses), 'netns:NAME' or
    '[USER@]HOST'.
    """
    if text in LOCAL_NAMES:
        return LOCAL
    if text.startswith(NAMESPACE_PREFIX):
        if not _PLAIN.fullmatch(text.removeprefix(NAMESPACE_PREFIX)):
            raise ValueError(
                "is not a network namespace: write netns:NAME, with letters, digits and . _ - in "
                "NAME"
            )
        return text
    read_destination(text)
    return text


def with_user(host: str, user: str | None) -> str:
    """Adds the login to a host that read_host() accepts, if ssh connects to it and it has no login
    yet. `user` may be None.
    """
    return str(parse_host(host, user))


def read_device(text: str) -> str:
    """Reads the name of a network device, such as eth2."""
    if not _DEVICE.fullmatch(text):
        raise ValueError(f"{quoted(text)} is not a network device: write its name, such as eth2")
    return text


def read_alias(text: str) -> str:
    """Reads an alias: the short name of a destination, which also names a folder of the results."""
    if len(text.encode()) > MOST_ALIAS or not _ALIAS.fullmatch(text):
        raise ValueError(
            f"is not an alias: write up to {MOST_ALIAS} letters, digits, spaces and . _ : % @ + -"
        )
    return text


ADDRESS = Kind("host", "", read_destination)
HOST = Kind("host, localhost or netns:NAME", "", read_host)
USER = Kind("login", "", read_user)
ALIAS = Kind("text", "", read_alias)

MOST_DELAY_S = 60.0
MOST_SWEPT = 10_000
_BARE = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)", re.ASCII)
_INTEGER = re.compile(r"[+-]?\d{1,18}", re.ASCII)
_PARAMETER = re.compile(r"[A-Za-z0-9_]{1,60}/parameters/[A-Za-z0-9_]{1,40}", re.ASCII)


def _with_default_unit(text: str, unit: str) -> str:
    """Appends the unit to a number that has none: '20' becomes '20ms'."""
    return text + unit if _BARE.fullmatch(text) else text


def read_delay(text: str) -> float:
    """Reads a delay in seconds; a bare number is in milliseconds."""
    return read_delay_up_to(_with_default_unit(text, "ms"), MOST_DELAY_S)


def read_loss(text: str) -> Loss | None:
    """Reads netem's loss: '0.001%' of all packets, or bursts from its Gilbert-Elliott model,
    'gemodel P [R [1-H [1-K]]]' or '0.001 gemodel'. Numbers without a unit are percentages.

    Returns None for no loss.
    """
    words = text.split()
    if "gemodel" not in (words[:1] + words[-1:]):
        return read_shares_of_loss([_with_default_unit(word, "%") for word in words], "random")
    words.remove("gemodel")
    return read_shares_of_loss([_with_default_unit(word, "%") for word in words], "gemodel")


def read_netem_place(text: str) -> NetemPlace:
    """Reads where netem acts: 'HOST:DATA_DEVICE[,ACK_DEVICE]', the host and the devices by which
    data and ACKs leave it.
    """
    host, colon, devices = text.rpartition(":")
    names = [name.strip() for name in devices.split(",")]
    if not colon or not 1 <= len(names) <= 2:
        raise ValueError("is not HOST:DATA_DEVICE,ACK_DEVICE: write for instance netem1:eth2,eth3")
    host = read_part(host, read_host)
    data, ack = [*map(read_device, names), None][:2]
    assert data
    if data == ack:
        raise ValueError(
            "names one device twice: write the device by which data leaves, then the device by "
            "which ACKs leave"
        )
    return NetemPlace(host, data, ack)


@dataclass(frozen=True)
class ParameterSweep:
    """Describes a sweep over values of a kernel module parameter, such as
    tcp_bbr2/parameters/loss_thresh (below /sys/module).

    If the parameter is a list, `element` is the number of the element that varies, counted from 1.
    None: the whole parameter varies.
    """

    path: str
    element: int | None
    values: tuple[str, ...]

    @property
    def name(self) -> str:
        """The parameter's own name, which is the sweep's key in conditions: 'loss_thresh'."""
        return self.path.rpartition("/")[2]


def _read_integer(text: str) -> int:
    """Reads a whole number, which may be negative."""
    if not _INTEGER.fullmatch(text):
        raise ValueError(f"{quoted(text)} is not a whole number")
    return int(text)


def read_parameter_sweep(text: str) -> ParameterSweep:
    """Reads the key param-sweep of the original ESnet harness, which has three forms.

    These are 'PATH, sys-module-increment,START,END,STEP', 'PATH, sys-module-list,V,V' and
    'PATH, sys-module-vector-list,ELEMENT,V,V'.
    """
    path, *parts = (part.strip() for part in text.split(","))
    form, arguments = (parts[0] if parts else ""), parts[1:]
    if not _PARAMETER.fullmatch(path):
        raise ValueError(
            f"{quoted(path)} is not a module parameter: write MODULE/parameters/NAME, such as "
            "tcp_bbr2/parameters/loss_thresh"
        )
    element = None
    if form == "sys-module-increment":
        if len(arguments) != 3:
            raise ValueError("needs START,END,STEP: write for instance sys-module-increment,2,6,1")
        start, end, step = map(_read_integer, arguments)
        if step < 1 or end < start:
            raise ValueError("has no values: START must be at most END, and STEP at least 1")
        if (end - start) // step >= MOST_SWEPT:
            raise ValueError(f"has more than {MOST_SWEPT} values: make STEP larger")
        values = [str(value) for value in range(start, end + 1, step)]
    elif form in ("sys-module-list", "sys-module-vector-list"):
        if form == "sys-module-vector-list":
            element, arguments = (
                (
                    read_part(arguments[0], whole_number(1, 1000).read)
                    if arguments and arguments[0].isdecimal()
                    else 0
                ),
                arguments[1:],
            )
            if not element:
                raise ValueError(
                    "needs an ELEMENT, counted from 1: write for instance "
                    "sys-module-vector-list,1,128,192"
                )
        values = [str(_read_integer(part)) for part in arguments if part]
    else:
        raise ValueError(
            f"has the unknown kind {quoted(form)}: use sys-module-increment, sys-module-list or "
            "sys-module-vector-list"
        )
    if not values or len(set(values)) < len(values):
        raise ValueError("has no values: add them" if not values else "names a value twice")
    return ParameterSweep(path, element, tuple(values))


DELAY = Kind("time", f"ms where bare; {units(TIME_S)}", read_delay)
NETEM_LOSS = Kind("share, or gemodel", "%, also where bare", read_loss)
PACKETS = whole_number(1, 100_000_000, "packets")
PLACE = Kind("HOST:DATA_DEVICE[,ACK_DEVICE]", "", read_netem_place)
PARAMETER_SWEEP = Kind("parameter and values", "", read_parameter_sweep)
# The sweep reads the items of these lists one by one
DELAYS = Kind("list of times", DELAY.unit, lambda text: text)
PACKET_COUNTS = Kind("list of whole numbers", PACKETS.unit, lambda text: text)

TCP_HEADERS_FILTER = ("-s", "128", "tcp")
# The options of tcpdump that users may give, in the form of getopt. Missing are all options with
# which tcpdump would write other files than ccmix expects
SHORT = "#AB:IKNOQ:SUXbc:efi:j:lnpqs:tuvxy:"
LONG = (
    "buffer-size=",
    "direction=",
    "immediate-mode",
    "interface=",
    "linktype=",
    "no-promiscuous-mode",
    "number",
    "snapshot-length=",
    "time-stamp-precision=",
    "time-stamp-type=",
)


def _read_filter(text: str) -> tuple[str, ...]:
    """Reads the arguments of tcpdump, and splits them like a shell. Raises ValueError for options
    that ccmix sets itself.
    """
    try:
        arguments = shlex.split(read_text(text))
    except ValueError:
        raise ValueError(
            'has an unclosed quotation mark: write for instance -s 128 -i eth0 "host {dst}"'
        ) from None
    try:
        getopt.gnu_getopt(arguments, SHORT, list(LONG))
    except getopt.GetoptError as error:
        raise ValueError(
            f"has an option that ccmix doesn't pass to tcpdump ({error.msg}), whose file it writes "
            "itself"
        ) from None
    return tuple(arguments)


def capture(settings: Settings, address: str, nic: str | None) -> Capture:
    """Returns how to capture the packets to one destination with tcpdump on src. Without the key
    tcpdump-filt, it has the headers of all packets on the device `nic` (None: on all devices).
    """
    arguments: tuple[str, ...] | None = settings.get("tcpdump-filt")
    if arguments is None:
        arguments = ("-s", "128", "-i", nic or "any", "host {dst}")
    given = tuple(argument.replace("{dst}", address) for argument in arguments)
    return Capture(given, settings["tcpdump-size"], _conversion_limits(settings))


def capture_in_router(settings: Settings) -> Capture:
    """Returns how to capture packets on an emulated path: the headers of all its TCP packets."""
    return Capture(TCP_HEADERS_FILTER, settings["tcpdump-size"], _conversion_limits(settings))


def _conversion_limits(settings: Settings) -> ConversionLimits:
    """Returns the limits of time and size beyond which a capture is not converted after the run."""
    return ConversionLimits(settings["tcpdump-convert-time"], settings["tcpdump-convert-size"])


FILTER = Kind("arguments of tcpdump", "", _read_filter)
