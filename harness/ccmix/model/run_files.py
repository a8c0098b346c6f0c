"""Names the files of a run's folder. Imports nothing, so that the guest and every reader of an
archive can share it.

Files are in the run's folder itself, unless a comment says that they are in `generators` or `logs`.
"""

SUMMARY = "run.json"
FACTS = "facts.json"  # the results of measuring, until run.json is written from them
GENERATORS = "generators"
LOGS = "logs"
CAPTURE = "capture.pcap.zst"

# Series
STEPS_SERIES = "steps.parquet"  # of an entry of type path
RTT = "rtt.parquet"
INTERVALS = "intervals.parquet"  # missing if neither the generator nor the sockets had any
SOCKETS = "sockets.parquet"
COMPLETIONS = "completions.parquet"
PACKETS = "packets.parquet"
CONNECTIONS = "connections.parquet"
COUNTERS = "counters.parquet"
CPU = "cpu.parquet"
PROCESSES = "processes.parquet"

# Files that a guest reads and writes
JOB = "logs/job.pickle"
ERROR = "logs/error.txt"

# In logs/
RUN_LOG = "run.log"
GUEST_LOG = "guest.log"
SOCKMON_STREAM = "run.sockmon"  # samples of the sockets
SOCKMON_DESTINATION_STREAM = "dst.sockmon"
RTT_SAMPLES = "rtt.csv"
RTT_ERRORS = "rtt.log"
TCPDUMP_OUTPUT = "tcpdump.out"
TCPDUMP_ERRORS = "tcpdump.log"
SRC_COMMAND_ERRORS = "src-cmd.err"

# In generators/
PSCHEDULER = "pscheduler.json"
STEPS = "steps.json"  # as STEPS_SERIES
SRC_COMMAND_OUTPUT = "src-cmd.out"


def iperf3_client(label: str) -> str:
    """Returns the name of the client's JSON; `label` names the traffic source."""
    return f"{label}-iperf3-client.json"


def iperf3_server(label: str) -> str:
    """Returns the name of the server's JSON."""
    return f"{label}-iperf3-server.json"


def iperf3_pid(label: str) -> str:
    """Returns the name of the file that has the client's process number while it runs."""
    return f"{label}-iperf3.pid"


def trains(label: str) -> str:
    """Returns the name of the file in which ccmix-rtt describes the trains of packets of a step."""
    return f"{label}.csv"


def trains_errors(label: str) -> str:
    """Returns the name of its errors."""
    return f"{label}.log"


def iperf3_errors(label: str) -> str:
    """Returns the name of the file with the standard error of both ends."""
    return f"{label}-iperf3-errors.log"


def http(label: str) -> str:
    """Returns the prefix of the names of an HTTP source's files."""
    return f"{label}-http"


def workload(label: str) -> str:
    """Returns the prefix of the names of a workload's files."""
    return f"{label}-workload"


def client_output(service: str, number: int = 0) -> str:
    """Returns the name of the file in which a client, counted from 0, describes its flows;
    `service` is http() or workload().
    """
    return f"{service}-client-{number + 1}.txt"


def client_errors(service: str) -> str:
    """Returns the name of the file with the standard error of clients."""
    return f"{service}-client.log"


def server_output(service: str) -> str:
    """Returns the name of the file in which the server describes its flows."""
    return f"{service}-server.txt"


def server_errors(service: str) -> str:
    """Returns the name of the file with the server's standard error."""
    return f"{service}-server.log"


def schedule(service: str) -> str:
    """Returns the name of the file that lists the flows of a workload."""
    return f"{service}-schedule.txt"


def command_output(label: str) -> str:
    """Returns the name of the standard output of a user's command on an emulated path."""
    return f"{label}-command.out"


def command_errors(label: str) -> str:
    """Returns the name of its standard error."""
    return f"{label}-command.err"
