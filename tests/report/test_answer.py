"""Tests the sentences at the top of a report, of comparisons whose numbers are chosen."""

from dataclasses import replace

import pytest

from ccmix.analysis.comparison import Paired
from ccmix.analysis.ratio import Ratio
from ccmix.analysis.sharing import Alone, Beside, SharedPlace, Sharing, Single
from ccmix.analysis.statistics import Spread
from ccmix.model import Buffer, Queue
from ccmix.report.answer import answer
from support import TOPOLOGY, iperf3_traffic, with_senders

NONE = Sharing(alone=(), beside=(), singles=(), runs=6, imported=0, left_out=(), compared=0)


def place(delay_s: float = 0.044, loss: str = "0.1%") -> SharedPlace:
    condition = (("delay", f"{delay_s * 1e3:g}ms"), ("loss", loss))
    path = with_senders(TOPOLOGY, delay_s=delay_s)
    return SharedPlace("receiver", condition, path, iperf3_traffic((), 8, 10.0, 0.0, 1.0))


def alone(ratio: float, where: SharedPlace, p: float | None = 0.001, cca: str = "bbr", needed: int | None = 3) -> Alone:
    result = Paired(5, 400e6, (ratio - 1) * 400e6, None, None, None, p, needed)
    return Alone(where, cca, "cubic", result, Ratio(ratio, (ratio - 0.1, ratio + 0.1)), p)


def beside(share: float, where: SharedPlace, p: float | None = 0.001) -> Beside:
    result = Paired(5, 0.5, share - 0.5, None, None, None, p, 9)
    return Beside(where, "bbr", 4, (("cubic", 4),), share, (share - 0.02, share + 0.02), 0.5, result, p)


def single(where: SharedPlace, bps: float = 4e8, entry: str = "one") -> Single:
    return Single(where, entry, ("cubic",), Spread(3, bps, 1e6, 0.01, (bps - 1e6, bps + 1e6)))


def told(*found: Alone | Beside) -> str:
    singles = tuple(single(one.place) for one in found)
    every = replace(
        NONE,
        alone=tuple(one for one in found if isinstance(one, Alone)),
        beside=tuple(one for one in found if isinstance(one, Beside)),
        singles=singles,
    )
    return " ".join(answer(every).paragraph)


def test_the_largest_difference_and_what_is_elsewhere() -> None:
    assert told(alone(0.99, place(0.005)), alone(2.2, place()), alone(1.01, place(loss="0%"), 0.5)) == (
        "With 0.1% loss at a base RTT of 88 ms, bbr alone carries 2.2 times cubic's goodput "
        "(880 Mbit/s against 400 Mbit/s, 95% CI 2.1 to 2.3); elsewhere they are within 1% of each other (2 conditions)."
    )


def test_nothing_is_one_times_something() -> None:
    alike, more = alone(1.0002, place(), 0.5), alone(1.0002, place())
    assert told(alike) == (
        "Alone on the path, bbr and cubic show no significant difference: "
        "its mean goodput is cubic's to three digits (1 condition)."
    )
    assert told(alone(2.2, place(0.005)), alone(1.2, place(0.1), 0.5), more).endswith(
        "; of 2 other conditions, more in 1 (by less than 0.5%, "
        "with 0.1% loss at a base RTT of 88 ms), no significant difference in 1 (with 0.1% loss at a base "
        "RTT of 200 ms)."
    )
    [(_, [sentence])] = answer(replace(NONE, alone=(alike,), singles=(single(place()),))).details
    assert sentence.startswith("Alone, bbr carries cubic's goodput to three digits (400 Mbit/s against 400 Mbit/s")


def test_a_smaller_goodput_can_be_the_largest_difference() -> None:
    assert told(alone(0.25, place()), alone(2.0, place(0.005))) == (
        "With 0.1% loss at a base RTT of 88 ms, bbr alone carries 0.25 times cubic's goodput "
        "(100 Mbit/s against 400 Mbit/s, 95% CI 0.15 to 0.35); of 1 other condition, more in 1 "
        "(2 times, with 0.1% loss at a base RTT of 10 ms)."
    )


