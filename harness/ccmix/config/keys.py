"""The table of every key of an INI file: what it looks like, what it means, an example and its default."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ccmix.config.addresses import ADDRESS, ALIAS, HOST, USER
from ccmix.config.capture import FILTER
from ccmix.config.emulation import (
    DELAY,
    DELAYS,
    NETEM_LOSS,
    PACKET_COUNTS,
    PACKETS,
    PARAMETER_SWEEP,
    PLACE,
)
from ccmix.config.flows import LINE, read_name
from ccmix.config.groups import GROUPS, LOADED
from ccmix.config.policers import POLICER
from ccmix.config.pscheduler import JSON, SERVER, TOOL, read_field
from ccmix.config.queues import QUEUE, SENDER_QUEUE
from ccmix.config.senders import (
    CHANGES,
    MOST_HOSTS,
    PATH_DELAY,
    PATH_LOSS,
    PATH_RATE,
    PATH_RTT,
    SENDER,
    SHARE,
    WINDOW_BYTES,
    read_host_names,
    read_moment,
)
from ccmix.config.values import (
    BUDGET,
    BUFFER,
    BYTES,
    CORES,
    DURATION,
    ELASTICSEARCH,
    FILE,
    KERNEL,
    KEY_NAMES,
    LIMIT_NAMES,
    PACING,
    POSITIVE_TIME,
    RATE,
    RTT_PROBE,
    SHELL,
    SHELL_ONE_LINE,
    SOURCE_COMMAND,
    STORED,
    SWITCH,
    TEXT,
    TEXT_OR_OFF,
    TIME,
    WINDOW,
    Kind,
    choice,
    whole_number,
)

PATH_TYPE = "path"
GENERATORS = ("iperf3", PATH_TYPE)
REPEAT_ORDERS = ("in-order", "shuffled")


@dataclass(frozen=True)
class Key:
    """Describes a key. Without a value, its `default` holds; where that is None too, the key is unset, or `required`.

    `required` ones may be left out where one of the keys `unless`, or a key of such a family, is given.
    A family, such as host.NAME, stands for all keys that begin with the part before the dot; `member` reads the rest.
    `obsolete` says why the key, which the original harness had, has no effect any more.
    """

    name: str
    kind: Kind
    meaning: str
    example: str
    default: str | None = None
    required: bool = False
    sweepable: bool = True
    obsolete: str | None = None
    unless: tuple[str, ...] = ()
    member: Callable[[str], Any] | None = None

    @functools.cached_property
    def default_value(self) -> Any:
        """The value of the key's default."""
        assert self.default is not None
        return self.read(self.default)

    @property
    def read(self) -> Callable[[str], Any]:
        """Raises ValueError with a sentence that says what would be right."""
        return self.kind.read


@dataclass(frozen=True)
class Member:
    """Holds the setting of a member of a family: what the part of its name after the dot says, and its value."""

    name: Any
    value: Any


class KeyTable(dict[str, Key]):
    """Keys by name. Members of a family are found under their own names; only the family itself is listed."""

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or (isinstance(name, str) and self._family(name) is not None)

    def __missing__(self, name: str) -> Key:
        family = self._family(name)
        if family is None:
            raise KeyError(name)
        return family

    def _family(self, name: str) -> Key | None:
        prefix, dot, _ = name.partition(".")
        return next((key for key in self.values() if dot and key.member and key.name.startswith(prefix + dot)), None)


def _table(*keys: Key) -> KeyTable:
    return KeyTable({key.name: key for key in keys})


