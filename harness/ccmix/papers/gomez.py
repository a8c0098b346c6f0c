"""Gomez et al. 2024: BBRv3 in wired broadband networks, over 1 Gbit/s."""

from collections.abc import Sequence

from ccmix.papers import gomez_figures
from ccmix.papers.experiment import (
    BesidePublished,
    Bound,
    Criterion,
    Experiment,
    Of,
    Paper,
    Quantity,
    Quotient,
    Statement,
    Tried,
)

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
WHYS = ("gomez-path", "cca", "sender-queue")
BELOW_1_BDP = ("0.1bdp", "0.5bdp")
TO_10_BDP = ("3bdp", "10bdp")
DEEP = ("30bdp", "100bdp")


LOSS_BUFFERS = ("0.5bdp", "3bdp", "30bdp")
HUNDRED_DEEP = ("50bdp", "100bdp")


def _share(mix: str, cca: str, buffer: str, entry: str = "two-flows") -> Of:
    return Of("share", entry, cca=cca, at={"cca": mix, "buffer": buffer})


def _fairness(mix: str, buffer: str, entry: str = "two-flows") -> Of:
    return Of("fairness", entry, at={"cca": mix, "buffer": buffer})


def _fairnesses(
    mix: str, buffers: Sequence[str], least: float | None, most: float | None, entry: str = "two-flows"
) -> tuple[Bound, ...]:
    return tuple(Bound(_fairness(mix, buffer, entry), least, most) for buffer in buffers)


def _ahead(mix: str, cca: str, buffers: Sequence[str], entry: str = "two-flows") -> tuple[Bound, ...]:
    """Returns bounds by which a CCA has at least half of the link."""
    return tuple(Bound(_share(mix, cca, buffer, entry), least=0.5) for buffer in buffers)


def _behind(mix: str, cca: str, buffers: Sequence[str], entry: str = "two-flows") -> tuple[Bound, ...]:
    return tuple(Bound(_share(mix, cca, buffer, entry), most=0.5) for buffer in buffers)


def _fairer(
    mix: str,
    other: str,
    buffers: Sequence[str],
    least: float = 1.0,
    most: float | None = None,
    entry: str = "two-flows",
) -> tuple[Bound, ...]:
    """Returns bounds on the index of a mix over that of another one."""
    return tuple(
        Bound(Quotient(_fairness(mix, buffer, entry), _fairness(other, buffer, entry)), least, most)
        for buffer in buffers
    )


