"""Gomez et al. 2024: BBRv3 in wired broadband networks, over 1 Gbit/s."""

from collections.abc import Sequence

from ccmix.papers.experiment import Bound, Experiment, Of, Paper, Quantity, Quotient, Statement, Tried

PAPER = Paper(
    "gomez",
    "J. Gomez, E. F. Kfoury, J. Crichigno and G. Srivastava, Evaluating TCP BBRv3 Performance in Wired Broadband "
    "Networks, Computer Communications 2024",
    "https://doi.org/10.1016/j.comcom.2024.04.037",
)
UNSETTLED = (
    "the paper's flows send for 120 s from their start, as those of the full form; the reduced form's send for less"
)
UNSETTLED_FIG6 = UNSETTLED.replace("120 s", "500 s")
BELOW_1_BDP = ("0.1bdp", "0.5bdp")
TO_10_BDP = ("3bdp", "10bdp")
DEEP = ("30bdp", "100bdp")


def _share(mix: str, cca: str, buffer: str, entry: str = "two-flows") -> Of:
    return Of("share", entry, cca=cca, at={"cca": mix, "buffer": buffer})


def _fairness(mix: str, buffer: str, entry: str = "two-flows") -> Of:
    return Of("fairness", entry, at={"cca": mix, "buffer": buffer})


FIG4 = (
    Statement(
        "v3-ahead-below-1-bdp",
        "5.1",
        "BBRv3 has more than CUBIC with buffers below 1 BDP.",
        tuple(Bound(_share("cubic,bbr3", "bbr3", buffer), least=0.5) for buffer in BELOW_1_BDP),
    ),
    Statement(
        "v2-60-percent-below-1-bdp",
        "5.1",
        "Jain's index of BBRv2 and CUBIC is around 60% with buffers below 1 BDP.",
        tuple(Bound(_fairness("cubic,bbr2", buffer), least=0.5, most=0.7) for buffer in BELOW_1_BDP),
        "around: 50 to 70%",
    ),
    Statement(
        "v2-between-1-and-10-bdp",
        "5.1",
        "Jain's index of BBRv2 and CUBIC is between 80 and 95% with buffers of 1 to 10 BDP.",
        tuple(Bound(_fairness("cubic,bbr2", buffer), least=0.8, most=0.95) for buffer in TO_10_BDP),
    ),
    Statement(
        "v3-fair-between-1-and-10-bdp",
        "5.1",
        "BBRv3 and CUBIC share fairly with buffers of 1 to 10 BDP.",
        tuple(Bound(_fairness("cubic,bbr3", buffer), least=0.9) for buffer in TO_10_BDP),
        "fairly: Jain's index of at least 90%",
    ),
    Statement(
        "cubic-ahead-of-v3-beyond-10-bdp",
        "5.1",
        "CUBIC has more than BBRv3 with buffers above 10 BDP.",
        tuple(Bound(_share("cubic,bbr3", "bbr3", buffer), most=0.5) for buffer in DEEP),
    ),
    Statement(
        "v3-ahead-of-v2",
        "5.1",
        "BBRv3 has more than BBRv2 across buffer sizes.",
        tuple(Bound(_share("bbr3,bbr2", "bbr3", buffer), least=0.5) for buffer in (*BELOW_1_BDP, *TO_10_BDP, *DEEP)),
    ),
    Statement(
        "v3-60-percent-with-loss",
        "5.1",
        "With 0.025% of loss, Jain's index of BBRv3 and CUBIC is around 60% below 1 BDP, in favour of BBRv3.",
        tuple(
            bound
            for buffer in BELOW_1_BDP
            for bound in (
                Bound(_fairness("cubic,bbr3", buffer, "two-flows-loss"), least=0.5, most=0.7),
                Bound(_share("cubic,bbr3", "bbr3", buffer, "two-flows-loss"), least=0.5),
            )
        ),
        "around: 50 to 70%",
    ),
    Statement(
        "v3-80-percent-with-loss",
        "5.1",
        "With 0.025% of loss, Jain's index of BBRv3 and CUBIC peaks around 80% between 2 and 10 BDP.",
        tuple(Bound(_fairness("cubic,bbr3", buffer, "two-flows-loss"), least=0.7, most=0.9) for buffer in TO_10_BDP),
        "around: 70 to 90%",
    ),
)
LONG, SHORT = "h2", "h1"  # the hosts with 100 and with 20 ms


def _two_rtts(cca: str, buffer: str, quantity: Quantity = "fairness", host: str | None = None) -> Of:
    return Of(quantity, "drop-tail", host=host, at={"cca": cca, "buffer": buffer})