def test_elsewhere_more_less_and_unknown() -> None:
    others = [alone(ratio, place(0.001 * at)) for at, ratio in enumerate((1.5, 1.2, 0.8), 1)]
    unknown = [alone(1.3, place(0.02), p=0.2), alone(0.7, place(0.03), p=None)]
    assert told(alone(2.2, place()), *others, *unknown).endswith(
        "; of 5 other conditions, more in 2 (1.2 to 1.5 times, with 0.1% loss at a base RTT of 2 ms, and "
        "with 0.1% loss "
        "at a base RTT of 4 ms), less in 1 (0.8 times, with 0.1% loss at a base RTT of 6 ms), no significant "
        "difference "
        "in 2 (with 0.1% loss at a base RTT of 40 ms, and with 0.1% loss at a base RTT of 60 ms)."
    )


def test_streams_in_words() -> None:
    where = replace(place(), condition=(("streams", "1"), ("cca-buffer", "2mb")))
    assert told(alone(2.2, where)).startswith("With 1 stream and cca-buffer 2mb, bbr alone carries 2.2 times")


def test_what_chance_may_have_made_is_no_difference() -> None:
    assert told(alone(2.2, place(), p=0.2)) == (
        "Alone on the path, bbr and cubic show no significant difference: "
        "its mean goodput is 2.2 times cubic's (1 condition)."
    )


def test_differences_that_are_sure_and_small() -> None:
    assert told(alone(0.986, place()), alone(1.004, place(0.005))) == (
        "Alone on the path, bbr and cubic carry much the same: they are within 1.4% of each other (2 conditions)."
    )


def test_each_cca_has_its_sentence_up_to_three() -> None:
    sentences = told(*(alone(2.0, place(), cca=cca) for cca in ("bbr", "htcp", "reno", "vegas", "bic")))
    assert sentences.count("alone carries") == 3
    assert "vegas" not in sentences
    assert sentences.endswith("2 more CCAs are compared below.")


def test_shares_of_a_mix() -> None:
    assert told(beside(0.75, place()), beside(0.9, place(0.005))) == (
        "Beside 4 flows of cubic, 4 flows of bbr take more than their fair share of the goodput, 50%, "
        "in both conditions: 75% to 90% with 0.1% loss."
    )


def test_more_here_and_less_there() -> None:
    assert told(beside(0.75, place()), beside(0.2, place(0.005)), beside(0.5, place(0.02), p=0.9)).startswith(
        "Beside 4 flows of cubic, 4 flows of bbr take more than their fair share of the goodput, 50%, in 1 of 3 "
        "conditions: 75% with 0.1% loss at a base RTT of 88 ms; take less than their fair share in 1: 20% "
        "with 0.1% loss "
        "at a base RTT of 10 ms; show no significant difference in 1: 50% with"
    )


def in_queue(amount: float, kind: str) -> SharedPlace:
    condition = (("buffer", f"{amount:g}bdp"), ("qdisc", kind))
    path = replace(TOPOLOGY, buffer=Buffer(amount, "bdp"), queue=Queue(kind))
    return replace(place(), condition=condition, path=path)


def test_the_odd_conditions_have_names_and_one_flow_has_its_share() -> None:
    of_queues = [
        beside(0.51, in_queue(0.5, "fq_codel")),
        beside(0.91, in_queue(0.5, "bfifo")),
        beside(0.511, in_queue(8, "fq_codel")),
        beside(0.28, in_queue(8, "bfifo")),
    ]
    single_flows = [replace(one, streams=1, others=(("cubic", 1),)) for one in of_queues]
    assert told(*single_flows) == (
        "Beside 1 flow of cubic, 1 flow of bbr takes more than its fair share of the goodput, 50%, in 1 of 4 "
        "conditions: "
        "91% with a buffer of 0.5 BDP and qdisc bfifo; takes less than its fair share in 1: 28% with a buffer of 8 BDP "
        "and qdisc bfifo; takes about its fair share in 2: 51% to 51.1% with qdisc fq_codel."
    )


