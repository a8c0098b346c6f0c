"""Tests the sentences at the top of a report, of comparisons whose numbers are chosen."""

from dataclasses import replace

import pytest

from ccmix.analysis.comparison import Paired
from ccmix.analysis.places import SharedPlace
from ccmix.analysis.sharing import Alone, Beside, Sharing, Single
from ccmix.analysis.statistics import Spread
from ccmix.model import Buffer, Queue
from ccmix.report.answer import Answer, answer
from support.model import TOPOLOGY, iperf3_traffic, with_senders

NONE = Sharing(alone=(), beside=(), singles=(), runs=6, imported=0, left_out=(), compared=0)


def place(delay_s: float = 0.044, loss: str = "0.1%") -> SharedPlace:
    condition = (("delay", f"{delay_s * 1e3:g}ms"), ("loss", loss))
    path = with_senders(TOPOLOGY, delay_s=delay_s)
    return SharedPlace("receiver", condition, path, iperf3_traffic((), 8, 10.0, 0.0, 1.0))


def alone(
    ratio: float,
    where: SharedPlace,
    p: float | None = 0.001,
    cca: str = "bbr",
    needed: int | None = 3,
    p_alone: float | None = None,
) -> Alone:
    """Makes a comparison whose p is this one after the correction, and before it `p_alone`."""
    result = Paired(5, 400e6, (ratio - 1) * 400e6, None, None, None, p_alone or p, None)
    return Alone(
        where,
        result,
        ratio,
        1.0,
        (ratio - 0.1, ratio + 0.1),
        cca,
        "cubic",
        p_adjusted=p,
        iterations_needed=needed,
    )


def beside(
    share: float,
    where: SharedPlace,
    p: float | None = 0.001,
    p_alone: float | None = None,
    half: float = 0.02,
    group: str = "bbr",
) -> Beside:
    result = Paired(5, 0.5, share - 0.5, None, None, None, p_alone or p, None)
    return Beside(
        where,
        result,
        share,
        0.5,
        (share - half, share + half),
        group,
        4,
        (("cubic", 4),),
        p_adjusted=p,
        iterations_needed=9,
    )


def untested(found: Beside) -> Beside:
    result = replace(found.result, blocks=2, p_value=None)
    return replace(found, result=result, interval=None, p_adjusted=None)


def single(where: SharedPlace, bps: float = 4e8, entry: str = "one") -> Single:
    return Single(where, entry, ("cubic",), Spread(3, bps, 1e6, 0.01, (bps - 1e6, bps + 1e6)))


def answered(*found: Alone | Beside) -> Answer:
    every = replace(
        NONE,
        alone=tuple(one for one in found if isinstance(one, Alone)),
        beside=tuple(one for one in found if isinstance(one, Beside)),
        singles=tuple(single(one.place) for one in found),
        compared=len(found),
    )
    return answer(every)


def told(*found: Alone | Beside) -> list[str]:
    every = answered(*found)
    return [every.first, *every.bullets]


BBR_BESIDE = "4 bbr flows competing with 4 cubic flows get"


def test_one_sentence_on_all_conditions_then_the_strongest_in_each_direction() -> None:
    assert told(
        beside(0.6, in_queue(1, "bfifo")),
        beside(0.9, in_queue(2, "bfifo")),
        beside(0.2, in_queue(8, "fq_codel")),
    ) == [
        f"{BBR_BESIDE} more than their fair share in 2 of 3 conditions (with qdisc bfifo), less in "
        "1 (with a buffer of 8 BDP and qdisc fq_codel): 20% to 90% of the goodput, where 50% would "
        "be fair.",
        f"With a buffer of 2 BDP and qdisc bfifo, {BBR_BESIDE} 90% of the goodput (50% would be "
        "fair; 95% CI 88% to 92%).",
        f"With a buffer of 8 BDP and qdisc fq_codel, {BBR_BESIDE} 20% of the goodput (50% would be "
        "fair; 95% CI 18% to 22%).",
    ]


def test_what_is_alike_everywhere_is_one_sentence() -> None:
    assert told(beside(0.75, place()), beside(0.9, place(0.005))) == [
        f"{BBR_BESIDE} more than their fair share in both conditions: 75% to 90% of the goodput, "
        "where 50% would be fair."
    ]


def test_one_condition_has_its_interval() -> None:
    assert told(alone(2.2, place())) == [
        "With 0.1% loss at a base RTT of 88 ms, bbr alone gets 2.2 times cubic's goodput (880 "
        "Mbit/s against 400 Mbit/s; 95% CI 2.1 to 2.3)."
    ]


