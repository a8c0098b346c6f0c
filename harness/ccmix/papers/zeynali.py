"""Zeynali et al. 2024: whether BBRv3 keeps its promises."""

from collections.abc import Iterator

from ccmix.papers import zeynali_figures
from ccmix.papers.experiment import (
    BesidePublished,
    Bound,
    Criterion,
    Experiment,
    Of,
    Paper,
    Quotient,
    Statement,
    Tried,
)

PAPER = Paper(
    "zeynali",
    "D. Zeynali, E. N. Weyulu, S. Fathalli, B. Chandrasekaran and A. Feldmann, Promises and Potential of BBRv3, "
    "PAM 2024",
    "https://doi.org/10.1007/978-3-031-56252-5_12",
)
LONG = "h1"  # the host with 160 ms
BUFFERS = ("1bdp", "4bdp", "16bdp")
LONG_FIRST, SHORT_FIRST = ("long-before-10ms", "long-before-80ms"), ("10ms-before-long", "80ms-before-long")


def _apart(cca: str) -> Of:
    return Of("convergence_s", "apart", at={"cca": f"{cca}:1,{cca}:1+30s"})


def _apart_by_buffer(cca: str, buffer: str) -> Of:
    return Of("convergence_s", "apart-by-buffer", at={"cca": f"{cca}:1,{cca}:1+30s", "buffer": buffer})


def _together(cca: str) -> Of:
    return Of("convergence_s", "together", at={"cca": cca})


def _share_of_long(entry: str, buffer: str) -> Of:
    return Of("share", entry, host=LONG, at={"buffer": buffer})


def _share(entry: str, cca: str, mix: str, rtt: str) -> Of:
    return Of("share", entry, cca=cca, at={"cca": mix, "rtt": rtt})


def _share_beside_one(buffer: str) -> Of:
    return Of("share", "one-beside-one", cca="bbr3", at={"cca": "bbr3,cubic", "buffer": buffer})


AS_HOSTS_ARE = "fq_codel at the senders and offloads on"


def _other_paths() -> Iterator[Tried]:
    """Yields what the slides leave open, tried in another way."""
    for suffix, setting in (("hosts", AS_HOSTS_ARE), ("20ms", "an RTT of 20 ms")):
        entries = {name: f"{name}-{suffix}" for name in ("together", "apart-by-buffer")}
        yield Tried(f"apart-{suffix}", setting, entries=entries)


