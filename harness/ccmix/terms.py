"""Defines names that several packages share: CCAs, and what can limit a run or make it invalid."""

# CCAs by the names that the kernel knows them by (net/ipv4/Kconfig of Linux 7.2), and the BBR
# versions that ccmix or Google's tree add. Before a run ccmix asks the host which of them it has.
CCAS = (
    "bbr",
    "bbr2",
    "bbr3",
    "bic",
    "cdg",
    "cubic",
    "dctcp",
    "highspeed",
    "htcp",
    "hybla",
    "illinois",
    "lp",
    "nv",
    "reno",
    "scalable",
    "vegas",
    "veno",
    "westwood",
    "yeah",
)

# The versions of BBR among the CCAs, with their names for people. Their sockets report the state of
# BBR's model. bbr is part of Linux; the others are not.
BBRS = {"bbr": "BBR", "bbr2": "BBRv2", "bbr3": "BBRv3"}

# The CCAs that ccmix-cca can load into a stock kernel, as BPF programs
BPF_CCAS = ("bbr2", "bbr3")

# What can limit a run that is not valid, and the phrase for it in a report.
LIMITS = {
    "receiver-window": "the receiver's window",
    "send-buffer": "the sender's socket buffer",
    "tcp-memory": "the kernel's limit of TCP memory",
    "sender-queue": "the sender's own queue",
    "host-backlog": "the backlog of a host or of the emulation (softnet)",
    "netem-limit": "netem's own packet limit",
    "cca": "a CCA other than the one asked for",
    "offloads": "packets that the host's offloads joined, or did not",
    "rtt": "a path whose RTT is not the one configured",
    "rate": "a bottleneck whose rate is not the one configured",
    "loss": "a path whose loss is not the one configured",
    "buffer": "a bottleneck whose buffer is not the one configured",
    "spread": "streams that did not start when the run's seed said",
    "application": "a sender that had nothing to send",
    "queue": "a queue discipline that is not the one configured",
    "policer": "a policer that is not the one configured",
    "path": "a path that is not the one configured",
    "changes": "a path that was changed in another way than configured",
    "ecn": "ECN that is not as configured",
    "kernel": "a kernel that is not the one configured",
    "host-root": "a guest's root that is not the one configured",
    "parameter": "a module's parameter that is not as configured",
    "traffic": "traffic that is not the one configured",
    "conservation": "packets that nothing configured adds, drops or holds",
    "physics": "a metric that is impossible on this path",
    "cpu": "the processor",
    "probe": "a probe that lost samples",
}

PROBE = "probe"  # the limit that says that something was not seen, not that it limited the run

# The user's remedy for each limit of a host, and for a probe that lost samples
REMEDIES = {
    "cpu": "larger packets (MTU) and offloads, streams on more cores, and no other programs on the "
    "hosts; 'ccmix doctor' checks both hosts",
    "receiver-window": "a larger last number of net.ipv4.tcp_rmem at the receiver",
    "send-buffer": "a larger last number of net.ipv4.tcp_wmem at the sender",
    "tcp-memory": "a larger net.ipv4.tcp_mem",
    "sender-queue": "room for more packets in the sender's queue, such as a larger limit and "
    "flow_limit of fq, or slower pacing",
    "host-backlog": "a larger net.core.netdev_max_backlog, and interrupts on more cores",
    "application": "a sending program that always has data to send",
    PROBE: "a longer interval, a shell on the host, and time on its processors for the probes",
}

# the finding of each imported run: ccmix can't judge the run, but tables count it
IMPORTED = "imported"

# the finding of an imported test that somebody or something ended before its time
ENDED_EARLY = "ended-early"
BESIDE = "beside"  # the setting of an imported run that names the tests that ran at the same time