def test_other_runs_have_a_bullet_with_what_is_elsewhere() -> None:
    _, bullet = told(
        beside(0.99, place()),
        alone(0.25, place()),
        *(alone(ratio, place(0.001 * at)) for at, ratio in enumerate((0.5, 0.8, 0.99), 1)),
        alone(0.7, place(0.02), p=0.2),
    )
    assert bullet == (
        "With 0.1% loss at a base RTT of 88 ms, bbr alone gets 0.25 times cubic's goodput (100 "
        "Mbit/s against 400 Mbit/s; 95% CI 0.15 to 0.35); in 4 other conditions 0.5 to 0.99 times "
        "(less in 2, about the same in 1, no significant difference in 1)."
    )


def test_at_most_four_bullets_with_the_strongest_effects_and_the_rest_is_more() -> None:
    """A factor of 3 or a third of the goodput, or a share of 75%, are equally strong."""
    ratios = {"a": 2.0, "b": 0.2, "c": 9.0, "d": 1.3, "e": 1.5, "f": 1.4}
    found = answered(
        *(alone(ratio, place(), cca=cca) for cca, ratio in ratios.items()), beside(0.8, place())
    )
    assert " c alone gets 9 times" in found.first
    named = [bullet.split(",", 1)[1].split(" competing")[0][:8] for bullet in found.bullets]
    assert named == [" 4 bbr f", " b alone", " a alone", " e alone"]
    assert [sentence.split(", ")[1][:8] for sentence in found.more] == ["f alone ", "d alone "]


def test_a_wide_interval_makes_an_effect_weaker() -> None:
    first, bullet = told(
        beside(0.9, place(), half=0.35, group="bbr2"), beside(0.8, place(), half=0.02)
    )
    assert "4 bbr flows" in first
    assert "4 bbr2 flows" in bullet


def test_what_was_not_tested_is_not_called_no_difference() -> None:
    found = answered(untested(beside(0.9, place())), untested(beside(0.4, place(0.005))))
    assert found.first == (
        f"{BBR_BESIDE} 40% to 90% of the goodput in both conditions, where 50% would be fair: not "
        "tested."
    )
    assert found.bullets[0].endswith(
        "90% of the goodput (50% would be fair; not tested: 2 iterations)."
    )
    assert found.warnings == (
        "Not tested: 2 of 2 comparisons. A test needs at least 3 valid iterations that are not all "
        "alike.",
    )
    assert "no significant difference" not in str(found)


def test_what_the_correction_leaves_undecided_has_its_effect_and_the_iterations_it_needs() -> None:
    found = answered(beside(0.85, place(), p=0.3, p_alone=0.01), beside(0.52, place(0.02), p=0.9))
    assert found.first == (
        f"{BBR_BESIDE} 52% to 85% of the goodput in both conditions, where 50% would be fair: "
        "undecided in 1, no significant difference in 1."
    )
    assert found.bullets == (
        f"With 0.1% loss at a base RTT of 88 ms, {BBR_BESIDE} 85% of the goodput (50% would be "
        "fair; 95% CI 83% to 87%; undecided with 5 iterations: about 9 would decide).",
    )
    assert found.warnings == (
        "Undecided: 1 of 2 comparisons. 5 iterations would be enough for a single comparison, but "
        "not for 2 (Holm's correction). About 9 would decide all.",
    )


def test_a_difference_below_5_percent_is_weaker_than_a_large_one_that_was_not_tested() -> None:
    large = untested(beside(0.9, place()))
    small = replace(alone(1.02, place()), interval=(1.019, 1.021))
    assert told(small, large)[0].endswith(
        "90% of the goodput (50% would be fair; not tested: 2 iterations)."
    )
    [only, *_] = told(replace(small, p_adjusted=0.2, result=replace(small.result, p_value=0.01)))
    assert "undecided with 5 iterations" in only


def test_nothing_is_one_times_something() -> None:
    assert "gets 1.00 times cubic's goodput" in told(alone(1.0002, place(), 0.5))[0]


def test_streams_in_words() -> None:
    where = replace(place(), condition=(("streams", "1"), ("cca-buffer", "2mb")))
    assert told(alone(2.2, where))[0].startswith(
        "With 1 stream and cca-buffer 2mb, bbr alone gets 2.2 times"
    )


