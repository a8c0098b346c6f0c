"""Names that several parts share: congestion control algorithms, and what a run can be limited by."""

# CCAs by the names that the kernel knows them by (net/ipv4/Kconfig of Linux 7.2), and the BBR versions that ccmix or
# Google's tree add. Which of them a host really has is asked of the host before a run.
CCAS = (
    "bbr", "bbr2", "bbr3", "bic", "cdg", "cubic", "dctcp", "highspeed", "htcp", "hybla", "illinois", "lp", "nv", "reno",
    "scalable", "vegas", "veno", "westwood", "yeah",
)  # fmt: skip

# What a run that is not valid was limited by, and the sentence that says so in a report.
LIMITS = {
    "receiver-window": "the receiver's window",
    "send-buffer": "the sender's socket buffer",
    "tcp-memory": "the kernel's limit of TCP memory",
    "sender-queue": "the sender's own queue (fq dropped packets)",
    "host-backlog": "the backlog of a host or of the emulation (softnet)",
    "netem-limit": "netem's own packet limit",
    "cca": "a CCA other than the one asked for",
    "offloads": "packets that the host's offloads joined, or did not",
    "rtt": "a path whose RTT is not the one configured",
    "rate": "a bottleneck whose rate is not the one configured",
    "loss": "a path whose loss is not the one configured",
    "buffer": "a bottleneck whose buffer is not the one configured",
    "cpu": "a processor without idle time",
    "probe": "a probe that lost samples",
}

IMPORTED = (
    "imported"  # the finding of a run that ccmix did not make: its user wants it in the tables, unjudged as it is
)
