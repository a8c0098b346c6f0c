"""Lists how much data ccmix accepts from a host, so that no host can fill its memory or disk.

docs/reference/hosts.md shows this table, and a test compares them.

A host that sends more is disconnected and named, and its run fails. JSON needs most memory: Python
makes at most about 27 bytes from each byte of it, from empty lists. So a result of 4 MB needs 110
MB.
"""

from dataclasses import dataclass

from ccmix.agent.messages import LONGEST_MESSAGE


@dataclass(frozen=True)
class Cap:
    """Limits the size of one kind of data from a host. `what` names the data in messages and in the
    documentation, `reason` explains the limit.
    """

    what: str
    bytes: int
    reason: str


MESSAGE = Cap(
    "a message of the agent",
    LONGEST_MESSAGE,
    "a part of a command's output has up to 66 kB; the longest other message is the list of a "
    "host's processes with their command lines",
)
LOGIN = Cap(
    "the output of a login before the agent's first message",
    100_000,
    "a login prints at most some lines, such as a message of the day",
)
LOGIN_ERRORS = Cap(
    "the standard error of a connection",
    1_000_000,
    "OpenSSH prints banners and warnings to it; ccmix shows the last line",
)
ANSWER = Cap(
    "the output of a command that ccmix reads at once",
    4_000_000,
    "ss prints 700 bytes per connection, so the limit allows 5,000 connections to one destination",
)
ANSWER_ERRORS = Cap(
    "the standard error of such a command",
    1_000_000,
    "ccmix shows only the last three lines",
)
FILE = Cap(
    "a file that ccmix reads at once",
    1_000_000,
    "these are files of /proc; /proc/net/softnet_stat, for example, has 100 bytes per processor",
)
OUTPUT = Cap(
    "each output of a traffic source or of another command, in one run",
    16_000_000,
    "the tables that ccmix makes of ccmix-sockmon's output take up to 10 times the size of this "
    "output; the next row allows more for long runs",
)
OUTPUT_OF_INTERVAL = Cap(
    "in addition to the row above, for each interval of the run",
    500_000,
    "ccmix-sockmon writes 300 bytes per socket, so the limit allows 1,700 sockets",
)
PROCESSORS = Cap(
    "the samples of /proc/stat in one run, if ccmix-sockmon doesn't start",
    4_000_000,
    "the table of processors that ccmix makes of these samples takes up to 20 times their size",
)
PROCESSORS_OF_INTERVAL = Cap(
    "in addition to the row above, for each interval of the run",
    100_000,
    "/proc/stat has up to 100 bytes per processor, and 2 bytes per interrupt",
)
KEPT_OUTPUT = Cap(
    "each output of a command that lasts for an entry",
    1_000_000_000,
    "ccmix writes the output to a file of the campaign, and does not know in advance how many runs "
    "the command serves",
)
CAPTURE = Cap(
    "a compressed capture, beyond tcpdump-size",
    1_000_000,
    "zstd makes data that can't be compressed a little longer, so ccmix accepts tcpdump-size + 1 % "
    "+ 1 MB",
)
RESULT = Cap(
    "a result of iperf3 or pScheduler",
    4_000_000,
    "ccmix reads the whole result into memory; the next row allows more for runs with many streams",
)
RESULT_OF_INTERVAL = Cap(
    "in addition to the row above, for each stream and interval of the run",
    2_000,
    "iperf3 writes 400 bytes; pScheduler repeats these bytes for both ends, and adds its own "
    "result",
)
REST_ANSWER = Cap(
    "another answer of pScheduler",
    4_000_000,
    "a task or a list of runs has some kB; results have the limit above",
)
CAPS = (
    MESSAGE,
    LOGIN,
    LOGIN_ERRORS,
    ANSWER,
    ANSWER_ERRORS,
    FILE,
    OUTPUT,
    OUTPUT_OF_INTERVAL,
    PROCESSORS,
    PROCESSORS_OF_INTERVAL,
    KEPT_OUTPUT,
    CAPTURE,
    RESULT,
    RESULT_OF_INTERVAL,
    REST_ANSWER,
)
MOST_SOCKET_SAMPLES = (
    250_000  # lines of ss in a run; each takes a kilobyte of memory while tables are made
)
# Of a command that says neither
UNKNOWN_STREAMS = 16
UNKNOWN_S = 3600.0


def output_bytes(seconds: float | None, interval_s: float) -> int:
    """Returns the maximum size of what one command, such as ccmix-sockmon, may print in a run: a
    fixed part, and a part for each reporting interval of `interval_s`.

    `seconds` is the run's duration; None means unknown, for which it takes UNKNOWN_S.
    """
    return OUTPUT.bytes + _intervals(seconds, interval_s) * OUTPUT_OF_INTERVAL.bytes


def processors_bytes(seconds: float | None, interval_s: float) -> int:
    """Returns the maximum size of a run's samples of /proc/stat: a fixed part, and a part for each
    reporting interval of `interval_s`.

    `seconds` is the run's duration; None means unknown, for which it takes UNKNOWN_S.
    """
    return PROCESSORS.bytes + _intervals(seconds, interval_s) * PROCESSORS_OF_INTERVAL.bytes


def _intervals(seconds: float | None, interval_s: float) -> int:
    """Returns the number of reporting intervals in a run of `seconds`; None means unknown."""
    return int(_value_or(seconds, UNKNOWN_S) / interval_s)


def result_bytes(streams: int | None, seconds: float | None, interval_s: float) -> int:
    """Returns the maximum size of the JSON result of iperf3 or pScheduler: a fixed part, and a part
    for each stream and reporting interval. None is an unknown number of streams or duration.
    """
    intervals = int(
        _value_or(streams, UNKNOWN_STREAMS) * _value_or(seconds, UNKNOWN_S) / interval_s
    )
    return RESULT.bytes + intervals * RESULT_OF_INTERVAL.bytes


def _value_or(value: float | None, default: float) -> float:
    return default if value is None else value


def capture_bytes(tcpdump_bytes: int) -> int:
    """Returns the maximum size of a compressed capture whose packets have `tcpdump_bytes`."""
    return tcpdump_bytes + tcpdump_bytes // 100 + CAPTURE.bytes
