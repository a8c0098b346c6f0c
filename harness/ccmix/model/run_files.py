"""Names the files in a run's folder, for the guest that writes them and all readers of archives.

It imports nothing, so that all can share it. Files are in the run's folder itself, unless a comment
says that they are in `generators` or `logs`.
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
    """Returns the name of the file with the JSON of iperf3's client; `label` names the traffic
    source: 'h1'.
    """
    return f"{label}-iperf3-client.json"


def iperf3_server(label: str) -> str:
    """Returns the name of the file with the JSON of iperf3's server; `label` names the traffic
    source.
    """
    return f"{label}-iperf3-server.json"


def iperf3_pid(label: str) -> str:
    """Returns the name of the file that has the process number of iperf3's client while it runs."""
    return f"{label}-iperf3.pid"


def trains(label: str) -> str:
    """Returns the name of the file in which ccmix-rtt writes the packet trains of a step; `label`
    names the step.
    """
    return f"{label}.csv"


def trains_errors(label: str) -> str:
    """Returns the name of the file with ccmix-rtt's standard error for the packet trains of
    a step.
    """
    return f"{label}.log"


def iperf3_errors(label: str) -> str:
    """Returns the name of the file with the standard error of iperf3's client and server."""
    return f"{label}-iperf3-errors.log"


def http(label: str) -> str:
    """Returns the prefix of the file names of an HTTP source: 'web.h1-http'."""
    return f"{label}-http"


def workload(label: str) -> str:
    """Returns the prefix of the file names of a workload: 'mice.h1-workload'."""
    return f"{label}-workload"


def client_output(service: str, number: int = 0) -> str:
    """Returns the name of the file in which a client of an http source or a workload lists its
    flows.

    `service`: the prefix that http() or workload() returns; `number`: of the client, from 0
    """
    return f"{service}-client-{number + 1}.txt"


def client_errors(service: str) -> str:
    """Returns the name of the file with the standard error of all clients of an HTTP source or
    workload.
    """
    return f"{service}-client.log"


def server_output(service: str) -> str:
    """Returns the name of the file in which the server of an HTTP source or workload lists its
    flows.
    """
    return f"{service}-server.txt"


def server_errors(service: str) -> str:
    """Returns the name of the file with the standard error of an HTTP source's or workload's
    server.
    """
    return f"{service}-server.log"


def schedule(service: str) -> str:
    """Returns the name of the file that lists the flows of a workload (times and sizes) before they
    are sent.
    """
    return f"{service}-schedule.txt"


def command_output(label: str) -> str:
    """Returns the name of the file with the standard output of a user's command on an emulated
    path.
    """
    return f"{label}-command.out"


def command_errors(label: str) -> str:
    """Returns the name of the file with the standard error of a user's command on an
    emulated path.
    """
    return f"{label}-command.err"
