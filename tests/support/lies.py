"""Lists lies: one path or traffic is configured, another is measured. Each names the kind of
the finding.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

Keys = dict[str, str]
PATH: Keys = {"rate": "100mbit", "delay": "5ms", "buffer": "1bdp"}
ENTRY: Keys = {"cca": "cubic", "streams": "2", "duration": "3s"}


@dataclass(frozen=True)
class Lie:
    """Two configurations that differ in some keys of the topology or the entry, and what a verdict
    calls that.
    """

    kind: str
    one: Keys = field(default_factory=dict)
    other: Keys = field(default_factory=dict)
    both: Keys = field(default_factory=dict)

    def ini(self, keys: Keys) -> str:
        """Returns the INI file of one of the two; keys of an entry begin with 'entry ', a None
        leaves a key out.
        """
        given = {**self.both, **keys}
        entry = {
            key.removeprefix("entry "): value
            for key, value in given.items()
            if key.startswith("entry ")
        }
        path = {key: value for key, value in given.items() if not key.startswith("entry ")}
        named = any(key.startswith("flows.") for key in entry)
        first = {
            key: value for key, value in ENTRY.items() if not (named and key in ("cca", "streams"))
        }
        host = any(key.startswith("host.") or key in ("data-delay", "rtt") for key in path)
        of_path = {key: value for key, value in PATH.items() if not (host and key == "delay")}
        lines = [
            "[topology t]",
            *(f"{key} = {value}" for key, value in {**of_path, **path}.items()),
        ]
        lines += ["[lie]", "type = iperf3", "topology = t"]
        lines += [f"{key} = {value}" for key, value in {**first, **entry}.items()]
        return "\n".join(lines) + "\n"


def queue(one: str, other: str, **both: str) -> Lie:
    return Lie("queue", {"qdisc": one}, {"qdisc": other}, both)


BESIDE: Keys = {
    "control": "beside"
}  # because a burst of losses may end iperf3's control connection
TWO: Keys = {"host.h1": "delay 5ms", "host.h2": "delay 10ms"}
LONG: Keys = {"rate": "10mbit", "entry duration": "5s"}

LIES: Mapping[str, Lie] = {
    # those of the issue
    "codel for fq_codel": Lie("queue", {"qdisc": "codel"}, {"qdisc": "fq_codel"}),
    "bfifo for codel": Lie("queue", {"qdisc": "bfifo"}, {"qdisc": "codel"}),
    "target of codel": Lie("queue", {"qdisc": "codel target 5ms"}, {"qdisc": "codel target 50ms"}),
    "ecn of codel": Lie("queue", {"qdisc": "codel ecn"}, {"qdisc": "codel noecn"}, {"ecn": "on"}),
    "ECN": Lie("ecn", {"ecn": "on"}, {"ecn": "off"}),
    "tbf for htb": Lie("queue", {"shaper": "tbf"}, {"shaper": "htb"}),
    "gemodel for none": Lie("loss", {"loss": "gemodel 1% 10%"}, {}, BESIDE),
    "gemodel for random": Lie("loss", {"loss": "gemodel 1% 10%"}, {"loss": "9.0909%"}, BESIDE),
    "0.01% over 5 s": Lie("loss", {"loss": "0.01%"}, {}, LONG),
    "0.001% over 20 s": Lie(
        "loss", {"loss": "0.001%"}, {}, {"rate": "5mbit", "entry duration": "20s"}
    ),
    "jitter": Lie("rtt", {"jitter": "5ms"}, {}, {"delay": "20ms"}),
    "reorder": Lie("path", {"reorder": "5%"}, {}),
    "rate never changed": Lie("changes", {"at.2s": "rate 50mbit"}, {}),
    "delay never changed": Lie("changes", {"at.2s": "delay 20ms"}, {}),
    "loss never changed": Lie("changes", {"at.2s": "loss 1%"}, {}),
    "rate at another time": Lie("changes", {"at.2s": "rate 50mbit"}, {"at.1s": "rate 50mbit"}),
    "delay at another time": Lie("changes", {"at.2s": "delay 20ms"}, {"at.1s": "delay 20ms"}),
    "loss at another time": Lie("changes", {"at.2s": "loss 1%"}, {"at.1s": "loss 1%"}),
    "weights": Lie(
        "traffic",
        {"entry cca": "cubic:3,bbr:1"},
        {"entry cca": "cubic:1,bbr:3"},
        {"entry streams": "4"},
    ),
    "streams": Lie("traffic", {"entry streams": "4"}, {"entry streams": "2"}),
    "pacing": Lie("traffic", {"entry pacing": "20mbit"}, {}),
    "pacing of a group": Lie("traffic", {"entry cca": "cubic@5M,bbr"}, {"entry cca": "cubic,bbr"}),
    "start of a group": Lie(
        "traffic",
        {"entry cca": "cubic,bbr+3s"},
        {"entry cca": "cubic,bbr+0s"},
        {"entry duration": "5s"},
    ),
    "duration 5 for 3 s": Lie("traffic", {"entry duration": "5s"}, {"entry duration": "3s"}),
    "duration 5 for 8 s": Lie("traffic", {"entry duration": "5s"}, {"entry duration": "8s"}),
    "rate of UDP": Lie(
        "traffic", {"entry flows.noise": "h1 udp@20M"}, {"entry flows.noise": "h1 udp@50M"}
    ),
    "one receiver": Lie("path", {"receivers": "one"}, {"receivers": "each"}, TWO),
    "buffer of packets": Lie("buffer", {"buffer": "2p"}, {"buffer": "1p"}),
    "rate": Lie("rate", {"rate": "100mbit"}, {"rate": "110mbit"}),
    "RTT": Lie("rtt", {"delay": "5ms"}, {"delay": "5.5ms"}),
    "buffer": Lie("buffer", {"buffer": "50p"}, {"buffer": "55p"}),
    "MTU": Lie("path", {"mtu": "1500"}, {"mtu": "9000"}),
    "CCA": Lie("cca", {"entry cca": "cubic"}, {"entry cca": "bbr"}),
    # more queues and parameters
    "pfifo for bfifo": queue("pfifo", "bfifo"),
    "pfifo_head_drop for pfifo": queue("pfifo_head_drop", "pfifo"),
    "pie for fq_pie": queue("pie", "fq_pie"),
    "red for choke": queue("red", "choke"),
    "sfq for sfb": queue("sfq", "sfb"),
    "hhf for cake": queue("hhf", "cake"),
    "interval of codel": queue("codel", "codel interval 200ms"),
    "ce_threshold of codel": queue("codel ecn ce_threshold 10ms", "codel ecn"),
    "flows of fq_codel": queue("fq_codel", "fq_codel flows 16"),
    "quantum of fq_codel": queue("fq_codel quantum 300b", "fq_codel"),
    "memory_limit of fq_codel": queue("fq_codel memory_limit 4mb", "fq_codel"),
    "ecn of fq_codel": queue("fq_codel", "fq_codel noecn"),
    "flow_limit of fq": queue("fq flow_limit 20", "fq"),
    "buckets of fq": queue("fq", "fq buckets 256"),
    "maxrate of fq": queue("fq maxrate 20mbit", "fq"),
    "pacing of fq": queue("fq nopacing", "fq"),
    "horizon of fq": queue("fq", "fq horizon_cap"),
    "target of pie": queue("pie", "pie target 30ms"),
    "alpha of pie": queue("pie alpha 4", "pie"),
    "bytemode of fq_pie": queue("fq_pie", "fq_pie bytemode"),
    "min of red": queue("red", "red min 20kb max 60kb"),
    "adaptive of red": queue("red adaptive", "red"),
    "max of choke": queue("choke min 5 max 40", "choke"),
    "perturb of sfq": queue("sfq perturb 10", "sfq"),
    "depth of sfq": queue("sfq depth 20", "sfq"),
    "target of sfb": queue("sfb", "sfb max 30 target 25"),
    "hh_limit of hhf": queue("hhf hh_limit 1000", "hhf"),
    "rtt of cake": queue("cake", "cake rtt 33ms"),
    "diffserv of cake": queue("cake besteffort", "cake diffserv4"),
    "flows of cake": queue("cake flows", "cake"),
    "ack-filter of cake": queue("cake", "cake ack-filter"),
    "overhead of cake": queue("cake overhead 18", "cake"),
    # more of the path
    "jitter twice as long": Lie("rtt", {"jitter": "1ms"}, {"jitter": "2ms"}),
    "reorder twice as often": Lie("path", {"reorder": "5%"}, {"reorder": "10%"}),
    "loss by 10%": Lie("loss", {"loss": "1%"}, {"loss": "1.1%"}),
    "r of gemodel": Lie("loss", {"loss": "gemodel 1% 10%"}, {"loss": "gemodel 1% 20%"}, BESIDE),
    "1-h of gemodel": Lie(
        "loss", {"loss": "gemodel 1% 10% 70%"}, {"loss": "gemodel 1% 10%"}, BESIDE
    ),
    "offloads": Lie("offloads", {"offloads": "on"}, {"offloads": "off"}, {"mtu": "9000"}),
    "delays apart": Lie(
        "rtt", {"data-delay": "2ms", "ack-delay": "8ms"}, {"data-delay": "5ms", "ack-delay": "5ms"}
    ),
    "delays swapped": Lie("rtt", TWO, {"host.h1": "delay 10ms", "host.h2": "delay 5ms"}),
    "jitter of the wrong sender": Lie(
        "rtt", TWO | {"host.h1": "delay 5ms jitter 1ms"}, TWO | {"host.h2": "delay 10ms jitter 1ms"}
    ),
    "loss of the wrong sender": Lie(
        "loss", TWO | {"host.h1": "delay 5ms loss 1%"}, TWO | {"host.h2": "delay 10ms loss 1%"}
    ),
    "rate of a sender": Lie("rate", {"host.h1": "delay 5ms rate 20mbit"}, {"host.h1": "delay 5ms"}),
    "rate of a sender by 10%": Lie(
        "rate", {"host.h1": "delay 5ms rate 20mbit"}, {"host.h1": "delay 5ms rate 22mbit"}
    ),
    "rate of htb": Lie("rate", {"rate": "100mbit"}, {"rate": "90mbit"}, {"shaper": "htb"}),
    "buffer of codel": Lie("buffer", {"buffer": "60p"}, {"buffer": "61p"}, {"qdisc": "codel"}),
    "buffer of cake": Lie("buffer", {"buffer": "60kb"}, {"buffer": "61kb"}, {"qdisc": "cake"}),
    "changed to another rate": Lie("rate", {"at.2s": "rate 50mbit"}, {"at.2s": "rate 60mbit"}),
    "changed to another delay": Lie("rtt", {"at.2s": "delay 20ms"}, {"at.2s": "delay 21ms"}),
    "changed to another loss": Lie("loss", {"at.2s": "loss 1%"}, {"at.2s": "loss 2%"}),
    "delay of data for both": Lie("rtt", {"at.2s": "data-delay 20ms"}, {"at.2s": "delay 20ms"}),
    "changed for the wrong sender": Lie(
        "changes", {"at.2s": "h1 delay 20ms"}, {"at.2s": "h2 delay 20ms"}, TWO
    ),
    "changed twice": Lie(
        "changes", {"at.1s": "rate 50mbit", "at.2s": "rate 20mbit"}, {"at.2s": "rate 20mbit"}
    ),
    "burst": Lie("queue", {"burst": "30kb"}, {}),
    "burst of htb": Lie("queue", {"burst": "30kb"}, {}, {"shaper": "htb"}),
    "kernel": Lie("kernel", {"kernel": "again"}, {}),
    "host-root": Lie("host-root", {"host-root": "on"}, {}),
    "parameter": Lie(
        "parameter", {"entry param-sweep": "tcp_cubic/parameters/beta, sys-module-list,600"}, {}
    ),
    "value of a parameter": Lie(
        "parameter",
        {"entry param-sweep": "tcp_cubic/parameters/beta, sys-module-list,600"},
        {"entry param-sweep": "tcp_cubic/parameters/beta, sys-module-list,700"},
    ),
    "receiver's window": Lie("receiver-window", {"receiver-window": "200kb"}, {}),
    "size of the receiver's window": Lie(
        "receiver-window", {"receiver-window": "200kb"}, {"receiver-window": "220kb"}
    ),
    "policer": Lie("policer", {"policer": "50mbit burst 200kb"}, {}),
    "rate of a policer": Lie(
        "policer", {"policer": "50mbit burst 200kb"}, {"policer": "55mbit burst 200kb"}
    ),
    "burst of a policer": Lie(
        "policer", {"policer": "50mbit burst 200kb"}, {"policer": "50mbit burst 210kb"}
    ),
    "bottleneck of ACKs": Lie("path", {"ack-rate": "5mbit", "ack-buffer": "50p"}, {}),
    "rate of ACKs": Lie(
        "rate", {"ack-rate": "5mbit"}, {"ack-rate": "6mbit"}, {"ack-buffer": "50p"}
    ),
    "buffer of ACKs": Lie(
        "buffer", {"ack-buffer": "50p"}, {"ack-buffer": "51p"}, {"ack-rate": "5mbit"}
    ),
    "control": Lie("path", {"control": "beside"}, {"control": "path"}),
    "spread": Lie("rtt", {"spread": "on"}, {"spread": "off"}, {"delay": "20ms"}),
    # more of the traffic
    "order of groups": Lie(
        "traffic",
        {"entry cca": "cubic:2,bbr"},
        {"entry cca": "bbr,cubic:2"},
        {"entry streams": "3"},
    ),
    "sender-qdisc": Lie("sender-queue", {"sender-qdisc": "fq_codel"}, {"sender-qdisc": "fq"}),
    "target of sender-qdisc": Lie(
        "sender-queue", {"sender-qdisc": "fq_codel"}, {"sender-qdisc": "fq_codel target 20ms"}
    ),
    "pacing of a group by 10%": Lie(
        "traffic", {"entry cca": "cubic@5M"}, {"entry cca": "cubic@5.5M"}
    ),
    "pacing by 10%": Lie("traffic", {"entry pacing": "20mbit"}, {"entry pacing": "22mbit"}),
    "omit": Lie("traffic", {"entry omit": "1s"}, {"entry omit": "2s"}),
    "omit for duration": Lie("traffic", {"entry omit": "1s"}, {"entry duration": "4s"}),
    "interval": Lie("traffic", {"entry interval": "200ms"}, {"entry interval": "500ms"}),
    "rtt-probe": Lie("traffic", {"entry rtt-probe": "icmp@10"}, {}),
    "rate of the rtt-probe": Lie(
        "traffic", {"entry rtt-probe": "icmp@10"}, {"entry rtt-probe": "icmp@20"}
    ),
    "UDP for TCP": Lie("traffic", {"entry flows.a": "h1 udp@20M"}, {"entry flows.a": "h1 cubic"}),
    "start of a source": Lie(
        "traffic",
        {"entry flows.a": "h1 cubic", "entry flows.b": "h1 bbr"},
        {"entry flows.a": "h1 cubic", "entry flows.b": "h1 bbr+4s"},
        {"entry duration": "6s"},
    ),
    "size of http": Lie(
        "traffic",
        {"entry flows.web": "h1 http requests 20 size 200kb"},
        {"entry flows.web": "h1 http requests 20 size 220kb"},
    ),
    "requests of http": Lie(
        "traffic",
        {"entry flows.web": "h1 http requests 20 size 200kb"},
        {"entry flows.web": "h1 http requests 21 size 200kb"},
    ),
    "clients of http": Lie(
        "traffic",
        {"entry flows.web": "h1 http requests 20 size 200kb parallel 2"},
        {"entry flows.web": "h1 http requests 20 size 200kb parallel 4"},
    ),
    "CCA of http": Lie(
        "cca",
        {"entry flows.web": "h1 http requests 20 size 200kb cca cubic"},
        {"entry flows.web": "h1 http requests 20 size 200kb cca bbr"},
    ),
    "load of a workload": Lie(
        "traffic",
        {"entry flows.load": "h1 workload web-search load 30%"},
        {"entry flows.load": "h1 workload web-search load 40%"},
        {"entry duration": "10s"},
    ),
    "sizes of a workload": Lie(
        "traffic",
        {"entry flows.load": "h1 workload web-search load 50%"},
        {"entry flows.load": "h1 workload data-mining load 50%"},
        {"entry duration": "10s"},
    ),
    "CCA of a workload": Lie(
        "cca",
        {"entry flows.load": "h1 workload web-search load 40% cca cubic"},
        {"entry flows.load": "h1 workload web-search load 40% cca reno"},
        {"entry duration": "10s"},
    ),
}

# One of each kind, in `make test`; the others are for `make test-deep`.
REPRESENTATIVES = (
    "codel for fq_codel",
    "ECN",
    "gemodel for none",
    "jitter",
    "reorder",
    "rate never changed",
    "streams",
    "pacing",
    "buffer of packets",
    "rate",
    "CCA",
    "sender-qdisc",
    "offloads",
    "policer",
)
