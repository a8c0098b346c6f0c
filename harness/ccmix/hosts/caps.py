"""Lists the most that ccmix takes from a host. docs/reference/hosts.md shows this table, and a test compares them.

A host that sends more is disconnected and named, and its run fails. JSON costs most memory: Python makes at most about
27 bytes of each byte of it, of lists that are empty. So a result of 4 MB costs 110 MB.
"""

from dataclasses import dataclass

from ccmix.agent.limits import LONGEST_MESSAGE


@dataclass(frozen=True)
class Cap:
    """Limits something that a host sends; `reason` says why the limit is where it is."""

    what: str
    bytes: int
    reason: str


MESSAGE = Cap(
    "a message of the agent",
    LONGEST_MESSAGE,
    "a part of an output has 66 kB; the command lines of a host's processes are the longest of the others",
)
LOGIN = Cap(
    "what a login prints before the agent's first message",
    100_000,
    "a message of the day has some lines",
)
LOGIN_ERRORS = Cap(
    "the standard error of a connection",
    1_000_000,
    "OpenSSH prints banners and warnings there; ccmix shows the last line",
)
ANSWER = Cap(
    "the output of a command that ccmix reads at once",
    4_000_000,
    "ss prints 700 bytes for a connection, so this is 5,000 connections to one destination",
)
ANSWER_ERRORS = Cap(
    "the standard error of such a command",
    1_000_000,
    "ccmix shows the last three lines",
)
FILE = Cap(
    "a file that ccmix reads at once",
    1_000_000,
    "these are files of /proc, of which /proc/net/softnet_stat has 100 bytes for a processor",
)
OUTPUT = Cap(
    "each output of a command beside or of the traffic, in one run",
    16_000_000,
    "tables that ccmix makes of ccmix-sockmon's take up to 10 bytes of memory for each; long runs may have more",
)
OUTPUT_OF_INTERVAL = Cap(
    "the same, for each interval of the run",
    500_000,
    "ccmix-sockmon writes 300 bytes for a socket, so this is 1,700 sockets",
)
PROCESSORS = Cap(
    "the samples of /proc/stat in one run, where ccmix-sockmon doesn't start",
    4_000_000,
    "the table of processors that ccmix makes of them takes up to 20 bytes of memory for each",
)
PROCESSORS_OF_INTERVAL = Cap(
    "the same, for each interval of the run",
    100_000,
    "/proc/stat has up to 100 bytes for a processor, and 2 for each interrupt",
)
KEPT_OUTPUT = Cap(
    "each output of a command that lasts for an entry",
    1_000_000_000,
    "it goes to a file of the campaign, and nobody knows how many runs it will serve",
)
CAPTURE = Cap(
    "a compressed capture, beyond tcpdump-size",
    1_000_000,
    "zstd makes data that can't be compressed a little longer: less than 1 % of tcpdump-size, and this",
)
RESULT = Cap(
    "a result, as iperf3 and pScheduler print it",
    4_000_000,
    "it is read as a whole, which takes memory; the next row allows more to runs with many streams",
)
RESULT_OF_INTERVAL = Cap(
    "the same, for each stream and interval that the run asks for",
    2_000,
    "iperf3 writes 400 bytes, pScheduler has that of both ends, and its own",
)
REST_ANSWER = Cap(
    "another answer of pScheduler",
    4_000_000,
    "a task and a list of runs have some kB; a result has the cap above",
)
CAPS = (
    MESSAGE, LOGIN, LOGIN_ERRORS, ANSWER, ANSWER_ERRORS, FILE, OUTPUT, OUTPUT_OF_INTERVAL, PROCESSORS,
    PROCESSORS_OF_INTERVAL, KEPT_OUTPUT, CAPTURE, RESULT, RESULT_OF_INTERVAL, REST_ANSWER,
)  # fmt: skip
MOST_SOCKET_SAMPLES = 250_000  # lines of ss in a run; each takes a kilobyte of memory while tables are made
# Of a command that says neither
UNKNOWN_STREAMS = 16
UNKNOWN_S = 3600.0


def output_bytes(seconds: float | None, interval_s: float) -> int:
    """Returns the most that each output of a run of this length may have; None is a length that is not known."""
    return OUTPUT.bytes + _intervals(seconds, interval_s) * OUTPUT_OF_INTERVAL.bytes


def processors_bytes(seconds: float | None, interval_s: float) -> int:
    """Returns the most that the samples of /proc/stat may have in such a run."""
    return PROCESSORS.bytes + _intervals(seconds, interval_s) * PROCESSORS_OF_INTERVAL.bytes


def _intervals(seconds: float | None, interval_s: float) -> int:
    return int(_known(seconds, UNKNOWN_S) / interval_s)


def result_bytes(streams: int | None, seconds: float | None, interval_s: float) -> int:
    """Returns the most that a result of such a run may have; None is what is not known."""
    intervals = int(_known(streams, UNKNOWN_STREAMS) * _known(seconds, UNKNOWN_S) / interval_s)
    return RESULT.bytes + intervals * RESULT_OF_INTERVAL.bytes


def _known(value: float | None, otherwise: float) -> float:
    return otherwise if value is None else value


def capture_bytes(tcpdump_bytes: int) -> int:
    """Returns the most that a compressed capture of so many bytes may have."""
    return tcpdump_bytes + tcpdump_bytes // 100 + CAPTURE.bytes