TOPOLOGY_KEYS = _table(
    Key("rate", PATH_RATE, "rate of the bottleneck; counts the Ethernet header, as tbf does", "1gbit", required=True),
    Key(
        "delay",
        PATH_DELAY,
        "delay in each direction, the base RTT is twice that; or give `rtt`, or `data-delay` and `ack-delay`",
        "44ms",
        required=True,
        unless=("rtt", "data-delay", "ack-delay", "host.NAME"),
    ),
    Key("rtt", PATH_RTT, "base RTT, half of it in each direction; instead of `delay`", "60ms"),
    Key("data-delay", PATH_DELAY, "delay of data; beside `ack-delay`, instead of `delay`", "60ms"),
    Key("ack-delay", PATH_DELAY, "delay of ACKs; the base RTT is the sum of both", "5ms"),
    Key(
        "loss",
        PATH_LOSS,
        "loss per packet, in the data direction only: random, or gemodel P [R [1-H [1-K]]]",
        "0.1%",
        "0%",
    ),
    Key(
        "jitter",
        PATH_DELAY,
        "the delay of each packet lies within this of `delay`, both directions; packets overtake",
        "1ms",
        "0s",
    ),
    Key("reorder", SHARE, "share of data packets that are not delayed, and so overtake others", "0.1%", "0%"),
    Key("buffer", BUFFER, "buffer of the bottleneck; packets are of the MTU's size", "100kb", "1bdp"),
    Key(
        "qdisc",
        QUEUE,
        "queue discipline of the bottleneck, then its parameters as in tc; its limit is `buffer`",
        "codel ecn ce_threshold 24.2ms",
        "bfifo",
    ),
    Key(
        "sender-qdisc",
        SENDER_QUEUE,
        "queue discipline of each sender's device, then its parameters as in tc",
        "fq_codel limit 1000",
        "fq",
    ),
    Key(
        "receiver-window",
        WINDOW_BYTES,
        "largest window that receivers advertise; unset: as much as hosts have, up to 512 MB of buffer",
        "4mb",
    ),
    Key("shaper", choice("tbf", "htb"), "what limits the rate", "htb", "tbf"),
    Key("burst", BYTES, "bucket of the shaper, which passes at once after a pause; unset: two packets", "64kib"),
    Key(
        "policer",
        POLICER,
        "drops data beyond this rate and burst before the bottleneck, and queues none; without burst: 5 ms of `rate`",
        "500mbit burst 1mb",
        "none",
    ),
    Key("ack-rate", PATH_RATE, "rate of a second bottleneck, which ACKs alone pass; unset: there is none", "10mbit"),
    Key(
        "ack-buffer",
        BUFFER,
        "buffer of the bottleneck of ACKs, a FIFO; packets are of any size; unset: 1bdp of `ack-rate`",
        "50p",
    ),
    Key(
        "control",
        choice("path", "beside"),
        "where iperf3's control connections go: over the path, or beside it, with its delay alone",
        "beside",
        "path",
    ),
    Key("mtu", whole_number(576, 65535, "bytes"), "MTU of every device", "9000", "1500"),
    Key("offloads", SWITCH, "off: every packet is one packet to netem, as on a wire", "on", "off"),
    Key("ecn", SWITCH, "on: all hosts negotiate ECN (tcp_ecn = 1)", "on", "off"),
    Key(
        "spread",
        SWITCH,
        "on: the seed of each run draws the starts of its streams, within a base RTT, and a delay of microseconds",
        "off",
        "on",
    ),
    Key(
        "kernel",
        KERNEL,
        "kernel of the lab's guest: stock, or a NAME of lab/build --name; others than stock need --lab",
        "mine",
        "stock",
    ),
    Key(
        "host-root",
        SWITCH,
        "on: the lab's guest has this machine's programs, for commands that need them; not repeatable elsewhere",
        "on",
        "off",
    ),
    Key(
        "hosts",
        whole_number(1, MOST_HOSTS),
        "number of senders, h1, h2, ...; unset: those of host.NAME, else one",
        "100",
    ),
    Key(
        "host.NAME",
        SENDER,
        "a sender, or several (host.h1..h50), and what of its path is its own",
        "delay 5ms loss 1%",
        member=read_host_names,
    ),
    Key("receivers", choice("each", "one"), "whether each sender has a receiver, or all have one", "one", "each"),
    Key(
        "at.TIME",
        CHANGES,
        "changes of the path at this time of the traffic, the omitted time included",
        "rate 500mbit, h2 delay 20ms",
        member=read_moment,
    ),
)

