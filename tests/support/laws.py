"""Lists honest runs of many kinds, and runs in which something hidden happens to the path, for the
conservation laws.

A hidden change is made by a command of the entry, which undoes it before the end of the run where
it changes something.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ccmix.analysis.metrics import run_metrics
from ccmix.analysis.raw_files import read_tables
from ccmix.analysis.validity import judge
from ccmix.archive.codec import FINISHED_RUN, MEASUREMENT, read
from ccmix.model import Run
from ccmix.model.results import Verdict

Keys = dict[str, str]
RUNS = 500
IPERF3 = "/run/ccmix/code/iperf3"  # in a guest of the lab
HIDDEN = "hidden"  # the source whose command makes a hidden change
ACCEPTED = (
    "application, receiver-window"  # which short flows and losses on long paths may come near to
)


@dataclass(frozen=True)
class LawRun:
    """Holds the keys of a topology and of an entry on it."""

    name: str
    path: Keys
    entry: Keys = field(default_factory=dict)

    @property
    def ini(self) -> str:
        """Returns the two sections of an INI file."""
        path = {"rate": "20mbit", **self.path}
        if not {"delay", "rtt", "data-delay"} & path.keys() and not any(
            key.startswith("host.") for key in path
        ):
            path["delay"] = "5ms"
        entry = {
            "type": "iperf3",
            "topology": self.name,
            "duration": "4s",
            "accept-limits": ACCEPTED,
            **self.entry,
        }
        lines = [f"[topology {self.name}]", *(f"{key} = {value}" for key, value in path.items())]
        return "\n".join(
            [
                *lines,
                f"[{self.name}]",
                *(f"{key} = {value}" for key, value in entry.items()),
                "",
                "",
            ]
        )


ONE: Keys = {"cca": "cubic", "streams": "1"}
MIXED: Keys = {"cca": "cubic,bbr", "streams": "4"}
TRAFFIC: Mapping[str, Keys] = {
    "cubic": ONE,
    "mixed": MIXED,
    "bbr3": {"cca": "bbr3", "streams": "2"},
    "many": {"cca": "reno:8,bbr2:8,cubic:16", "streams": "32", "duration": "6s"},
    "late": {"cca": "cubic:1,bbr:1+2s", "streams": "2", "omit": "1s"},
    "paced": {"cca": "cubic@3M,cubic", "streams": "4"},
    "udp": {"flows.a": "h1 cubic:2", "flows.b": "h1 udp@8M"},
    "only-udp": {"flows.b": "h1 udp:2@15M", "omit": "1s"},
    "http": {"flows.a": "h1 bbr", "flows.b": "h1 http requests 60 size 40kb parallel 4"},
    "workload": {"flows.a": "h1 workload web-search load 60% cca cubic", "duration": "6s"},
    "all": {
        "flows.a": "h1 cubic,bbr:2+1s",
        "flows.b": "h1 udp@2M+1s",
        "flows.c": "h1 http requests 30 size 20kb",
        "flows.d": "h1 workload data-mining load 10%",
        "rtt-probe": "icmp@20",
    },
    "command": {
        "flows.a": "h1 bbr",
        "flows.server": f"receiver command {IPERF3} -s -p 6000",
        "flows.b": f"h1 command sleep 1; {IPERF3} -c {{dst}} -p 6000 -t 2 -P 2",
    },
    "reverse": {
        "flows.a": "h1 cubic",
        "flows.server": f"receiver command {IPERF3} -s -p 6000",
        "flows.b": f"h1 command sleep 1; {IPERF3} -c {{dst}} -p 6000 -t 2 --bidir -b 5M",
    },
    "tcp-probe": {**MIXED, "rtt-probe": "tcp:7@20"},
}
QUEUES = (
    "bfifo",
    "pfifo",
    "pfifo_head_drop",
    "codel",
    "codel ecn ce_threshold 5ms",
    "fq_codel",
    "fq_codel noecn",
    "fq",
    "fq maxrate 4mbit",
    "pie",
    "pie ecn",
    "fq_pie",
    "red",
    "red ecn min 8kb max 24kb",
    "sfq",
    "choke",
    "sfb",
    "hhf",
    "cake",
    "cake ack-filter",
    "cake besteffort",
)
PATHS: Mapping[str, Keys] = {
    "loss": {"loss": "1%"},
    "heavy-loss": {"loss": "20%", "control": "beside"},
    "bursts": {"loss": "gemodel 1% 20%", "control": "beside"},
    "jitter": {"delay": "20ms", "jitter": "5ms"},
    "reorder": {"delay": "20ms", "reorder": "5%"},
    "policer": {"rate": "50mbit", "policer": "15mbit burst 60kb"},
    "acks": {"ack-rate": "300kbit", "ack-buffer": "30p"},
    "acks-bytes": {
        "ack-rate": "500kbit",
        "ack-buffer": "4kb",
        "data-delay": "15ms",
        "ack-delay": "1ms",
    },
    "beside": {"control": "beside"},
    "burst": {"burst": "60kb"},
    "htb-burst": {"burst": "60kb", "shaper": "htb"},
    "ecn": {"ecn": "on", "qdisc": "fq_codel"},
    "changes": {"at.1s": "rate 8mbit", "at.2s": "rate 30mbit, delay 20ms", "at.3s": "loss 1%"},
    "htb-changes": {"at.1s": "rate 8mbit", "at.2s": "rate 30mbit", "shaper": "htb"},
    "window": {"receiver-window": "100kb", "delay": "30ms"},
    "slow-host": {"host.h1": "delay 5ms rate 15mbit"},
    "small-mtu": {"mtu": "576"},
    "jumbo": {"mtu": "9000", "rate": "100mbit"},
    "sender-fq_codel": {"sender-qdisc": "fq_codel"},
    "sender-pfifo": {"sender-qdisc": "pfifo limit 20", "host.h1": "delay 5ms rate 12mbit"},
    "joined": {"offloads": "on", "rate": "200mbit", "mtu": "9000"},
    "joined-htb": {"offloads": "on", "rate": "200mbit", "shaper": "htb"},
    "joined-acks": {"offloads": "on", "rate": "100mbit", "ack-rate": "1mbit", "ack-buffer": "50p"},
    "one-packet": {"buffer": "1p"},
    "deep": {"buffer": "8bdp", "delay": "20ms"},
    "long": {"delay": "150ms", "buffer": "0.2bdp"},
    "no-spread": {"spread": "off"},
}
SENDERS: Mapping[str, Keys] = {
    "two": {"host.h1": "delay 5ms", "host.h2": "delay 20ms"},
    "two-to-one": {"host.h1": "delay 5ms", "host.h2": "delay 20ms", "receivers": "one"},
    "eight": {"hosts": "8", "delay": "5ms"},
    "eight-acks": {
        "hosts": "8",
        "delay": "5ms",
        "receivers": "one",
        "ack-rate": "400kbit",
        "control": "beside",
    },
    "twenty": {"hosts": "20", "delay": "10ms", "rate": "50mbit", "qdisc": "codel"},
    "lossy": {"host.h1": "delay 5ms loss 1%", "host.h2": "delay 20ms jitter 2ms"},
}
OF_SENDERS: Mapping[str, Keys] = {
    "each": {"cca": "cubic,bbr", "streams": "2"},
    "sources": {
        "flows.a": "h1 bbr:2",
        "flows.b": "h2 cubic+1s",
        "flows.c": "h2 udp@3M",
        "flows.d": "h1 http requests 30 size 20kb",
    },
}


def honest() -> Iterator[LawRun]:
    """Yields more than RUNS runs: those of each list with each other, and the grid by which the
    lab is calibrated.
    """
    for (path, keys), (traffic, entry) in itertools.product(PATHS.items(), TRAFFIC.items()):
        yield LawRun(f"{path}-{traffic}", keys, entry)
    for number, (queue, (traffic, entry)) in enumerate(
        itertools.product(QUEUES, list(TRAFFIC.items())[:4])
    ):
        shaper = ("tbf", "htb")[number % 2]
        keys = {"qdisc": queue, "shaper": shaper, "ecn": "on" if " ecn" in queue else "off"}
        yield LawRun(f"queue{number}-{traffic}", keys, entry)
    for (path, keys), (traffic, entry) in itertools.product(SENDERS.items(), OF_SENDERS.items()):
        yield LawRun(f"{path}-{traffic}", keys, entry)
    rates = (("10mbit", "1500"), ("100mbit", "1500"), ("1gbit", "9000"))
    for number, ((rate, mtu), delay, (loss, shaper)) in enumerate(
        itertools.product(rates, ("500us", "10ms", "100ms"), (("0%", "tbf"), ("0.1%", "htb")))
    ):
        keys = {"rate": rate, "mtu": mtu, "delay": delay, "loss": loss, "shaper": shaper}
        yield LawRun(f"grid{number}", keys, MIXED | {"interval": ("500ms", "20ms")[number % 2]})
    for number, (buffer, queue) in enumerate(
        itertools.product(("1p", "3p", "1000p", "10kb", "0.1bdp", "4bdp"), QUEUES[:2])
    ):
        yield LawRun(
            f"buffer{number}",
            {"rate": "100mbit", "delay": "10ms", "buffer": buffer, "qdisc": queue},
            MIXED,
        )
    yield LawRun("fast", {"rate": "10gbit", "delay": "1ms"}, ONE | {"duration": "1s"})
    yield LawRun(
        "fast-joined",
        {"rate": "10gbit", "delay": "1ms", "offloads": "on"},
        MIXED | {"duration": "2s"},
    )
    yield LawRun("seldom", {}, ONE | {"interval": "20s", "duration": "60s"})
    yield LawRun("often", {}, MIXED | {"interval": "1ms", "duration": "2s"})


@dataclass(frozen=True)
class Lie:
    """Describes what happens to a path from the first second of the traffic to the third, with
    three strengths.

    `begin` and `end` are lines for a shell, in which {} stands for the strength, and AT for a
    namespace of the path.
    """

    kind: str  # of the finding
    begin: str
    end: str
    strengths: tuple[str, str, str]

    def line(self, strength: str) -> str:
        """Returns the line of a command on the receiver."""
        changes = f"sleep 1; {self.begin}; sleep 2; {self.end}"
        words = {"AT ": "ip netns exec ccmix-", "IPERF3": IPERF3, "{}": strength}
        for word, meant in words.items():
            changes = changes.replace(word, meant)
        return changes


def police(place: str, device: str, hook: str) -> tuple[str, str]:
    """Returns the command that makes a policer, and the command that removes it."""
    tc = f"AT {place} tc"
    rate = "rate {}mbit burst 6000 mtu 2000 conform-exceed drop/ok"
    begin = (
        f"{tc} qdisc add dev {device} clsact; {tc} filter add dev {device} {hook} matchall "
        f"action police {rate}"
    )
    return begin, f"{tc} qdisc del dev {device} clsact"


def datagrams(place: str) -> tuple[str, str]:
    """Returns the command that sends datagrams of 1000 bytes from `place` to the receiver."""
    code = (
        "import socket, time; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); n = {}; "
        "[(s.sendto(bytes(1000), ('10.0.3.2', 9)), time.sleep(2 / n)) for _ in range(n)]"
    )
    return f'AT {place} python3 -c "{code}"', "true"


BOTTLENECK = (
    "AT bottleneck tc qdisc change dev east root handle 1: tbf rate {}bit burst 3028 limit 25000"
)
DATA = "AT delay tc qdisc change dev east root netem delay 5ms loss random 0% limit 10000000"
ACKS = "AT bottleneck tc qdisc %s dev west root"
LIES: Mapping[str, Lie] = {
    "flow-of-sender": Lie(
        "traffic",
        "IPERF3 -s -1 -p 7000 & sleep 0.1; AT h1 IPERF3 -c 10.0.3.2 -p 7000 -t 2 -l 1K -b {}",
        "true",
        ("20K", "200K", "2M"),
    ),
    "datagrams-of-sender": Lie("traffic", *datagrams("h1"), ("3", "30", "300")),
    "datagrams-of-delay": Lie("conservation", *datagrams("delay"), ("5", "30", "300")),
    "datagrams-of-bottleneck": Lie("conservation", *datagrams("bottleneck"), ("5", "30", "300")),
    "policer-before": Lie(
        "conservation", *police("bottleneck", "west", "ingress"), ("19", "15", "8")
    ),
    "policer-behind": Lie(
        "conservation", *police("receiver", "eth0", "ingress"), ("19", "15", "8")
    ),
    "policer-of-sender": Lie("conservation", *police("h1", "eth0", "egress"), ("19", "15", "8")),
    "duplicates": Lie("conservation", f"{DATA} duplicate {{}}%", DATA, ("0.2", "2", "20")),
    "lost-acks": Lie(
        "conservation", ACKS % "add" + " netem loss {}%", ACKS % "del", ("0.5", "3", "20")
    ),
    "duplicate-acks": Lie(
        "conservation", ACKS % "add" + " netem duplicate {}%", ACKS % "del", ("0.5", "3", "20")
    ),
    "slowed-acks": Lie(
        "conservation",
        ACKS % "add" + " tbf rate {}kbit burst 3000 limit 1000000",
        f"{ACKS % 'change'} tbf rate 1gbit burst 3000 limit 1000000; sleep 0.2; {ACKS % 'del'}",
        ("400", "200", "100"),
    ),
    "delayed-acks": Lie(
        "conservation",
        ACKS % "add" + " netem delay {}ms",
        f"{ACKS % 'change'} netem delay 0ms; sleep 0.2; {ACKS % 'del'}",
        ("4", "10", "50"),
    ),
    "slower": Lie("rate", BOTTLENECK, BOTTLENECK.replace("{}", "20m"), ("19400k", "16m", "10m")),
    "faster": Lie("rate", BOTTLENECK, BOTTLENECK.replace("{}", "20m"), ("20600k", "24m", "40m")),
}
LIE_PATH: Keys = {"rate": "20mbit", "delay": "5ms", "buffer": "25000b", "spread": "off"}
LIE_ENTRY: Keys = {"duration": "5s", "flows.a": "h1 cubic:3,bbr:1"}


def lies() -> Iterator[tuple[Lie, LawRun]]:
    """Yields each lie at each strength, whose command is the last of the sources."""
    for name, lie in LIES.items():
        for number, strength in enumerate(lie.strengths, start=1):
            entry = {**LIE_ENTRY, f"flows.{HIDDEN}": f"receiver command {lie.line(strength)}"}
            yield lie, LawRun(f"{name}-{number}", LIE_PATH, entry)


def write_ini(file: Path, runs: Iterable[LawRun]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(run.ini for run in runs))


def verdict(outdir: Path, run: LawRun) -> Verdict:
    """Returns the verdict on a run as if the source HIDDEN had not been configured.

    Raises FileNotFoundError if the run failed.
    """
    file = next(outdir.glob(f"{run.name}/*/*/001/run.json"), outdir / run.name / "run.json")
    finished = read(outdir, file, FINISHED_RUN)
    measurement = MEASUREMENT.decode((file.parent / "facts.json").read_bytes())
    measurement = replace(measurement, facts=finished.facts)
    seen = without_hidden(finished.run)
    tables = read_tables(seen, file.parent, measurement)
    return judge(
        seen, tables, measurement, run_metrics(seen, tables, measurement.ping_rtt_s, measurement)
    )


def without_hidden(run: Run) -> Run:
    sources = tuple(source for source in run.traffic.sources if source.name != HIDDEN)
    return replace(run, traffic=replace(run.traffic, sources=sources))