ON_THE_AUTHORS_PATH = "the path of the authors' scripts (offloads on, a bucket of 500 kB)"
SCRIPTS = (Tried("two-flows-scripts", ON_THE_AUTHORS_PATH),)
SCRIPTS_WITH_LOSS = (Tried("two-flows-loss-scripts", ON_THE_AUTHORS_PATH),)
AS_IN_CUBIC_AND_V2 = (
    Tried("two-flows-offloads", "offloads on"),
    Tried("two-flows-packets", "offloads on and a buffer that counts packets"),
    Tried("two-flows-fq", "fq at the senders"),
    *SCRIPTS,
)
AS_IN_CUBIC_AND_V3_WITH_LOSS = (
    Tried("two-flows-loss-offloads", "offloads on"),
    Tried("two-flows-loss-fq", "fq at the senders"),
    *SCRIPTS_WITH_LOSS,
)
BEYOND_10_BDP = (
    *SCRIPTS,
    Tried("two-flows-limit", "a queue of 1000 joined packets", values={"buffer": {"30bdp": "1000p"}}),
    Tried("two-flows-windows-v1 or two-flows-windows-v2", "windows limited by sockets of 10 BDP"),
)
TWO_FLOWS = (
    Statement(
        "v3-ahead-below-1-bdp",
        "5.1",
        "BBRv3 has more than CUBIC with buffers below 1 BDP.",
        _ahead("cubic,bbr3", "bbr3", BELOW_1_BDP),
        tried=SCRIPTS,
    ),
    Statement(
        "v2-60-percent-below-1-bdp",
        "5.1",
        "Jain's index of BBRv2 and CUBIC is around 60% with buffers below 1 BDP.",
        _fairnesses("cubic,bbr2", BELOW_1_BDP, 0.5, 0.7),
        "around: 50 to 70%",
        tried=AS_IN_CUBIC_AND_V2,
    ),
    Statement(
        "v1-60-percent-below-1-bdp",
        "5.1",
        "Jain's index of BBRv1 and CUBIC is around 60% with buffers below 1 BDP.",
        _fairnesses("cubic,bbr", BELOW_1_BDP, 0.5, 0.7),
        "around: 50 to 70%",
        tried=SCRIPTS,
    ),
    Statement(
        "v3-fairer-than-v1-and-v2-below-1-bdp",
        "5.1",
        "BBRv3 shares more fairly with CUBIC than BBRv1 and BBRv2 with buffers below 1 BDP.",
        (*_fairer("cubic,bbr3", "cubic,bbr", BELOW_1_BDP), *_fairer("cubic,bbr3", "cubic,bbr2", BELOW_1_BDP)),
        tried=SCRIPTS,
    ),
    Statement(
        "v2-between-1-and-10-bdp",
        "5.1",
        "Jain's index of BBRv2 and CUBIC is between 80 and 95% with buffers of 1 to 10 BDP.",
        _fairnesses("cubic,bbr2", TO_10_BDP, 0.8, 0.95),
        tried=AS_IN_CUBIC_AND_V2,
    ),
    Statement(
        "v3-fair-between-1-and-10-bdp",
        "5.1",
        "BBRv3 and CUBIC share fairly with buffers of 1 to 10 BDP.",
        _fairnesses("cubic,bbr3", TO_10_BDP, 0.9, None),
        "fairly: Jain's index of at least 90%",
        tried=SCRIPTS,
    ),
    Statement(
        "v1-less-fair-between-1-and-10-bdp",
        "5.1",
        "BBRv1 shares less fairly with CUBIC than BBRv3 with buffers of 1 to 10 BDP, since it has more than CUBIC.",
        (*_fairer("cubic,bbr3", "cubic,bbr", TO_10_BDP), *_ahead("cubic,bbr", "bbr", TO_10_BDP)),
        tried=SCRIPTS,
    ),
    Statement(
        "cubic-ahead-of-v3-beyond-10-bdp",
        "5.1",
        "CUBIC has more than BBRv3 with buffers above 10 BDP.",
        _behind("cubic,bbr3", "bbr3", DEEP),
        tried=BEYOND_10_BDP[:2],
    ),
    Statement(
        "cubic-not-ahead-of-v1-and-v2-beyond-10-bdp",
        "5.1",
        "CUBIC does not have more than BBRv1 or BBRv2 with buffers above 10 BDP.",
        (*_ahead("cubic,bbr", "bbr", DEEP), *_ahead("cubic,bbr2", "bbr2", DEEP)),
        "they have at least half of the link",
        tried=BEYOND_10_BDP,
    ),
    Statement(
        "v3-ahead-of-v2",
        "5.1",
        "BBRv3 has more than BBRv2 across buffer sizes.",
        _ahead("bbr3,bbr2", "bbr3", (*BELOW_1_BDP, *TO_10_BDP, *DEEP)),
        tried=SCRIPTS,
    ),
    Statement(
        "v3-v1-fairer-than-v1-v2",
        "5.1",
        "BBRv3 and BBRv1 share more fairly than BBRv1 and BBRv2.",
        _fairer("bbr3,bbr", "bbr2,bbr", (*BELOW_1_BDP, *TO_10_BDP, *DEEP)),
        tried=SCRIPTS,
    ),
    Statement(
        "v3-60-percent-with-loss",
        "5.1",
        "With 0.025% of loss, Jain's index of BBRv3 and CUBIC is around 60% below 1 BDP, in favour of BBRv3.",
        (
            *_fairnesses("cubic,bbr3", BELOW_1_BDP, 0.5, 0.7, "two-flows-loss"),
            *_ahead("cubic,bbr3", "bbr3", BELOW_1_BDP, "two-flows-loss"),
        ),
        "around: 50 to 70%",
        tried=AS_IN_CUBIC_AND_V3_WITH_LOSS,
    ),
    Statement(
        "v3-80-percent-with-loss",
        "5.1",
        "With 0.025% of loss, Jain's index of BBRv3 and CUBIC peaks around 80% between 2 and 10 BDP, in favour of "
        "BBRv3.",
        (
            *_fairnesses("cubic,bbr3", TO_10_BDP, 0.7, 0.9, "two-flows-loss"),
            *_ahead("cubic,bbr3", "bbr3", TO_10_BDP, "two-flows-loss"),
        ),
        "around: 70 to 90%",
        tried=AS_IN_CUBIC_AND_V3_WITH_LOSS,
    ),
    Statement(
        "no-fairer-beyond-10-bdp-with-loss",
        "5.1",
        "With 0.025% of loss, larger buffers than 10 BDP improve Jain's index of BBRv3 and CUBIC not substantially: "
        "BBRv3 keeps a significant portion.",
        (
            *(
                Bound(
                    Quotient(
                        _fairness("cubic,bbr3", buffer, "two-flows-loss"),
                        _fairness("cubic,bbr3", "10bdp", "two-flows-loss"),
                    ),
                    most=1.1,
                )
                for buffer in DEEP
            ),
            *_ahead("cubic,bbr3", "bbr3", DEEP, "two-flows-loss"),
        ),
        "substantially: by more than 10%; significant: half or more",
        tried=SCRIPTS_WITH_LOSS,
    ),
    Statement(
        "v1-and-v2-50-percent-with-loss",
        "5.1",
        "With 0.025% of loss, Jain's index of BBRv1, and of BBRv2, and CUBIC is around 50%.",
        (
            *_fairnesses("cubic,bbr", LOSS_BUFFERS, None, 0.6, "two-flows-loss"),
            *_fairnesses("cubic,bbr2", LOSS_BUFFERS, None, 0.6, "two-flows-loss"),
        ),
        "around: up to 60%, since it is never below 50% for two flows",
        tried=SCRIPTS_WITH_LOSS,
    ),
    Statement(
        "v3-ahead-of-v1-with-loss",
        "5.1",
        "With 0.025% of loss, BBRv3 has more than BBRv1.",
        _ahead("bbr3,bbr", "bbr3", LOSS_BUFFERS, "two-flows-loss"),
        tried=SCRIPTS_WITH_LOSS,
    ),
    Statement(
        "v1-ahead-of-v2-with-loss",
        "5.1",
        "With 0.025% of loss, BBRv1 and BBRv2 have a low index, in favour of BBRv1, and BBRv3 and BBRv1 a better one.",
        (
            *_ahead("bbr2,bbr", "bbr", LOSS_BUFFERS, "two-flows-loss"),
            *_fairer("bbr3,bbr", "bbr2,bbr", LOSS_BUFFERS, entry="two-flows-loss"),
        ),
        tried=SCRIPTS_WITH_LOSS,
    ),
)
A_FIFTH = "20 flows over 200 Mbit/s on the path of the authors' scripts"
IN_THE_QUEUE = ("10bdp", "20bdp", "30bdp", "50bdp", "100bdp")
FIFTH = (
    Tried("twenty-flows", A_FIFTH),
    Tried(
        "twenty-flows-limit",
        "the same and a queue of 110 joined packets",
        values={"buffer": dict.fromkeys(IN_THE_QUEUE, "110p")},
    ),
)
FIFTH_WITH_LOSS = (Tried("twenty-flows-loss", A_FIFTH),)
HUNDRED_FLOWS = (
    Statement(
        "hundred-v3-80-to-90-percent",
        "5.1, figure 4b",
        "With 100 flows Jain's index of BBRv3 and CUBIC is at approximately 80 to 90% from 0.1 to 10 BDP.",
        _fairnesses("cubic,bbr3", (*BELOW_1_BDP, *TO_10_BDP), 0.75, 0.95, "hundred-flows"),
        "approximately: 75 to 95%",
        tried=FIFTH,
    ),
    Statement(
        "hundred-v3-fair-at-20-and-30-bdp",
        "5.1, figure 4b",
        "With 100 flows BBRv3 and CUBIC converge to fairness at 20 and 30 BDP.",
        _fairnesses("cubic,bbr3", ("20bdp", "30bdp"), 0.9, None, "hundred-flows"),
        "fairness: Jain's index of at least 90%",
        tried=FIFTH,
    ),
    Statement(
        "hundred-cubic-ahead-of-v3-beyond-30-bdp",
        "5.1, figure 4b",
        "With 100 flows CUBIC has more than BBRv3 above 30 BDP, and Jain's index is approximately 80%.",
        (
            *_behind("cubic,bbr3", "bbr3", HUNDRED_DEEP, "hundred-flows"),
            *_fairnesses("cubic,bbr3", HUNDRED_DEEP, 0.7, 0.9, "hundred-flows"),
        ),
        "approximately: 70 to 90%",
        tried=FIFTH,
    ),
    Statement(
        "hundred-v1-and-v2-fair-beyond-10-bdp",
        "5.1, figure 4b",
        "With 100 flows BBRv1 and CUBIC, and BBRv2 and CUBIC, converge to fairness above 10 BDP.",
        (
            *_fairnesses("cubic,bbr", DEEP, 0.9, None, "hundred-flows"),
            *_fairnesses("cubic,bbr2", DEEP, 0.9, None, "hundred-flows"),
        ),
        "fairness: Jain's index of at least 90%",
        tried=FIFTH,
    ),
    Statement(
        "hundred-v3-ahead-of-v2",
        "5.1, figure 4b",
        "With 100 flows BBRv3 has more than BBRv2.",
        _ahead("bbr3,bbr2", "bbr3", (*BELOW_1_BDP, *TO_10_BDP, *DEEP), "hundred-flows"),
        tried=FIFTH,
    ),
    Statement(
        "hundred-v1-v2-less-fair-below-2-bdp",
        "5.1, figure 4b",
        "With 100 flows BBRv1 and BBRv2 share less fairly than BBRv3 and BBRv1 below 2 BDP, and as fairly with large "
        "buffers.",
        (
            *_fairer("bbr3,bbr", "bbr2,bbr", BELOW_1_BDP, entry="hundred-flows"),
            *_fairer("bbr3,bbr", "bbr2,bbr", DEEP, 0.9, 1.1, "hundred-flows"),
        ),
        "large: 30 and 100 BDP; as fairly: within 10%",
        tried=FIFTH,
    ),
    Statement(
        "hundred-v3-80-percent-with-loss",
        "5.1, figure 4d",
        "With 100 flows and 0.025% of loss Jain's index of BBRv3 and CUBIC is around 80% from 0.1 to 1 BDP.",
        _fairnesses("cubic,bbr3", (*BELOW_1_BDP, "1bdp"), 0.7, 0.9, "hundred-flows-loss"),
        "around: 70 to 90%",
        tried=FIFTH_WITH_LOSS,
    ),
    Statement(
        "hundred-v3-90-percent-with-loss",
        "5.1, figure 4d",
        "With 100 flows and 0.025% of loss Jain's index of BBRv3 and CUBIC is about 90% between 1 and 10 BDP.",
        _fairnesses("cubic,bbr3", ("2bdp", "5bdp", "9bdp"), 0.8, None, "hundred-flows-loss"),
        "about: at least 80%",
        tried=FIFTH_WITH_LOSS,
    ),
    Statement(
        "hundred-v3-fair-beyond-10-bdp-with-loss",
        "5.1, figure 4d",
        "With 100 flows and 0.025% of loss BBRv3 and CUBIC converge close to fairness above 10 BDP.",
        _fairnesses("cubic,bbr3", DEEP, 0.9, None, "hundred-flows-loss"),
        "close to fairness: Jain's index of at least 90%",
        tried=FIFTH_WITH_LOSS,
    ),
    Statement(
        "hundred-v1-as-v2-beyond-4-bdp-with-loss",
        "5.1, figure 4d",
        "With 100 flows and 0.025% of loss Jain's indices of BBRv1 and CUBIC and of BBRv2 and CUBIC are similar above "
        "4 BDP.",
        _fairer("cubic,bbr", "cubic,bbr2", ("5bdp", "10bdp", *DEEP), 0.9, 1.1, "hundred-flows-loss"),
        "similar: within 10%",
        tried=FIFTH_WITH_LOSS,
    ),
    Statement(
        "hundred-v3-ahead-of-v2-with-loss",
        "5.1, figure 4d",
        "With 100 flows and 0.025% of loss BBRv3 has more than BBRv2.",
        _ahead("bbr3,bbr2", "bbr3", LOSS_BUFFERS, "hundred-flows-loss"),
        tried=FIFTH_WITH_LOSS,
    ),
    Statement(
        "hundred-v3-ahead-of-v1-below-3-bdp-with-loss",
        "5.1, figure 4d",
        "With 100 flows and 0.025% of loss BBRv3 has more than BBRv1 below 3 BDP, and with larger buffers the two "
        "converge towards fairness.",
        (
            *_ahead("bbr3,bbr", "bbr3", BELOW_1_BDP, "hundred-flows-loss"),
            *_fairnesses("bbr3,bbr", ("10bdp", *DEEP), 0.9, None, "hundred-flows-loss"),
        ),
        "fairness: Jain's index of at least 90%",
        tried=FIFTH_WITH_LOSS,
    ),
)
FIG4 = (*TWO_FLOWS, *HUNDRED_FLOWS)
LONG, SHORT = "h2", "h1"  # the hosts with 100 and with 20 ms