# Keys of both entry types
EVERY_ENTRY = _table(
    Key(
        "type", TEXT, "what makes the traffic: iperf3, perfSONAR, or path, which measures the path by steps; beside "
        "src-cmd any text, a label", "iperf3", required=True, sweepable=False,
    ),
    Key("enabled", SWITCH, "off leaves the entry out", "off", "on", sweepable=False),
    Key(
        "cca", GROUPS, "one CCA, or groups CCA[:WEIGHT][@RATE][+DELAY] given to the streams in turn",
        "cubic:8,bbr:8", "cubic",
    ),
    Key("streams", whole_number(1, 128), "parallel TCP flows of the test", "8", "1"),
    Key("pacing", PACING, "rate that fq on the sending device paces each flow to at most", "2.4gbit", "none"),
    Key(
        "duration", DURATION, "measured time of a run, in whole seconds; with settled the run ends once it has "
        "settled; beside src-cmd the time that it takes; unset there, ccmix reads it from the command", "60s", "10s",
    ),
    Key("omit", TIME, "time before that, which is left out, in whole seconds", "3s", "0s"),
    Key(
        "interval", POSITIVE_TIME, "time between two samples of sockets, queues and goodput, 1ms to 60s; below 10ms "
        "goodput is what the sockets count", "1s", "500ms",
    ),
    Key("rtt-probe", RTT_PROBE, "asks for RTTs beside the traffic, by ping or by TCP", "icmp@10", "none"),
    Key("load-cap", RATE, "of type path, where it must be given: the most that its steps send at a time", "200mbit"),
    Key("tcpdump", SWITCH, "on: packets are recorded on src, on an emulated path between senders and delay router",
        "on", "off"),
    Key("tcpdump-size", STORED, "where a recording ends", "500mb", "1gb"),
    Key("tcpdump-convert-time", POSITIVE_TIME, "time after which ccmix ends making tables of a recording; what it has "
        "read is in them", "1m", "10m"),
    Key("tcpdump-convert-size", STORED, "size of the text for packets.parquet at which it does so", "2gb", "500mb"),
    Key("param-sweep", PARAMETER_SWEEP, "sweeps a parameter below /sys/module, of src, or of the kernel that has all "
        "hosts of an emulated path: START,END,STEP, a list, or a list for one element (counted from 1) of a vector",
        "tcp_bbr2/parameters/loss_thresh, sys-module-increment,2,6,1", sweepable=False),
    Key("iterations", whole_number(1, 10_000), "runs of each condition", "10", "1", sweepable=False),
    Key(
        "repeat-order", choice(*REPEAT_ORDERS), "order of the conditions in each iteration; shuffled by the seed",
        "shuffled", "in-order", sweepable=False,
    ),
    Key("accept-limits", LIMIT_NAMES, "limits that leave a run valid", "rtt, loss", "", sweepable=False),
    Key("unknown", KEY_NAMES, "swept keys whose values stand for what a measurement of the path leaves open: "
        "conditions that differ in these alone are one range", "buffer, loss", "", sweepable=False),
    Key("title", TEXT, "heads the report; in [DEFAULT] of all entries", "BBR beside CUBIC", sweepable=False),
    Key("index", ELASTICSEARCH, "Elasticsearch that gets each run when it has finished; credentials are elsewhere",
        "https://elastic.example.org:9200", sweepable=False),
)  # fmt: skip

# Of entries on an emulated path
TOPOLOGY_ENTRY = _table(
    Key("topology", TEXT, "the emulated path: the NAME of a [topology NAME] section", "dtn", sweepable=False),
    Key(
        "flows.NAME",
        LINE,
        "a traffic source instead of `cca` and `streams`, or cross traffic beside them: its hosts, and what they send",
        "h1 bbr:1+30s",
        member=read_name,
    ),
)