OTHER_PATHS = tuple(_other_paths())
CONVERGENCE = (
    Statement(
        "longer-when-apart",
        "Slide 'Two competing flows'",
        "Two BBRv3 flows take longer to share fairly if they do not start at the same time.",
        (Bound(Quotient(_apart("bbr3"), _together("bbr3")), least=1.0),),
        tried=OTHER_PATHS,
    ),
    Statement(
        "long-in-a-deep-buffer",
        "Slide 'Conclusion'",
        "BBRv3 flows that start apart take long to share a deep buffer fairly.",
        (Bound(Quotient(_apart("bbr3"), _apart_by_buffer("bbr3", "1bdp")), least=2.0),),
        "long: at least twice the time that they take at 1 BDP",
        tried=OTHER_PATHS,
    ),
    Statement(
        "v2-does-not-converge",
        "Gomez et al. 2024, 2.5.1",
        "BBRv2 flows have trouble to reach a fair share at buffers of more than 1.5 BDP.",
        (Bound(_apart("bbr2"), least=60.0), Bound(_apart_by_buffer("bbr2", "2bdp"), least=60.0)),
        "trouble: not within 60 s of the second flow's start, at 16 and at 2 BDP",
        tried=OTHER_PATHS,
    ),
    Statement(
        "v2-converges-at-1-bdp",
        "Gomez et al. 2024, 2.5.1",
        "Below 1.5 BDP, where that bug does not show, BBRv2 flows reach a fair share.",
        (Bound(_apart_by_buffer("bbr2", "1bdp"), most=60.0),),
        "within 60 s of the second flow's start, at 1 BDP",
        tried=OTHER_PATHS,
    ),
    Statement(
        "v3-converges-faster-than-v2",
        "Gomez et al. 2024, 2.5.1",
        "With the gains of BBRv3, flows converge faster to a fair share than with those of BBRv2.",
        (
            Bound(Quotient(_apart("bbr3"), _apart("bbr2")), most=1.0),
            Bound(Quotient(_apart_by_buffer("bbr3", "2bdp"), _apart_by_buffer("bbr2", "2bdp")), most=1.0),
        ),
        "at 16 and at 2 BDP",
        tried=OTHER_PATHS,
    ),
)
RTT = (
    Statement(
        "long-rtt-ahead-if-first",
        "Slide 'RTT fairness: Long-RTT flow starts first'",
        "The flow with the longer RTT has the larger share, if it starts first.",
        tuple(Bound(_share_of_long(entry, buffer), least=0.5) for entry in LONG_FIRST for buffer in BUFFERS),
    ),
    Statement(
        "long-rtt-ahead-if-second",
        "Slide 'RTT fairness: short-RTT flow starts first'",
        "The bias towards the longer RTT persists in BBRv3: also if that flow starts second.",
        tuple(Bound(_share_of_long(entry, buffer), least=0.5) for entry in SHORT_FIRST for buffer in BUFFERS),
    ),
    Statement(
        "long-rtt-ahead-in-v2",
        "Slide 'Bias towards long RTT flows persists in BBRv3'",
        "BBRv2, from which the bias towards the longer RTT persists, has it, too.",
        tuple(
            Bound(_share_of_long(entry, buffer), least=0.5)
            for entry in ("v2-long-before-10ms", "v2-10ms-before-long")
            for buffer in BUFFERS
        ),
    ),
)
RTTS = ("20ms", "40ms", "100ms")
ONE_ON_HOSTS, SEVERAL_ON_HOSTS = (
    Tried(f"{entry}-hosts", AS_HOSTS_ARE) for entry in ("one-bbr-flow", "several-bbr-flows")
)
FAST = Tried("one-bbr-flow-fast", "1 Gbit/s and offloads on")
COEXISTENCE = (
    Statement(
        "v3-unfair-to-several-cubic-flows",
        "Slide 'Inter-CCA fairness'",
        "One BBRv3 flow has far more than its share beside several CUBIC flows, as one of BBRv1.",
        tuple(
            Bound(_share("one-bbr-flow", cca, f"{cca}:1,cubic:4", rtt), least=0.4)
            for cca in ("bbr", "bbr3")
            for rtt in RTTS
        ),
        "far more: twice the fair share of one of five flows",
        tried=(ONE_ON_HOSTS, FAST),
    ),
    Statement(
        "v2-fair-to-several-cubic-flows",
        "Slide 'Inter-CCA fairness'",
        "One BBRv2 flow shares fairly with several CUBIC flows.",
        tuple(Bound(_share("one-bbr-flow", "bbr2", "bbr2:1,cubic:4", rtt), least=0.12, most=0.28) for rtt in RTTS),
        "fairly: within 0.08 of the fair share, one fifth",
        tried=(ONE_ON_HOSTS,),
    ),
    Statement(
        "several-v3-starve-cubic",
        "Slide 'Inter-CCA fairness'",
        "Several BBRv3 flows leave almost nothing to CUBIC, as those of BBRv1.",
        tuple(
            Bound(_share("several-bbr-flows", cca, f"{cca}:4,cubic:1", rtt), least=0.9)
            for cca in ("bbr", "bbr3")
            for rtt in RTTS
        ),
        "almost nothing: at most 10%",
    ),
    Statement(
        "v3-most-unfair-at-a-shallow-buffer",
        "Slide 'Coexistence with Cubic'",
        "BBRv3's unfairness towards CUBIC is exacerbated at a shallow buffer.",
        (
            Bound(_share_beside_one("1bdp"), least=0.5),
            Bound(Quotient(_share_beside_one("1bdp"), _share_beside_one("16bdp")), least=1.0),
        ),
        "one flow of each: BBRv3 has more than half at 1 BDP, and more than at 16 BDP",
    ),
)
SHARES = Criterion(least_rank=None, most_apart=0.1)  # of three CCAs, ranks say little

EXPERIMENTS = (
    Experiment(
        "zeynali-convergence",
        PAPER,
        "two competing flows at 16 BDP",
        "How long do two flows of one BBR take to share a deep buffer fairly?",
        CONVERGENCE,
        figures=zeynali_figures.CONVERGENCE,
        whys=("cca",),
        unsettled="whether and when the shares settle is what the experiment asks",
    ),
    Experiment(
        "zeynali-rtt",
        PAPER,
        "RTT fairness",
        "Which of two BBRv3 flows gets more, that with the longer RTT or that with the shorter one?",
        RTT,
        figures=zeynali_figures.RTT,
        whys=("cca",),
    ),
    Experiment(
        "zeynali-coexistence",
        PAPER,
        "inter-CCA fairness at 1 BDP",
        "How do BBR flows share with CUBIC flows at a shallow buffer?",
        COEXISTENCE,
        tuple(
            BesidePublished(series, entry, quantity, SHARES, tried=tried)
            for series, entry, tried in (
                ("one BBR flow", "one-bbr-flow", (ONE_ON_HOSTS, FAST)),
                ("several BBR flows", "several-bbr-flows", (SEVERAL_ON_HOSTS,)),
            )
            for quantity in ("share", "fairness")
        ),
        figures=zeynali_figures.COEXISTENCE,
        whys=("cca",),
    ),
)