def test_places_on_several_paths_have_the_path_s_name() -> None:
    near, far = replace(place(0.005), name="near"), replace(place(0.044), name="far", condition=())
    assert told(beside(0.75, near), beside(0.9, far)).endswith(
        "in both conditions: 75% on near with 0.1% loss at a base RTT of 10 ms, and 90% on far."
    )


def test_a_share_that_is_not_known_to_be_unfair() -> None:
    assert told(beside(0.6, place(), p=0.3)) == (
        "Beside 4 flows of cubic, 4 flows of bbr take 60% of the goodput where 50% would be fair: "
        "no significant difference."
    )


def test_without_anything_to_compare_the_extremes() -> None:
    found = replace(NONE, singles=(single(place()), single(place(0.005), 9e8, "two"), single(place(0.02), 5e8)))
    assert answer(found).paragraph == (
        "Most goodput: two (cubic) carries 900 Mbit/s with 0.1% loss at a base RTT of 10 ms, 95% CI 899 Mbit/s to "
        "901 Mbit/s. Least: one (cubic) carries 400 Mbit/s with 0.1% loss at a base RTT of 88 ms, 95% CI 399 Mbit/s to "
        "401 Mbit/s.",
    )
    assert answer(NONE).paragraph == ("No run is valid: what their goodput means is below.",)


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (NONE, "All 6 runs are valid."),
        (replace(NONE, runs=1), "The only run is valid."),
        (
            replace(NONE, left_out=(("cpu", 2), ("rtt", 1))),
            "3 of 6 runs are left out of all means because of findings: 2 by cpu, 1 by rtt.",
        ),
        (replace(NONE, imported=6), "6 runs were imported: ccmix did not check whether their hosts limited them."),
    ],
)
def test_runs_left_out(found: Sharing, sentence: str) -> None:
    assert answer(found).runs == sentence


def test_warnings_say_how_many_iterations_would_do() -> None:
    open_one, sure = alone(1.1, place(), p=0.3, needed=40), alone(2.2, place(0.005))
    assert answer(replace(NONE, alone=(open_one, sure))).warnings == (
        "1 of 2 comparisons shows no significant difference with 5 iterations; to detect one of the size that was "
        "measured, "
        "about 40 would do.",
    )
    endless = alone(1.0001, place(), p=0.99, needed=None)
    [warning] = answer(replace(NONE, alone=(endless,))).warnings
    assert warning.endswith("not even 10,000 would do.")
    alike = alone(2.0, place(), p=None)
    alike = replace(alike, result=replace(alike.result, alike=True))
    [warning] = answer(replace(NONE, alone=(alike,))).warnings
    assert warning.startswith("The only comparison is of iterations that are all alike")
    untested = alone(2.0, place(), p=None)
    [warning] = answer(replace(NONE, alone=(untested,))).warnings
    assert warning.startswith("The only comparison has fewer than 3 iterations")
    assert answer(replace(NONE, alone=(sure,))).warnings == ()


def test_each_condition_has_its_sentences() -> None:
    found = replace(
        NONE, alone=(alone(2.2, place()),), beside=(beside(0.6, place(), p=0.3),), singles=(single(place()),)
    )
    assert answer(found).details == (
        (
            "With 0.1% loss at a base RTT of 88 ms",
            (
                "Alone, bbr carries 2.2 times cubic's goodput (880 Mbit/s against 400 Mbit/s, 95% CI 2.1 to 2.3); "
                "p = 0.001, 5 iterations.",
                "Beside 4 flows of cubic, 4 flows of bbr take 60% of the goodput where 50% would be fair "
                "(95% CI 58% to 62%); no significant difference (p = 0.3, 5 iterations; about 9 would do).",
            ),
        ),
    )