ABOVE_1_BDP = ("2bdp", "5bdp", "10bdp")
FIG5 = (
    Statement(
        "v1-60-percent-above-1-bdp",
        "5.2",
        "Jain's index of two BBRv1 flows of different RTTs drops to approximately 60% with buffers above 1 BDP.",
        tuple(Bound(_two_rtts("bbr", buffer), least=0.5, most=0.7) for buffer in ABOVE_1_BDP),
        "approximately: 50 to 70%",
    ),
    Statement(
        "v2-at-least-80-percent",
        "5.2",
        "Jain's index of two BBRv2 flows of different RTTs does not fall below 80% with buffers above 1 BDP.",
        tuple(Bound(_two_rtts("bbr2", buffer), least=0.8) for buffer in ABOVE_1_BDP),
    ),
    Statement(
        "v3-around-80-percent",
        "5.2",
        "Jain's index of two BBRv3 flows of different RTTs settles around 80% with buffers above 1 BDP, and the longer "
        "RTT has more.",
        tuple(
            bound
            for buffer in ABOVE_1_BDP
            for bound in (
                Bound(_two_rtts("bbr3", buffer), least=0.7, most=0.9),
                Bound(_two_rtts("bbr3", buffer, "share", LONG), least=0.5),
            )
        ),
        "around: 70 to 90%",
    ),
    Statement(
        "v3-fair-below-1-bdp",
        "5.2",
        "Two BBRv3 flows of different RTTs tend to fairness with buffers below 1 BDP.",
        tuple(Bound(_two_rtts("bbr3", buffer), least=0.9) for buffer in ("0.2bdp", "0.5bdp")),
        "fairness: Jain's index of at least 90%",
    ),
    Statement(
        "fq-codel-mitigates",
        "5.2",
        "FQ-CoDel mitigates the unfairness between two BBRv3 flows of different RTTs.",
        tuple(
            Bound(Of("fairness", "fq-codel", at={"buffer": buffer}), least=0.95) for buffer in ("1bdp", "5bdp", "10bdp")
        ),
        "mitigates: Jain's index of at least 95%",
    ),
)


def _queue(cca: str, buffer: str) -> Of:
    return Of("queue_mean_bdp", "one-flow", at={"cca": cca, "buffer": buffer})


QUEUES = ("1bdp", "4bdp", "10bdp")
FIG6 = (
    Statement(
        "v3-at-most-half-a-bdp",
        "5.3",
        "BBRv3's queue does not exceed half a BDP.",
        tuple(Bound(_queue("bbr3", buffer), most=0.5) for buffer in QUEUES),
        "the paper averages its samples: the mean",
    ),
    Statement(
        "v1-and-v2-around-half-a-bdp",
        "5.3",
        "The standing queue of BBRv1 and BBRv2 is around half a BDP.",
        tuple(Bound(_queue(cca, buffer), least=0.25, most=0.75) for cca in ("bbr", "bbr2") for buffer in QUEUES),
        "around: a quarter to three quarters",
    ),
    Statement(
        "cubic-fills-the-queue",
        "5.3",
        "CUBIC fills the queue: with 10 BDP the latency is around 200 ms.",
        (Bound(Of("rtt_p95_s", "one-flow", at={"cca": "cubic", "buffer": "10bdp"}), least=0.15, most=0.25),),
        "around: 150 to 250 ms, the 95th percentile",
    ),
)
NEW = ("bbr2", "bbr3")


def _at_loss(cca: str, loss: str, quantity: Quantity = "utilisation", entry: str = "loss") -> Of:
    return Of(quantity, entry, at={"cca": cca, "loss": loss})


def _kept(cca: str, loss: str, entry: str = "loss") -> Quotient:
    """Returns the goodput over that with the least loss."""
    return Quotient(_at_loss(cca, loss, "goodput_bps", entry), _at_loss(cca, "0.001%", "goodput_bps", entry))


def _kept_by(ccas: Sequence[str], loss: str, least: float | None, most: float | None, entry: str) -> tuple[Bound, ...]:
    return tuple(Bound(_kept(cca, loss, entry), least, most) for cca in ccas)