def _two_rtts(cca: str, buffer: str, quantity: Quantity = "fairness", host: str | None = None) -> Of:
    return Of(quantity, "drop-tail", host=host, at={"cca": cca, "buffer": buffer})


ABOVE_1_BDP = ("2bdp", "5bdp", "10bdp")
SHORTER_BDP = {"0.2bdp": "0.04bdp", "0.5bdp": "0.1bdp", "2bdp": "0.4bdp", "5bdp": "1bdp", "10bdp": "2bdp"}
TWO_RTTS = (
    Tried("drop-tail-offloads", "offloads on"),
    Tried(
        "drop-tail-scripts",
        "the path of the authors' scripts (the BDP of 20 ms, offloads on, a bucket of 500 kB)",
        values={"buffer": SHORTER_BDP},
    ),
)
FIG5 = (
    Statement(
        "v1-60-percent-above-1-bdp",
        "5.2",
        "Jain's index of two BBRv1 flows of different RTTs drops to approximately 60% with buffers above 1 BDP.",
        tuple(Bound(_two_rtts("bbr", buffer), least=0.5, most=0.7) for buffer in ABOVE_1_BDP),
        "approximately: 50 to 70%",
        tried=TWO_RTTS,
    ),
    Statement(
        "v2-at-least-80-percent",
        "5.2",
        "Jain's index of two BBRv2 flows of different RTTs does not fall below 80% with buffers above 1 BDP.",
        tuple(Bound(_two_rtts("bbr2", buffer), least=0.8) for buffer in ABOVE_1_BDP),
        tried=TWO_RTTS,
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
        tried=TWO_RTTS,
    ),
    Statement(
        "v3-fair-below-1-bdp",
        "5.2",
        "Two BBRv3 flows of different RTTs tend to fairness with buffers below 1 BDP.",
        tuple(Bound(_two_rtts("bbr3", buffer), least=0.9) for buffer in ("0.2bdp", "0.5bdp")),
        "fairness: Jain's index of at least 90%",
        tried=TWO_RTTS,
    ),
    Statement(
        "v3-fairer-than-v2-above-1-bdp",
        "5.2",
        "Two BBRv3 flows of different RTTs share more fairly than two of BBRv2 with buffers above 1 BDP.",
        tuple(
            Bound(Quotient(_two_rtts("bbr3", buffer), _two_rtts("bbr2", buffer)), least=1.0) for buffer in ABOVE_1_BDP
        ),
        tried=TWO_RTTS,
    ),
    Statement(
        "v2-as-v1-below-1-bdp",
        "5.2",
        "Two BBRv2 flows of different RTTs share as fairly as two of BBRv1 with buffers below 1 BDP.",
        tuple(
            Bound(Quotient(_two_rtts("bbr2", buffer), _two_rtts("bbr", buffer)), least=0.9, most=1.1)
            for buffer in ("0.2bdp", "0.5bdp")
        ),
        "as fairly: within 10%",
        tried=TWO_RTTS,
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


def _queue(cca: str, buffer: str, quantity: Quantity = "queue_mean_bdp") -> Of:
    return Of(quantity, "one-flow", at={"cca": cca, "buffer": buffer})


QUEUES = ("1bdp", "4bdp", "10bdp")
OF_ALL = "one-flow-delay-bbr or one-flow-delay-bbr2 or one-flow-delay-bbr3"
WITH_DELAY = Tried(OF_ALL, "the backlog that the authors' scripts read, which holds what netem delays, too")
FIG6 = (
    Statement(
        "v3-at-most-half-a-bdp",
        "5.3",
        "BBRv3's queue does not exceed half a BDP.",
        tuple(Bound(_queue("bbr3", buffer), most=0.5) for buffer in QUEUES),
        "the mean, since the paper averages its samples",
        tried=(WITH_DELAY,),
    ),
    Statement(
        "v3-hardly-ever-above-half-a-bdp",
        "5.3",
        "BBRv3 prevents its queue from exceeding half a BDP.",
        tuple(Bound(_queue("bbr3", buffer, "queue_p95_bdp"), most=0.5) for buffer in QUEUES),
        "not on average alone: 95% of the samples do not exceed it",
        tried=(WITH_DELAY,),
    ),
    Statement(
        "v1-and-v2-around-half-a-bdp",
        "5.3",
        "The standing queue of BBRv1 and BBRv2 is around half a BDP.",
        tuple(Bound(_queue(cca, buffer), least=0.25, most=0.75) for cca in ("bbr", "bbr2") for buffer in QUEUES),
        "around: a quarter to three quarters",
        tried=(Tried("one-flow-offloads", "offloads on"), Tried("one-flow-fq", "fq at the sender"), WITH_DELAY),
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


LOSS_SCRIPTS = Tried("loss-scripts", "the path of the authors' scripts (offloads on, a queue of 1000 joined packets)")
OFFLOADS = (Tried("loss-offloads or loss-offloads-again", "offloads on"), LOSS_SCRIPTS)
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
        tried=OFFLOADS,
    ),
    Statement(
        "v2-and-v3-60-percent-at-0.5-percent",
        "5.4",
        "BBRv2 and BBRv3 achieve around 60% of their maximum with 0.5% of loss.",
        _kept_by(NEW, "0.5%", 0.5, 0.7, "loss"),
        "around: 50 to 70%",
        tried=(
            *OFFLOADS,
            Tried("loss-fq", "fq at the sender"),
            Tried("loss-40ms", "offloads on and 20 ms in each direction"),
            Tried("loss-10ms", "offloads on and an RTT of 10 ms"),
            Tried("reference", "fq, 100 Mbit/s and 40 ms, where Google's own code keeps about 90%"),
        ),
    ),
    Statement(
        "v2-and-v3-retransmit-most-at-0.5-percent",
        "5.4",
        "BBRv2 and BBRv3 retransmit most at 0.5% of loss.",
        tuple(
            Bound(Quotient(_at_loss(cca, "0.5%", "retransmits"), _at_loss(cca, other, "retransmits")), least=1.0)
            for cca in NEW
            for other in ("0.1%", "1%", "5%")
        ),
        "more segments than at 0.1, 1 and 5%",
        tried=(LOSS_SCRIPTS,),
    ),
    Statement(
        "alike-retransmissions-with-little-loss",
        "5.4",
        "At 0.001% and 0.01% of loss CUBIC, BBRv2 and BBRv3 retransmit similar numbers of segments.",
        tuple(
            Bound(
                Quotient(_at_loss(cca, loss, "retransmits"), _at_loss("bbr3", loss, "retransmits")), least=0.5, most=2.0
            )
            for loss in ("0.001%", "0.01%")
            for cca in ("cubic", "bbr2")
        ),
        "similar: by a factor of at most 2",
        tried=OFFLOADS,
    ),
    Statement(
        "cubic-retransmissions-settle",
        "5.4",
        "The number of segments that CUBIC retransmits settles for loss above 0.1%, around 1000.",
        tuple(
            Bound(
                Quotient(_at_loss("cubic", loss, "retransmits"), _at_loss("cubic", "0.1%", "retransmits")),
                least=0.5,
                most=2.0,
            )
            for loss in ("0.5%", "1%", "5%")
        ),
        "settles: differs from that at 0.1% by a factor of at most 2; how many they are depends on the duration",
        tried=(LOSS_SCRIPTS,),
    ),
    Statement(
        "v2-and-v3-above-20-percent-at-1-percent",
        "5.4",
        "BBRv2 and BBRv3 stay above 20% until loss exceeds 1%.",
        tuple(Bound(_at_loss(cca, "1%"), least=0.2) for cca in NEW),
        tried=(LOSS_SCRIPTS,),
    ),
    Statement(
        "v1-keeps-1-gbit",
        "5.4",
        "BBRv1 has around 1 Gbit/s even with 20% of loss.",
        tuple(Bound(_at_loss("bbr", loss), least=0.75) for loss in ("1%", "5%", "20%")),
        "around: at least 75% of the link",
        tried=(LOSS_SCRIPTS, Tried("loss-below-a-fifth", "15% of loss", values={"loss": {"20%": "15%"}})),
    ),
    Statement(
        "v1-retransmits-more",
        "5.4",
        "BBRv1 retransmits significantly more than BBRv2 and BBRv3 with 1 to 20% of loss.",
        tuple(
            Bound(Quotient(_at_loss("bbr", loss, "retransmits"), _at_loss(cca, loss, "retransmits")), least=2.0)
            for loss in ("1%", "5%", "20%")
            for cca in NEW
        ),
        "significantly: twice as many segments or more",
        tried=(LOSS_SCRIPTS,),
    ),
)


def _at_rtt(cca: str, rtt: str, quantity: Quantity = "utilisation") -> Of:
    return Of(quantity, "one-flow", at={"cca": cca, "rtt": rtt})


def _v1_over_v2(rtt: str) -> Quotient:
    return Quotient(_at_rtt("bbr", rtt, "retransmits"), _at_rtt("bbr2", rtt, "retransmits"))


ONE_FLOW_SCRIPTS = (Tried("one-flow-scripts", ON_THE_AUTHORS_PATH),)
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
        "CUBIC is slower than all versions of BBR at RTTs above 2 ms.",
        tuple(
            Bound(Quotient(_at_rtt("cubic", rtt, "goodput_bps"), _at_rtt(cca, rtt, "goodput_bps")), most=0.9)
            for cca in ("bbr", "bbr2", "bbr3")
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
        tried=ONE_FLOW_SCRIPTS,
    ),
    Statement(
        "v2-retransmits-more-as-rtt-grows",
        "5.5",
        "BBRv2 retransmits more segments as the RTT grows.",
        (Bound(Quotient(_at_rtt("bbr2", "100ms", "retransmits"), _at_rtt("bbr2", "20ms", "retransmits")), least=1.0),),
        "100 ms against 20 ms",
        tried=ONE_FLOW_SCRIPTS,
    ),
    Statement(
        "v1-retransmits-more-than-v2-up-to-20-ms",
        "5.5",
        "BBRv1 retransmits more than BBRv2 at RTTs of 2 and 20 ms, and similarly at longer ones.",
        (
            *(Bound(_v1_over_v2(rtt), least=1.0) for rtt in ("2ms", "20ms")),
            *(Bound(_v1_over_v2(rtt), least=0.5, most=2.0) for rtt in ("60ms", "100ms")),
        ),
        "longer: 60 and 100 ms; similarly: by a factor of at most 2",
    ),
)

EXPERIMENTS = (
    Experiment(
        "gomez-fig4",
        PAPER,
        "figure 4",
        "How do two CCAs share a link, by the size of its buffer, with and without loss?",
        FIG4,
        figures=gomez_figures.FIG4,
        whys=WHYS,
        unsettled=UNSETTLED,
    ),
    Experiment(
        "gomez-fig5",
        PAPER,
        "figure 5",
        "How do two flows of one BBR with RTTs of 20 and 100 ms share a link?",
        FIG5,
        figures=gomez_figures.FIG5,
        whys=WHYS,
        unsettled=UNSETTLED,
    ),
    Experiment(
        "gomez-fig6",
        PAPER,
        "figure 6",
        "How much does one flow queue, by the size of the buffer?",
        FIG6,
        figures=gomez_figures.FIG6,
        whys=WHYS,
        unsettled=UNSETTLED_FIG6,
    ),
    Experiment(
        "gomez-fig7",
        PAPER,
        "figure 7",
        "What does loss do to the throughput of one flow?",
        FIG7,
        (
            BesidePublished(
                "Google's own code", "reference", "goodput_bps", Criterion(least_rank=None, most_factor=1.05)
            ),
        ),
        figures=gomez_figures.FIG7,
        whys=WHYS,
        unsettled=UNSETTLED,
    ),
    Experiment(
        "gomez-fig8",
        PAPER,
        "figure 8",
        "What does the RTT do to the throughput of one flow on a lossy path?",
        FIG8,
        figures=gomez_figures.FIG8,
        whys=WHYS,
        unsettled=UNSETTLED,
    ),
)
