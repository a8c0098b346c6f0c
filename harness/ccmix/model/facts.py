"""Facts about a run's hosts, tools and probes, which one needs to repeat or compare it."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class HostFacts:
    """Describes one real host that ccmix examined."""

    name: str  # as the entry names it, 'localhost' or '[USER@]HOST'
    kernel: str  # release
    hostname: str
    cpus: int  # processors that a process may use, nproc(1)
    congestion_control: str  # the system's default CCA


@dataclass(frozen=True)
class ProbeReport:
    """Reports how a probe worked. The counts are None if it ended early."""

    samples: int | None
    missed: int | None  # deadlines that had passed before the sample was taken
    failed: str | None = None  # the reason; None if the probe worked to its end
    longest_delay_s: float | None = (
        None  # largest lateness of a sample; None if the probe does not measure it
    )


@dataclass(frozen=True)
class CaptureFacts:
    """Holds tcpdump's own counts. `complete` is false if the capture ended at its size limit."""

    packets: dict[
        str, int
    ]  # by their fate: 'captured', 'received by filter', 'dropped by kernel', ...
    complete: bool
    bytes: int  # compressed
    shortened: tuple[
        str, ...
    ] = ()  # why packets.parquet and connections.parquet lack a part of it, in sentences


@dataclass(frozen=True)
class Command:
    """A command that was run, as a line for the shell, and its purpose: 'h1 client', or '' if there
    is only one kind.
    """

    role: str
    line: str


@dataclass(frozen=True)
class PschedulerClock:
    """Describes the clock of a pScheduler host; `error` says why it is not known."""

    time: str | None = None  # ISO 8601, as pScheduler reports it
    synchronized: bool | None = None
    source: str | None = None  # such as 'ntp'
    reference: str | None = None
    offset_s: float | None = None  # from the reference, as pScheduler reports it
    ahead_s: float | None = None  # of the clock of this machine
    within_s: float | None = None  # duration of the question; `ahead_s` is exact to half of it
    error: str | None = None


@dataclass(frozen=True)
class PschedulerFacts:
    """Identifies the run that pScheduler made."""

    lead: str  # HOST[:PORT]
    task: str  # the document that was posted, as JSON
    clocks: dict[str, PschedulerClock]  # by participant
    href: str | None = None  # of the run
    start_time: str | None = None  # ISO 8601
    end_time: str | None = None
    participants: tuple[str | None, ...] = ()
    priority: int | None = None


@dataclass(frozen=True)
class ImportFacts:
    """Says where an imported run comes from, and what its source does not report."""

    kind: str  # a key of importing.sources.KINDS
    source: str  # file, and line or number within it
    missing: tuple[str, ...]  # sentences: facts of a measured run that this one lacks
    estimated: tuple[str, ...]  # metrics that replace others
    base_rtt_s: float | None = None
    rate_bps: float | None = None  # of the path, as the user gave it
    details: tuple[tuple[str, str], ...] = ()  # further names and values of the source, for people


@dataclass(frozen=True)
class LabKernel:
    """Identifies the kernel that a guest of the lab was started with, by its file."""

    name: str  # as topologies have it
    sha256: str
    release: str  # as the file itself prints it


@dataclass(frozen=True)
class GuestRoot:
    """Describes the root of a guest of the lab, which has the guest's Python, C library and
    tools.
    """

    userland_sha256: str | None  # of the whole userland of the lab; None: the host's file system
    # False with the host's file system or unpinned packages, which differ between machines
    repeatable_elsewhere: bool


@dataclass(frozen=True)
class BpfCca:
    """Identifies a CCA that a host's kernel runs as a BPF program."""

    program: str  # hash of the loaded program
    parameters: dict[str, str]


@dataclass(frozen=True)
class Facts:
    """Holds the facts of a run. A field is None if nothing could report it."""

    kernel: str  # release of the sender's kernel, or 'unknown'
    kernel_version: str | None = None
    iperf3: str = ""  # version of the traffic's tool; '' if unknown
    sysctls: dict[str, str] | None = None  # of the sender, by name
    commands: tuple[Command, ...] = ()
    generator: str | None = (
        None  # of a run between hosts or an imported one; None: iperf3 on an emulated path
    )
    hosts: dict[str, HostFacts] | None = (
        None  # by role, 'src' and 'dst'; empty: none was examined; None: emulated
    )
    device: str | None = None  # the sending device of a run between hosts
    capture: CaptureFacts | None = None
    probes: dict[str, ProbeReport] = field(default_factory=dict)  # by name
    pscheduler: PschedulerFacts | None = None
    offloads: dict[str, bool] | None = None  # by 'HOST FEATURE': whether it is on
    imported: ImportFacts | None = None
    # Of each sender's device by the sender's name, 'src' between hosts: its queues, kinds and
    # options, as tc reports
    sender_qdiscs: dict[str, str] | None = None
    lab_kernel: LabKernel | None = None  # None: not in the lab, or a run of an older ccmix
    guest_root: GuestRoot | None = None  # None: not in the lab, or a run of an older ccmix
    lab_programs: dict[str, str] | None = (
        None  # SHA-256 of ccmix's programs in a guest, by name; None as above
    )
    # CCAs that the sender between hosts had as BPF programs after the traffic; None: none, or it
    # did not say
    bpf_ccas: dict[str, BpfCca] | None = None

    @property
    def hosts_unseen(self) -> bool:
        """Whether ccmix has no shell on either host of a run between hosts, so that no probe could
        run there.
        """
        return self.hosts == {}