OFFLOADS = (Tried("loss-offloads", "offloads on"),)
FIG7 = (
    Statement(
        "cubic-60-percent-at-0.01-percent",
        "5.4",
        "CUBIC dips to 60% with 0.01% of loss.",
        (Bound(_at_loss("cubic", "0.01%"), least=0.5, most=0.7),),
        "60%: 50 to 70% of the link",
        tried=OFFLOADS,
    ),
    Statement(
        "cubic-below-20-percent-at-0.1-percent",
        "5.4",
        "CUBIC gets less than 20% of the bandwidth with 0.1% of loss.",
        (Bound(_at_loss("cubic", "0.1%"), most=0.2),),
        tried=OFFLOADS,
    ),
    Statement(
        "v2-and-v3-keep-up-to-0.1-percent",
        "5.4",
        "BBRv2 and BBRv3 decline noticeably only with more than 0.1% of loss.",
        _kept_by(NEW, "0.1%", 0.9, None, "loss"),
        "noticeably: by more than 10%",
    ),
    Statement(
        "v2-and-v3-60-percent-at-0.5-percent",
        "5.4",
        "BBRv2 and BBRv3 achieve around 60% of their maximum with 0.5% of loss.",
        _kept_by(NEW, "0.5%", 0.5, 0.7, "loss"),
        "around: 50 to 70%",
        tried=OFFLOADS,
    ),
    Statement(
        "v2-and-v3-above-20-percent-at-1-percent",
        "5.4",
        "BBRv2 and BBRv3 stay above 20% until loss exceeds 1%.",
        tuple(Bound(_at_loss(cca, "1%"), least=0.2) for cca in NEW),
    ),
    Statement(
        "v1-keeps-1-gbit",
        "5.4",
        "BBRv1 has around 1 Gbit/s even with 20% of loss.",
        tuple(Bound(_at_loss("bbr", loss), least=0.75) for loss in ("1%", "5%", "20%")),
        "around: at least 75% of the link",
    ),
    Statement(
        "v1-retransmits-more",
        "5.4",
        "BBRv1 retransmits significantly more than BBRv2 and BBRv3 with 1% of loss and more.",
        tuple(
            Bound(Quotient(_at_loss("bbr", "1%", "retransmits"), _at_loss(cca, "1%", "retransmits")), least=2.0)
            for cca in NEW
        ),
        "significantly: twice as many segments or more, with 1%",
    ),
)


def _at_rtt(cca: str, rtt: str, quantity: Quantity = "utilisation") -> Of:
    return Of(quantity, "one-flow", at={"cca": cca, "rtt": rtt})


FIG8 = (
    Statement(
        "bbr-keeps-its-throughput",
        "5.5",
        "All versions of BBR keep a high throughput over RTTs from 2 to 100 ms, with 0.025% of loss.",
        tuple(
            Bound(_at_rtt(cca, rtt), least=0.8) for cca in ("bbr", "bbr2", "bbr3") for rtt in ("2ms", "20ms", "100ms")
        ),
        "high: at least 80% of the link",
    ),
    Statement(
        "cubic-is-slower",
        "5.5",
        "CUBIC is slower than BBRv3 at RTTs above 2 ms.",
        tuple(
            Bound(Quotient(_at_rtt("cubic", rtt, "goodput_bps"), _at_rtt("bbr3", rtt, "goodput_bps")), most=0.9)
            for rtt in ("20ms", "100ms")
        ),
        "slower: by 10% or more",
    ),
    Statement(
        "v3-retransmits-less-as-rtt-grows",
        "5.5",
        "BBRv3 retransmits fewer segments as the RTT grows.",
        (Bound(Quotient(_at_rtt("bbr3", "100ms", "retransmits"), _at_rtt("bbr3", "20ms", "retransmits")), most=1.0),),
        "100 ms against 20 ms",
    ),
    Statement(
        "v2-retransmits-more-as-rtt-grows",
        "5.5",
        "BBRv2 retransmits more segments as the RTT grows.",
        (Bound(Quotient(_at_rtt("bbr2", "100ms", "retransmits"), _at_rtt("bbr2", "20ms", "retransmits")), least=1.0),),
        "100 ms against 20 ms",
    ),
)

EXPERIMENTS = (
    Experiment(
        "gomez-fig4",
        PAPER,
        "figure 4",
        "How do two CCAs share a link, by the size of its buffer, with and without loss?",
        FIG4,
        unsettled=UNSETTLED,
    ),
    Experiment(
        "gomez-fig5",
        PAPER,
        "figure 5",
        "How do two flows of one BBR with RTTs of 20 and 100 ms share a link?",
        FIG5,
        unsettled=UNSETTLED,
    ),
    Experiment(
        "gomez-fig6",
        PAPER,
        "figure 6",
        "How much does one flow queue, by the size of the buffer?",
        FIG6,
        unsettled=UNSETTLED_FIG6,
    ),
    Experiment(
        "gomez-fig7", PAPER, "figure 7", "What does loss do to the throughput of one flow?", FIG7, unsettled=UNSETTLED
    ),
    Experiment(
        "gomez-fig8",
        PAPER,
        "figure 8",
        "What does the RTT do to the throughput of one flow on a lossy path?",
        FIG8,
        unsettled=UNSETTLED,
    ),
)