# Of entries between real hosts
HOST_ENTRY = _table(
    Key("src", HOST, "where src's commands run: here, in a namespace, or over ssh", "dtn1.example.org", "localhost",
        sweepable=False),
    Key("dst", ADDRESS, "where traffic goes, and {dst} in commands and filters", "dtn2.example.org", sweepable=False),
    Key("dst-host", HOST, "where dst's commands run; unset: on dst", "mgmt.dtn2.example.org", sweepable=False),
    Key("user", USER, "login for ssh to dst's host and to src, unless they name one (USER@HOST)", "dtn",
        sweepable=False),
    Key("alias", ALIAS, "name of dst in folders and tables; unset: dst", "geneva", sweepable=False),
    Key("server", choice("ssh", "running"), "iperf3's server: started on dst's host, or one that runs there already",
        "running", "ssh"),
    Key("port", whole_number(1, 65535), "TCP port of iperf3's server", "5205", "5201"),
    Key("src-cmd", SOURCE_COMMAND, "makes the traffic instead of ccmix's own iperf3; several lines are one line",
        "iperf3 -c {dst} -t 60 -P 8 -J"),
    Key("dst-cmd", SHELL_ONE_LINE, "runs on dst beside src-cmd, and is ended with it; several lines are one line",
        "iperf3 -s -1 -p 5205"),
    Key("src-cmd-once", SWITCH, "on: src-cmd goes on for all runs; each takes duration", "on", "off", sweepable=False),
    Key("dst-cmd-once", SWITCH, "on: dst-cmd is started once, for all runs of the entry", "on", "off", sweepable=False),
    Key("pre", SHELL, "runs on src before the entry's first run", "logger begin", sweepable=False),
    Key("post", SHELL, "runs on src after the entry's last run", "logger end", sweepable=False),
    Key("pre-src-cmd", SHELL, "runs on src before every run", "sysctl -w net.ipv4.tcp_congestion_control=bbr"),
    Key("pre-dst-cmd", SHELL, "runs on dst before every run", "sysctl -w net.ipv4.tcp_mtu_probing=1"),
    Key("post-src-cmd", SHELL, "runs on src after every run", "sysctl -w net.ipv4.tcp_congestion_control=cubic"),
    Key("post-dst-cmd", SHELL, "runs on dst after every run", "sysctl -w net.ipv4.tcp_mtu_probing=0"),
    Key("cca-load", LOADED, "CCAs that ccmix loads into src's kernel, as BPF programs, before the entry's first run, "
        "and unloads after the last; those that it has already stay", "bbr3, bbr2", sweepable=False),
    Key("netem-at", PLACE, "the host and the devices where the entry's netem acts: data leaves by the first, ACKs by "
        "the second; --netem-at overrides it", "netem1:eth2,eth3"),
    Key("netem-lat", DELAY, "delay in each direction; the path's RTT grows by twice that", "44ms"),
    Key("netem-loss", NETEM_LOSS, "loss in the data direction: random, or gemodel P [R [1-H [1-K]]]", "0.001%"),
    Key("netem-limit", PACKETS, "packets that netem holds in each direction", "10000"),
    Key("lat-sweep", DELAYS, "sweeps netem-lat", "2,5,10", sweepable=False),
    Key("limit-sweep", PACKET_COUNTS, "sweeps netem-limit", "1000,10000", sweepable=False),
    Key("profile", TEXT, "netem on a device of src, by its name in profile-file", "WAN"),
    Key("profile-file", FILE, "YAML file of profiles", "profiles.yml", sweepable=False),
    Key("tcpdump-filt", FILTER, "what is recorded; unset: the headers of all packets from and to dst",
        '-s 128 -i eth0 "host {dst} and port 5201"'),
    Key("mpstat", CORES, "cores whose use is recorded, on both hosts", "0-15"),
    Key("timeout", POSITIVE_TIME, "longest time of a run's traffic; unset: what it should take, and a minute", "2m"),
    Key("connect-timeout", POSITIVE_TIME, "longest time from the start of ssh until a host answers", "60s", "20s",
        sweepable=False),
    Key("retries", whole_number(0, 100), "how often a failed run is tried again", "2", "0", sweepable=False),
    Key("pause", TIME, "time before each run but the first, and before each retry", "5s", "0s", sweepable=False),
    Key("rate-budget", BUDGET, "most data in a period; no run begins that would exceed it, and a run that could not "
        "be foreseen ends there, or by pScheduler is refused", "2TB/day", sweepable=False),
    Key("time-window", WINDOW, "when runs may begin; may pass midnight", "01:00-05:00 UTC", sweepable=False),
    Key("instrument", SWITCH, "none any more", "on", sweepable=False,
        obsolete="sockets are always sampled; tcpdump and mpstat are keys of their own"),
    Key("ss", SWITCH, "none any more", "on", sweepable=False, obsolete="sockets are always sampled, through netlink"),
    Key("tcptrace", SWITCH, "none any more", "off", sweepable=False, obsolete="connections.parquet has it"),
    Key("statexec", TEXT_OR_OFF, "none any more", "off", sweepable=False, obsolete="processes are always recorded"),
)  # fmt: skip

