"""Describes a path between real hosts: an INI entry with src and dst, for one destination."""

from dataclasses import dataclass
from typing import Literal

from ccmix.model.netem import Netem, NetemPlace


@dataclass(frozen=True)
class Destination:
    """Names the destination of traffic.

    - name: in folder names and tables; its alias, or its address
    - address: where the traffic goes, also in place of {dst} in commands
    - host: where its commands run: 'localhost', 'netns:NAME', or '[USER@]HOST' for ssh(1)
    """

    name: str
    address: str
    host: str
    profile: str | None = None
    metadata: tuple[tuple[str, str], ...] = ()  # the further columns of the CSV file


@dataclass(frozen=True)
class Commands:
    """Holds the user's shell lines that run in addition to the traffic, with {dst} replaced; None
    if unset. `dst_once` says that the command `dst` runs on for all runs of the entry.
    """

    pre: str | None = None
    post: str | None = None
    pre_src: str | None = None
    post_src: str | None = None
    pre_dst: str | None = None
    post_dst: str | None = None
    dst: str | None = None
    dst_once: bool = False


@dataclass(frozen=True)
class ModuleParameter:
    """Names a parameter below /sys/module, such as 'tcp_bbr2/parameters/loss_thresh', and its value
    for a run.

    If the parameter is a vector, `element`, counted from 1, is the only element that gets the
    value. None: the whole parameter gets it.
    """

    path: str
    value: str
    element: int | None = None

    def __str__(self) -> str:
        """Returns 'tcp_bbr2/parameters/pacing_gain, element 1, = 320', for people."""
        element = f", element {self.element}," if self.element else ""
        return f"{self.path}{element} = {self.value}"

    @property
    def module(self) -> str:
        """The kernel module: 'tcp_bbr2'."""
        return self.path.partition("/")[0]

    @property
    def name(self) -> str:
        """The name of the parameter in its module: 'loss_thresh'."""
        return self.path.rpartition("/")[2]

    def seen_in(self, text: str) -> str | None:
        """Returns the part of a parameter's text that is to be compared with `value`: the whole
        text, or one element of '320,240,256'. Returns None if the text does not have this element.
        """
        if self.element is None:
            return text
        elements = text.split(",")
        return elements[self.element - 1] if self.element <= len(elements) else None

    def written(self, former: str) -> str:
        """Returns the text to write to the parameter: `value`, or the present text (`former`) with
        one element replaced by `value`. Raises ValueError if it does not have this element.
        """
        if self.element is None:
            return self.value
        elements = former.split(",")
        if self.element > len(elements):
            raise ValueError(f"has {len(elements)} elements, not {self.element}")
        elements[self.element - 1] = self.value
        return ",".join(elements)


@dataclass(frozen=True)
class ConversionLimits:
    """Limits the conversion of a capture into tables: when ccmix ends it, the tables have the
    packets that were read until then.
    """

    within_s: float = 600.0
    most_bytes: int = 500_000_000  # of the text from which packets.parquet is made


@dataclass(frozen=True)
class Capture:
    """Describes a tcpdump, on the source between hosts, in the delay router on an emulated path.

    `arguments` are its options and its filter, those of tcpdump-filt with {dst} replaced; on an
    emulated path ccmix adds the devices to the filter. It ends at `most_bytes` of capture.
    """

    arguments: tuple[str, ...]
    most_bytes: int
    conversion: ConversionLimits = ConversionLimits()


@dataclass(frozen=True)
class HostPath:
    """Describes everything of a run between hosts except its condition's name and its traffic."""

    src: str  # where src's commands run: 'localhost', 'netns:NAME' or '[USER@]HOST'
    dst: Destination
    label: str  # the entry's type, as written
    commands: Commands = Commands()
    server: Literal["ssh", "running"] = (
        "ssh"  # of ccmix's own iperf3: started on dst.host, or somebody else's server
    )
    port: int = 5201  # of ccmix's own iperf3
    nic: str | None = None  # the sending device; None: the device of the route to dst
    netem: Netem | None = None
    netem_at: NetemPlace | None = None
    profile: Netem | None = None  # on profile_device of src
    profile_device: str | None = None
    module_parameter: ModuleParameter | None = None
    cca_load: tuple[
        str, ...
    ] = ()  # CCAs that are loaded on src as BPF programs for the run, unless src has them
    capture: Capture | None = None
    mpstat_cores: str | None = None  # in the form of mpstat -P
    timeout_s: float | None = (
        None  # of the generator; None: the length of the traffic plus a minute
    )
    connect_timeout_s: float = 20.0  # until a host's agent answers
    retries: int = 0
    pause_s: float = 0.0  # before each run but the first, and before each retry
    rate_budget: tuple[float, float] | None = None  # bytes, in seconds
    cap_bytes: int | None = (
        None  # the rest of the budget when the run began, if it may send more; none in a plan
    )
    time_window: tuple[float, float] | None = (
        None  # seconds after midnight UTC; the end may be before the start
    )
    kind: Literal["hosts"] = "hosts"