def test_ccas_that_get_about_as_much() -> None:
    assert told(alone(0.986, place()), alone(1.004, place(0.005))) == [
        "bbr alone gets about as much as cubic alone in both conditions: 0.986 to 1.00 times "
        "cubic's goodput."
    ]


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
    assert told(*single_flows)[0] == (
        "1 bbr flow competing with 1 cubic flow gets about its fair share in 2 of 4 conditions "
        "(with qdisc fq_codel), more in 1 (with a buffer of 0.5 BDP and qdisc bfifo), less in 1 "
        "(with a buffer of 8 BDP and qdisc bfifo): 28% to 91% of the goodput, where 50% would be "
        "fair."
    )


def test_places_on_several_paths_have_the_path_s_name() -> None:
    near, far = replace(place(0.005), name="near"), replace(place(0.044), name="far", condition=())
    _, more, less = told(beside(0.75, near), beside(0.1, far))
    assert more.startswith("On far, 4 bbr flows")
    assert less.startswith("On near with 0.1% loss at a base RTT of 10 ms, 4 bbr flows")


def test_a_share_that_is_not_known_to_be_unfair() -> None:
    assert told(beside(0.6, place(), p=0.3)) == [
        f"With 0.1% loss at a base RTT of 88 ms, {BBR_BESIDE} 60% of the goodput (50% would be "
        "fair; 95% CI 58% to 62%; no significant difference with 5 iterations: about 9 would "
        "decide)."
    ]


def test_without_anything_to_compare_the_extremes() -> None:
    found = replace(
        NONE, singles=(single(place()), single(place(0.005), 9e8, "two"), single(place(0.02), 5e8))
    )
    assert answer(found).first == "Goodput is 400 Mbit/s to 900 Mbit/s in 3 conditions."
    assert answer(found).bullets == (
        "two (cubic) gets 900 Mbit/s (95% CI 899 Mbit/s to 901 Mbit/s) with 0.1% loss at a "
        "base RTT of 10 ms.",
        "one (cubic) gets 400 Mbit/s (95% CI 399 Mbit/s to 401 Mbit/s) with 0.1% loss at a "
        "base RTT of 88 ms.",
    )
    assert answer(NONE).first == "No run is valid: what their goodput means is below."


def test_paths_and_ranges_come_before_effects() -> None:
    found = answer(replace(NONE, alone=(alone(2, place()),)), ranges=["a range"], paths=["a path"])
    assert (found.first, found.bullets[0]) == ("a path", "a range")
    assert len(found.bullets) == 2


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (NONE, "All 6 runs are valid."),
        (replace(NONE, runs=1), "The only run is valid."),
        (
            replace(NONE, left_out=(("cpu", 2), ("rtt", 1))),
            "3 of 6 runs are left out of all means because of findings: 2 by cpu, 1 by rtt.",
        ),
        (
            replace(NONE, imported=6),
            "6 runs were imported: ccmix did not check whether their hosts limited them.",
        ),
    ],
)
def test_runs_left_out(found: Sharing, sentence: str) -> None:
    assert answer(found).runs == sentence


def test_warnings_name_iterations_that_tell_nothing() -> None:
    endless = alone(1.5, place(), p=0.99, p_alone=0.04, needed=None)
    [warning] = answer(replace(NONE, alone=(endless,))).warnings
    assert warning.endswith("More than 10,000 would decide all.")
    alike = alone(2.0, place(), p=None)
    alike = replace(alike, result=replace(alike.result, alike=True))
    [warning] = answer(replace(NONE, alone=(alike,))).warnings
    assert warning.startswith("Not tested: 1 of 1 comparison. A test")
    assert answer(replace(NONE, alone=(alone(2.2, place()),))).warnings == ()


def test_each_condition_has_its_sentences() -> None:
    found = replace(
        NONE,
        alone=(alone(2.2, place()),),
        beside=(beside(0.6, place(), p=0.3),),
        singles=(single(place()),),
    )
    assert answer(found).details == (
        (
            "With 0.1% loss at a base RTT of 88 ms",
            (
                "bbr alone gets 2.2 times cubic's goodput (880 Mbit/s against 400 Mbit/s; 95% CI "
                "2.1 to 2.3; p = 0.001, 5 iterations).",
                f"{BBR_BESIDE} 60% of the goodput (50% would be fair; 95% CI 58% to 62%; p = 0.3, "
                "no significant difference with 5 iterations: about 9 would decide).",
            ),
        ),
    )