# Of entries between real hosts whose traffic pScheduler makes
PSCHEDULER_ENTRY = _table(
    Key("src-host", HOST, "where src's commands run, and its sockets are sampled; unset: nowhere, unless src is this "
        "machine", "dtn@ps1.example.org", sweepable=False),
    Key("lead", SERVER, "the pScheduler that the task is given to; unset: src's", "ps1.example.org", sweepable=False),
    Key("tls-ca", FILE, "the only trusted certificates, in PEM form: the hosts' own, or those of their signers; unset: "
        "those that this machine trusts", "ps1.pem", sweepable=False),
    Key("tool", TOOL, "pScheduler's tool for the test; unset: its own choice", "iperf3mix"),
    Key("slip", TIME, "by how much the start may slip to find a free slot", "20m", "5m", sweepable=False),
    Key("priority", whole_number(0, 1_000_000), "of the task; its runs may preempt those of a lower one", "10",
        sweepable=False),
    Key("wait", POSITIVE_TIME, "longest time until a run begins, not less than `slip`; then its task is cancelled; "
        "unset: `slip` and what a run takes", "1h", sweepable=False),
    Key("repeat", POSITIVE_TIME, "time between the runs of one task, which has all iterations; unset: a task per run",
        "1h", sweepable=False),
    Key("spec.NAME", JSON, "a further field of pScheduler's throughput test", "PT0.3S", member=read_field),
)  # fmt: skip

ENTRY_KEYS = KeyTable({**EVERY_ENTRY, **TOPOLOGY_ENTRY, **HOST_ENTRY, **PSCHEDULER_ENTRY})
ALL_KEYS = KeyTable({**ENTRY_KEYS, **TOPOLOGY_KEYS})

# The original harness's own sweeps, and the keys that they sweep
SWEEPS = {"lat-sweep": "netem-lat", "limit-sweep": "netem-limit"}
# Beside src-cmd these have no effect: the command decides
DECIDED_BY_COMMAND = ("cca", "streams", "omit", "server", "port")
# Of entries of type path: what its steps decide, and what is otherwise than in others unless the file says it
DECIDED_BY_STEPS = ("cca", "streams", "omit", "pacing")
DEFAULTS_OF_STEPS = {"duration": "90s", "interval": "100ms", "rtt-probe": "icmp@97"}
# Of entries between real hosts, what pScheduler does instead
DONE_BY_PSCHEDULER = ("server", "port", "src-cmd", "dst-cmd", "src-cmd-once", "dst-cmd-once")
