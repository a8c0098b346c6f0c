"""Names the key that people mean who write another tool's word, with an example of its value."""

from ccmix.config.keys import ALL_KEYS, DECIDED_BY_COMMAND, TOPOLOGY_KEYS, Key, KeyTable
from ccmix.config.problems import nearest

# Keys of one meaning, those of emulated paths first, and words that people write for them, - standing for _ too
MEANT: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("rate", "pacing"), (
        "bandwidth", "bw", "speed", "capacity", "bitrate", "throughput", "link-rate", "max-rate", "link-speed",
        "bottleneck", "bottleneck-rate", "rate",
    )),
    (("rtt", "netem-lat"), ("rtt", "base-rtt", "min-rtt", "round-trip", "round-trip-time", "ping", "rtt-ms")),
    (("delay", "netem-lat"), ("latency", "lat", "owd", "one-way-delay", "propagation", "propagation-delay", "delay")),
    (("loss", "netem-loss"), ("plr", "packet-loss", "loss-rate", "drop", "drop-rate", "loss")),
    (("buffer", "netem-limit"), (
        "queue-size", "queue-length", "queue-limit", "buffer-size", "limit", "bdp", "qlen", "buffer",
    )),
    (("qdisc",), ("aqm", "queue", "discipline", "queue-discipline", "scheduler", "qdisc")),
    (("streams",), (
        "parallel", "flows", "connections", "num-streams", "num-flows", "threads", "p", "parallel-streams",
    )),
    (("duration",), ("time", "length", "seconds", "t", "test-duration", "run-time", "runtime")),
    (("omit",), ("warmup", "warm-up", "ramp-up", "skip")),
    (("iterations",), ("repeat", "repeats", "repetitions", "runs", "trials", "count", "iteration")),
    (("cca",), (
        "algorithm", "algorithms", "algo", "cc", "ccas", "congestion", "congestion-control", "congestion-algorithm",
        "tcp", "tcp-congestion",
    )),
    (("dst",), ("host", "server", "destination", "dest", "target", "receiver", "to")),
    (("src",), ("client", "source", "sender", "from")),
    (("mtu",), ("mss", "packet-size")),
    (("tcpdump",), ("pcap", "capture")),
)  # fmt: skip


def right_key(word: str, known: KeyTable, in_topology: bool) -> str:
    """Returns '; write rate = 1gbit: rate of the bottleneck' for 'bandwidth', else what is near to the word.

    `known` are the keys that may stand there; `in_topology`: the entry has a topology, where others may stand.
    """
    return meant_key(word, known, in_topology) or nearest(word, [*known, "sweep.KEY"])


def meant_key(word: str, known: KeyTable, in_topology: bool) -> str:
    """Returns '; write rate = 1gbit: rate of the bottleneck' for 'bandwidth'; empty for a word of no known meaning."""
    plain = word.lower().replace("_", "-")
    for keys, words in MEANT:
        for name in keys if plain in words else ():
            if name in known and name != plain:
                return f"; write {_example(ALL_KEYS[name])}"
            if name in TOPOLOGY_KEYS and in_topology:
                return f"; write in the [topology NAME] section {_example(TOPOLOGY_KEYS[name])}, or sweep.{name} here"
            if name in DECIDED_BY_COMMAND and name not in known and known is not TOPOLOGY_KEYS:
                return f"; the key is {name}, and beside src-cmd the command decides it"
    return ""


def _example(key: Key) -> str:
    return f"{key.name} = {key.example} ({key.meaning.partition(';')[0]})"
