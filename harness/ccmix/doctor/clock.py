"""Checks whether the host's clock is kept right. It asks the kernel, so any daemon will do (adjtimex(2))."""

from collections.abc import Iterator

from ccmix import foreign_json
from ccmix.doctor.findings import DoctorFinding, Status, line
from ccmix.doctor.reading import ask
from ccmix.hosts import Host
from ccmix.isolated import python_command

STA_UNSYNC = 0x40  # include/uapi/linux/timex.h
MOST_ERROR_S = 0.1
# The beginning of struct timex, with room after it; modes 0 only reads, which anybody may
_READ = """
import ctypes, json
class Timex(ctypes.Structure):
    _fields_ = [("modes", ctypes.c_uint)]
    _fields_ += [(name, ctypes.c_long) for name in ("offset", "freq", "maxerror", "esterror")]
    _fields_ += [("status", ctypes.c_int), ("room", ctypes.c_char * 512)]
timex = Timex()
state = ctypes.CDLL(None).adjtimex(ctypes.byref(timex))
print(json.dumps({"state": state, "status": timex.status, "maxerror_us": timex.maxerror}))
"""


def read_clock(host: Host) -> str:
    """Reads the state of the kernel's clock, as JSON. Raises CommandError."""
    return ask(host, python_command(_READ))


def judge_clock(output: str) -> Iterator[DoctorFinding]:
    """Judges what read_clock() returned. Raises ValueError."""
    try:
        timex = foreign_json.loads(output)
        state, status, error_us = (timex[name] for name in ("state", "status", "maxerror_us"))
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError("the kernel's clock can't be read") from error
    if not all(isinstance(value, int) for value in (state, status, error_us)) or state < 0 or error_us < 0:
        raise ValueError("the kernel refuses to report on its clock")
    why = "Times of two hosts can be compared only if both clocks are kept right."
    if status & STA_UNSYNC:
        yield DoctorFinding(
            "clock", Status.WARN, "nothing synchronises it", why,
            (line("apt-get", "install", "-y", "chrony"),),
            (line("systemctl", "enable", "--now", "chronyd"), line("timedatectl", "set-ntp", "true")),
        )  # fmt: skip
    elif error_us / 1e6 > MOST_ERROR_S:
        yield DoctorFinding("clock", Status.WARN, f"synchronised, wrong by up to {error_us / 1e6:.3g} s", why,
                      instead=(line("chronyc", "makestep"),))  # fmt: skip
    else:
        yield DoctorFinding("clock", Status.OK, f"synchronised, wrong by {error_us / 1e3:.3g} ms at most")
