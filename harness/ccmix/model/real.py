"""A path between real hosts: what an entry with src and dst says, for one destination and one condition."""

from dataclasses import dataclass

from ccmix.model.netem import Netem, NetemPlace


@dataclass(frozen=True)
class Destination:
    """`name` (its alias, or its address) is in folder names and tables, `address` is where traffic goes and {dst},
    `host` is where its commands run: 'localhost', 'netns:NAME', or a name for ssh(1), '[USER@]HOST'.
    """

    name: str
    address: str
    host: str
    profile: str | None = None
    metadata: tuple[tuple[str, str], ...] = ()  # the further columns of the CSV file


@dataclass(frozen=True)
class Commands:
    """The user's own shell lines, {dst} replaced; None where unset. `once`: kept for all runs of the entry."""

    pre: str | None = None
    post: str | None = None
    pre_src: str | None = None
    post_src: str | None = None
    pre_dst: str | None = None
    post_dst: str | None = None
    src: str | None = None
    dst: str | None = None
    src_once: bool = False
    dst_once: bool = False


@dataclass(frozen=True)
class ModuleParameter:
    """A parameter below /sys/module, such as 'tcp_bbr2/parameters/loss_thresh', and its value for a run.

    `element` counts from 1: only this element of a vector gets the value, the others keep theirs; None: all of it.
    """

    path: str
    value: str
    element: int | None = None


@dataclass(frozen=True)
class Capture:
    """A tcpdump on the source: `arguments` as in tcpdump-filt, {dst} replaced; it ends at `most_bytes` of capture."""

    arguments: tuple[str, ...]
    most_bytes: int


@dataclass(frozen=True)
class PschedulerTask:
    """How pScheduler is asked for a run's traffic; hosts are named as pScheduler knows them."""

    lead: str  # 'HOST[:PORT]', to which the task is posted
    source: str | None  # None: the lead
    observed: bool  # whether ccmix has a shell on the source, HostPath.src
    tool: str | None  # None: pScheduler's choice
    slip_s: float  # by how much the start may be later than asked for
    wait_s: float  # most time until the run begins
    priority: int | None = None
    repeat_s: float | None = None  # the task's runs are the iterations; None: a task for each
    most_runs: int = 1  # of a repeated task
    tls_ca: str | None = None  # PEM file of what is trusted; None: what this machine trusts
    spec: tuple[tuple[str, str], ...] = ()  # further fields of the test, with values in JSON


@dataclass(frozen=True)
class HostPath:
    """Everything of a run that is neither its condition's name nor its traffic."""

    src: str  # where src's commands run: 'localhost', 'netns:NAME' or '[USER@]HOST'
    dst: Destination
    label: str  # the entry's type, as written
    commands: Commands = Commands()
    server: str = "ssh"  # of ccmix's own iperf3: 'ssh', started on dst.host; 'running', somebody's, never touched
    port: int = 5201  # of ccmix's own iperf3
    nic: str | None = None  # the sending device; None: the one that the route to dst takes
    netem: Netem | None = None
    netem_at: NetemPlace | None = None
    profile: Netem | None = None  # on profile_device of src
    profile_device: str | None = None
    module_parameter: ModuleParameter | None = None
    capture: Capture | None = None
    mpstat_cores: str | None = None  # as mpstat -P takes them
    timeout_s: float | None = None  # of the generator; None: what the traffic takes, and a minute
    retries: int = 0
    pause_s: float = 0.0  # before each run but the first, and before each retry
    rate_budget: tuple[float, float] | None = None  # bytes, in seconds
    time_window: tuple[float, float] | None = None  # seconds after midnight UTC; the end may be before the start
    task: PschedulerTask | None = None  # pScheduler makes the traffic

    @property
    def has_shell(self) -> bool:
        """Whether anything of a run is done on the source's host."""
        return self.task is None or self.task.observed

    @property
    def needs_dst_host(self) -> bool:
        """Whether anything of a run is done on the destination's host."""
        ours = not self.commands.src and not self.task and self.server == "ssh"
        return ours or any((self.commands.dst, self.commands.pre_dst, self.commands.post_dst))
