"""Values of netem and of module parameters on real hosts."""

import re
from dataclasses import dataclass

from ccmix.config.addresses import read_device, read_host
from ccmix.config.netem_values import delay, loss
from ccmix.config.problems import quoted
from ccmix.config.values import Kind, units, whole_number
from ccmix.model import Loss, NetemPlace
from ccmix.units import TIME_S

MOST_DELAY_S = 60.0
MOST_SWEPT = 10_000
_BARE = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)", re.ASCII)
_INTEGER = re.compile(r"[+-]?\d{1,18}", re.ASCII)
_PARAMETER = re.compile(r"[A-Za-z0-9_]{1,60}/parameters/[A-Za-z0-9_]{1,40}", re.ASCII)


def _with_unit(text: str, unit: str) -> str:
    return text + unit if _BARE.fullmatch(text) else text


def read_delay(text: str) -> float:
    """Reads a delay in seconds; a bare number is in milliseconds."""
    return delay(_with_unit(text, "ms"), MOST_DELAY_S)


def read_loss(text: str) -> Loss | None:
    """Reads '0.001', '0.001%', '0.001 gemodel' or 'gemodel P [R [1-H [1-K]]]'; a bare number is a percentage.

    Returns None for no loss.
    """
    words = text.split()
    if "gemodel" not in (words[:1] + words[-1:]):
        return loss([_with_unit(word, "%") for word in words], "random")
    words.remove("gemodel")
    return loss([_with_unit(word, "%") for word in words], "gemodel")


def read_place(text: str) -> NetemPlace:
    """Reads 'HOST:DATA_DEVICE[,ACK_DEVICE]'."""
    host, colon, devices = text.rpartition(":")
    names = [name.strip() for name in devices.split(",")]
    if not colon or not 1 <= len(names) <= 2:
        raise ValueError("is no HOST:DATA_DEVICE,ACK_DEVICE: write for instance netem1:eth2,eth3")
    try:
        host = read_host(host)
    except ValueError as error:
        raise ValueError(f"has the host {quoted(host)}, which {error}") from None
    data, ack = [*map(read_device, names), None][:2]
    assert data
    if data == ack:
        raise ValueError("names one device twice: name the one that data leaves by, then the one that ACKs leave by")
    return NetemPlace(host, data, ack)


@dataclass(frozen=True)
class ParameterSweep:
    """Describes a parameter below /sys/module and the values that it, or its element counted from 1, takes."""

    path: str
    element: int | None
    values: tuple[str, ...]

    @property
    def name(self) -> str:
        """The sweep's key in conditions."""
        return self.path.rpartition("/")[2]


def _integer(text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise ValueError(f"has {quoted(text)}, which is no whole number")
    return int(text)


def read_parameter_sweep(text: str) -> ParameterSweep:
    """Reads the three forms of param-sweep.

    These are 'PATH, sys-module-increment,START,END,STEP', 'PATH, sys-module-list,V,V' and
    'PATH, sys-module-vector-list,ELEMENT,V,V'.
    """
    path, *parts = (part.strip() for part in text.split(","))
    kind, rest = (parts[0] if parts else ""), parts[1:]
    if not _PARAMETER.fullmatch(path):
        raise ValueError(
            f"has {quoted(path)}, which is no module parameter: write MODULE/parameters/NAME, such as "
            "tcp_bbr2/parameters/loss_thresh"
        )
    element = None
    if kind == "sys-module-increment":
        if len(rest) != 3:
            raise ValueError("has no START,END,STEP: write for instance sys-module-increment,2,6,1")
        start, end, step = map(_integer, rest)
        if step < 1 or end < start:
            raise ValueError("counts nothing: START is at most END, and STEP at least 1")
        if (end - start) // step >= MOST_SWEPT:
            raise ValueError(f"has more than {MOST_SWEPT} values: make STEP larger")
        values = [str(value) for value in range(start, end + 1, step)]
    elif kind in ("sys-module-list", "sys-module-vector-list"):
        if kind == "sys-module-vector-list":
            element, rest = (whole_number(1, 1000).read(rest[0]) if rest and rest[0].isdecimal() else 0), rest[1:]
            if not element:
                raise ValueError("has no ELEMENT, counted from 1: write for instance sys-module-vector-list,1,128,192")
        values = [str(_integer(part)) for part in rest if part]
    else:
        raise ValueError(
            f"has the unknown kind {quoted(kind)}: use sys-module-increment, sys-module-list or sys-module-vector-list"
        )
    if not values or len(set(values)) < len(values):
        raise ValueError("has no values" if not values else "names a value twice")
    return ParameterSweep(path, element, tuple(values))


DELAY = Kind("time", f"ms where bare; {units(TIME_S)}", read_delay)
NETEM_LOSS = Kind("share, or gemodel", "%, also where bare", read_loss)
PACKETS = whole_number(1, 100_000_000, "packets")
PLACE = Kind("HOST:DATA_DEVICE[,ACK_DEVICE]", "", read_place)
PARAMETER_SWEEP = Kind("parameter and values", "", read_parameter_sweep)
# The sweep reads the values of these one by one
DELAYS = Kind("list of times", DELAY.unit, lambda text: text)
PACKET_COUNTS = Kind("list of whole numbers", PACKETS.unit, lambda text: text)
