"""Compares real results of known numbers with ranges of emulated conditions."""

import csv
import io
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ccmix.archive import RunFolder
from ccmix.compare import range_text
from ccmix.compare.groups import ComparedRange
from ccmix.compare.verdicts import Compared, compare
from ccmix.model import Run
from support.commands import Ccmix
from support.model import TOPOLOGY, with_senders

from .conftest import PATH, Make, iterations, load

pytestmark = pytest.mark.slow

TWIN = with_senders(TOPOLOGY, delay_s=0.006)  # of the RTT of PATH
BUFFERS = {"0.3bdp": 100e6, "0.1bdp": 60e6, "1bdp": 150e6}
UNKNOWN = {"one": ("buffer",)}


def around(mean: float, count: int = 3) -> list[float]:
    return [mean * (1 + 0.01 * (at - (count - 1) / 2)) for at in range(count)]


def real(mean: float, count: int = 3, **settings: Any) -> list[tuple[Run, float]]:
    return iterations(around(mean, count), path=PATH, **settings)


def emulated(
    means: Mapping[str, float], count: int = 3, **settings: Any
) -> list[tuple[Run, float]]:
    return [
        one
        for buffer, mean in means.items()
        for one in iterations(around(mean, count), path=TWIN, **settings, buffer=buffer)
    ]


def against(
    make: Make, a: Sequence[tuple[Run, float]], b: Sequence[tuple[Run, float]], **unknown: Any
) -> Compared:
    return compare(load(make("a", a)), load(make("b", b, unknown=unknown.get("unknown", UNKNOWN))))


def only(compared: Compared) -> ComparedRange:
    [found] = compared.ranges
    assert compared.conditions == ()
    assert compared.only_a == compared.only_b == ()
    return found


@pytest.mark.parametrize(
    ("mean", "word", "said"),
    [
        (120e6, "in the range", "in the range"),
        (63e6, "in the range", "in the range"),
        (300e6, "outside", "outside: by 95.2% above"),
        (30e6, "outside", "outside: by 48.7% below"),
    ],
)
def test_where_a_real_result_lies(mean: float, word: str, said: str, make: Make) -> None:
    found = only(against(make, real(mean), emulated(BUFFERS)))
    [goodput] = found.goodputs
    assert (found.verdict, range_text.verdict(goodput)) == (word, said)
    assert goodput.b.point
    assert (goodput.b.point.name, goodput.b.point.sample.mean) == (
        "buffer=0.3bdp",
        pytest.approx(100e6),
    )
    assert 58e6 < goodput.b.low < 60e6
    assert 150e6 < goodput.b.high < 154e6


@pytest.mark.parametrize(("mean", "above"), [(157e6, True), (56e6, False)])
def test_a_result_within_the_margin_of_the_range_is_in_it(
    mean: float, above: bool, make: Make
) -> None:
    found = only(against(make, real(mean), emulated(BUFFERS)))
    assert found.goodputs[0].outside_by != 0
    assert (found.goodputs[0].outside_by > 0) == above
    assert found.verdict == "in the range"


@pytest.mark.parametrize(
    ("count", "others", "said"),
    [
        (1, 3, "by 95.2% above, A has fewer than 3 runs"),
        (3, 2, "by 100% above, conditions of B have fewer than 3 runs"),
        (2, 1, "by 100% above, A has fewer than 3 runs"),
    ],
)
def test_what_too_few_runs_can_t_tell(count: int, others: int, said: str, make: Make) -> None:
    found = only(against(make, real(300e6, count), emulated(BUFFERS, others)))
    assert found.verdict == "can't tell"
    assert range_text.verdict(found.goodputs[0]) == f"can't tell: {said}"
    sentences = list(range_text.advice([found]))
    assert sentences[0].startswith(
        "In 1 condition the mean of A is outside of the range, and the runs are too few"
    )


def test_runs_that_are_all_alike_are_one_observation(make: Make) -> None:
    alike = [one for buffer in BUFFERS for one in iterations([100e6] * 3, path=TWIN, buffer=buffer)]
    found = only(against(make, real(300e6), alike))
    assert (
        range_text.verdict(found.goodputs[0])
        == "can't tell: by 200% above, runs of B are alike: one observation"
    )


def test_a_condition_without_a_valid_run_leaves_open_what_is_outside(make: Make) -> None:
    twin = emulated(BUFFERS)
    last = [at for at, (run, _) in enumerate(twin) if run.condition["buffer"] == "1bdp"]
    a, b = make("a", real(300e6)), make("b", twin, unknown=UNKNOWN, limited=last)
    found = only(compare(load(a), load(b)))
    assert range_text.verdict(found.goodputs[0]).endswith("conditions of B have no valid run")
    assert range_text.lines([found])[0][2] == "3, 3 x 0 to 3"


def test_a_condition_that_was_not_run_yet_leaves_open_what_is_outside(make: Make) -> None:
    """The missing condition keeps its place, so that the best estimate stays the same."""
    twin = emulated(BUFFERS)
    outdir = make("b", twin, unknown=UNKNOWN)
    for run, _ in twin:
        if run.condition["buffer"] == "0.3bdp":
            shutil.rmtree(RunFolder.of(outdir, run).path)
    found = only(compare(load(make("a", real(300e6))), load(outdir)))
    assert range_text.verdict(found.goodputs[0]).endswith("conditions of B have no valid run")
    assert (found.goodputs[0].b.point, found.goodputs[0].b.missing) == (
        None,
        ((("buffer", "0.3bdp"),),),
    )


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([50e6, 150e6, 400e6], "can't tell: by 30.1% above"),
        ([50e6, 100e6, 160e6], "can't tell: the mean is in it"),
    ],
)
def test_a_wide_result_can_t_tell(values: list[float], said: str, make: Make) -> None:
    found = only(against(make, iterations(values, path=PATH), emulated(BUFFERS)))
    assert range_text.verdict(found.goodputs[0]) == said


def test_conditions_that_differ_in_what_is_known_are_ranges_of_their_own(make: Make) -> None:
    """The real campaign swept delay, the twin delay and, unknown, the buffer: they match without
    the buffer.
    """
    a = [one for delay, mean in (("5ms", 100e6), ("6ms", 300e6)) for one in real(mean, delay=delay)]
    b = [one for delay in ("5ms", "6ms") for one in emulated(BUFFERS, delay=delay)]
    compared = against(make, a, b)
    assert [(one.a.first.run.condition, one.b.name, one.verdict) for one in compared.ranges] == [
        ({"delay": "5ms"}, "one delay=5ms", "in the range"),
        ({"delay": "6ms"}, "one delay=6ms", "outside"),
    ]
    assert [(len(one.b.members), one.b.unknown) for one in compared.ranges] == [
        (3, ("buffer",))
    ] * 2


def test_other_entries_of_the_twin_stay_conditions(make: Make) -> None:
    a = [*real(100e6), *real(100e6, cca="bbr", entry="two")]
    b = [*emulated(BUFFERS), *iterations(around(100e6), path=TWIN, cca="bbr", entry="two")]
    compared = against(make, a, b)
    assert [one.a.first.run.entry for one in compared.ranges] == ["one"]
    assert [one.a.first.run.entry for one in compared.conditions] == ["two"]


def test_groups_have_ranges_each_and_the_run_has_one(make: Make) -> None:
    found = only(against(make, real(300e6, cca="cubic,bbr"), emulated(BUFFERS, cca="cubic,bbr")))
    assert [(one.group, one.metric) for one in found.tested] == [
        *(
            (group, metric)
            for group in ("cubic", "bbr")
            for metric in ("goodput_bps", "retransmission_rate", "rtt_median_s")
        ),
        ("all", "goodput_bps"),
    ]
    assert [one.group for one in found.goodputs] == ["cubic", "bbr"]
    assert range_text.condition(found).startswith(
        "outside. cubic: outside: by 95.2% above (150 Mbit/s, B 29."
    )


def test_many_conditions_need_more(make: Make) -> None:
    """A p of some percent is significant in one condition, but not in ten."""
    a, b = iterations([172e6, 174e6, 176e6], path=PATH), emulated({"1bdp": 150e6, "2bdp": 158e6})
    a_many, b_many = (
        [one for at in range(10) for one in renamed(runs, f"{at}")] for runs in (a, b)
    )
    unknown = {f"{at}": ("buffer",) for at in range(10)}
    alone = compare(load(make("a", a)), load(make("b", b, unknown=UNKNOWN)), 0.01)
    many = compare(
        load(make("many-a", a_many)), load(make("many-b", b_many, unknown=unknown)), 0.01
    )
    assert [one.verdict for one in alone.ranges] == ["outside"]
    assert {one.verdict for one in many.ranges} == {"can't tell"}


def test_many_conditions_need_more_to_be_in_the_range(make: Make) -> None:
    a, b = iterations([97e6, 100e6, 103e6], path=PATH), emulated({"1bdp": 99e6, "2bdp": 101e6})
    a_many, b_many = (
        [one for at in range(30) for one in renamed(runs, f"{at}")] for runs in (a, b)
    )
    alone = compare(load(make("a", a)), load(make("b", b, unknown=UNKNOWN)))
    unknown = {f"{at}": ("buffer",) for at in range(30)}
    many = compare(load(make("many-a", a_many)), load(make("many-b", b_many, unknown=unknown)))
    assert [one.verdict for one in alone.ranges] == ["in the range"]
    assert {one.verdict for one in many.ranges} == {"can't tell"}


def test_a_condition_is_outside_if_one_group_is(make: Make) -> None:
    inside, outside = (
        only(
            compare(
                load(make(f"a{at}", real(mean))),
                load(make(f"b{at}", emulated(BUFFERS), unknown=UNKNOWN)),
            )
        )
        for at, mean in enumerate((100e6, 300e6))
    )
    both = replace(inside, tested=(*inside.tested, replace(outside.goodputs[0], group="bbr")))
    assert (both.verdict, inside.verdict) == ("outside", "in the range")
    few = only(
        compare(
            load(make("a3", real(100e6, 1))), load(make("b3", emulated(BUFFERS), unknown=UNKNOWN))
        )
    )
    assert (
        replace(inside, tested=(*inside.tested, replace(few.goodputs[0], group="bbr"))).verdict
        == "can't tell"
    )


def renamed(runs: Sequence[tuple[Run, float]], entry: str) -> list[tuple[Run, float]]:
    return [
        (Run(entry, run.condition, run.dst, run.iteration, 7, run.traffic, run.path), value)
        for run, value in runs
    ]


def test_what_to_measure(make: Make) -> None:
    known = emulated({"0.1bdp": 98e6, "1bdp": 102e6}, entry="two", cca="bbr")
    compared = compare(
        load(make("a", [*real(100e6), *real(100e6, entry="two", cca="bbr")])),
        load(
            make(
                "b", [*emulated(BUFFERS), *known], unknown={"one": ("buffer",), "two": ("buffer",)}
            )
        ),
    )
    assert list(range_text.advice(compared.ranges)) == [
        "Measure the buffer: between 0.1bdp and 1bdp the goodput of cubic changes 2.5 times (one "
        "all far)."
    ]
    assert list(range_text.advice(compared.ranges[1:])) == [
        "No value of buffer moves the goodput by more than 10%, so a measurement would change "
        "little. The key buffer has the largest effect: between 0.1bdp and 1bdp the goodput of bbr "
        "changes 1.04 times (two all far)."
    ]


def test_what_to_measure_is_no_chance(make: Make) -> None:
    """Loss seems to matter more than the buffer, by one wild run."""
    values = {
        ("0.1bdp", "0%"): around(100e6),
        ("1bdp", "0%"): around(150e6),
        ("0.1bdp", "1%"): [20e6, 50e6, 80e6],
        ("1bdp", "1%"): around(149e6),
    }
    twin = [
        one
        for (buffer, loss), own in values.items()
        for one in iterations(own, path=TWIN, buffer=buffer, loss=loss)
    ]
    found = only(against(make, real(100e6), twin, unknown={"one": ("buffer", "loss")}))
    assert [
        (effect.key, effect.ratio, effect.seen) for _, _, effect in range_text.effects([found])
    ] == [("buffer", pytest.approx(1.5), True), ("loss", pytest.approx(2.0), False)]
    [sentence] = range_text.advice([found])
    assert sentence.startswith(
        "Measure the buffer: between 0.1bdp and 1bdp the goodput of cubic changes 1.5 times"
    )
    assert sentence.endswith("with loss=0%).")


def test_what_may_be_chance_is_not_advised(make: Make) -> None:
    twin = [
        *iterations([60e6, 100e6, 140e6], path=TWIN, buffer="0.1bdp"),
        *iterations([90e6, 150e6, 210e6], path=TWIN, buffer="1bdp"),
    ]
    *_, sentence = range_text.advice([only(against(make, real(120e6), twin))])
    assert sentence.startswith(
        "The key buffer has the largest effect: between 0.1bdp and 1bdp the goodput of cubic "
        "changes 1.5 times"
    )
    assert sentence.endswith("which may be chance. More iterations of B would decide.")
    [line] = range_text.unknown_lines(
        [only(compare(load(make("c", real(1e8))), load(make("d", twin, unknown=UNKNOWN))))]
    )
    assert line[-1] == "may be"


def test_outside_none_of_the_unknown_explains_it(make: Make) -> None:
    [sentence] = range_text.advice([only(against(make, real(300e6), emulated(BUFFERS)))])
    assert sentence == (
        "The real result is outside of the range in 1 of 1 condition (one all far): no value of "
        "buffer explains it there. The path differs from B in another property."
    )


def test_unknown_keys_of_a_make_no_range(make: Make, ccmix: Ccmix) -> None:
    a, b = make("a", emulated(BUFFERS), unknown=UNKNOWN), make("b", real(100e6))
    compared = compare(load(a), load(b))
    assert (compared.ranges, compared.unknown_of_a) == ((), ("buffer",))
    assert (
        "says that buffer is unknown, but only the ranges of B are compared"
        in ccmix("compare", a, b).stdout
    )


@pytest.fixture
def campaigns(make: Make) -> tuple[Path, Path]:
    return make("a", [*real(100e6), *real(300e6, entry="two", cca="bbr")]), make(
        "b",
        [*emulated(BUFFERS), *emulated(BUFFERS, entry="two", cca="bbr")],
        unknown={"one": ("buffer",), "two": ("buffer",)},
    )


def test_the_command(campaigns: tuple[Path, Path], ccmix: Ccmix) -> None:
    said = ccmix("compare", *campaigns).stdout
    assert (
        "2 conditions of A compared with a range of B over the unknown keys of its path (buffer): "
        "goodput 1 in the range, 1 outside, 0 undecided (margin ±10%)"
    ) in said
    assert "no value of buffer explains it there" in said
    assert "Measure the buffer" in said
    assert "conditions in both" not in said
    markdown = ccmix("compare", *campaigns, "--format", "markdown").stdout
    assert "| two all far | two all | 3, 3 x 3 | bbr | goodput_bps | 300 Mbit/s" in markdown
    assert (
        "| buffer | one all far | cubic | 60.0 Mbit/s (0.1bdp) | 150 Mbit/s (1bdp) | 2.500 | 100% |"
        in markdown
    )


def test_as_json_and_csv(campaigns: tuple[Path, Path], ccmix: Ccmix) -> None:
    [one, two] = json.loads(ccmix("compare", *campaigns, "--format", "json").stdout)["ranges"]
    assert (one["verdict"], two["verdict"], one["unknown"]) == (
        "in the range",
        "outside",
        ["buffer"],
    )
    assert one["a"]["entry"] == "one"
    goodput = two["metrics"][0]
    assert (goodput["group"], goodput["metric"], goodput["verdict"]) == (
        "bbr",
        "goodput_bps",
        "outside",
    )
    assert goodput["outside_by"] == pytest.approx(300e6 / goodput["b"]["high"] - 1)
    assert [member["unknown"]["buffer"] for member in goodput["b"]["conditions"]] == list(BUFFERS)
    assert goodput["b"]["point"]["mean"] == pytest.approx(100e6)
    [effect] = two["sensitivity"]
    assert (effect["unknown"], effect["ratio"]) == ("buffer", pytest.approx(2.5))
    lines = list(
        csv.DictReader(io.StringIO(ccmix("compare", *campaigns, "--format", "csv").stdout))
    )
    assert [
        (line["what"], line["a"], line["metric"], line["verdict"])
        for line in lines
        if line["metric"] == "goodput_bps"
    ] == [
        ("range", "one all far", "goodput_bps", "in the range"),
        ("range", "two all far", "goodput_bps", "outside"),
        ("unknown", "one all far", "goodput_bps", ""),
    ]
    assert float(lines[3]["b_low"]) < float(lines[3]["b_mean"]) < float(lines[3]["b_high"])
    assert float(lines[3]["outside_by"]) == pytest.approx(goodput["outside_by"])


def test_a_page_and_a_picture(campaigns: tuple[Path, Path], ccmix: Ccmix) -> None:
    page = ccmix("compare", *campaigns, "--format", "html").stdout
    assert page.count("<figure") == 1
    assert "no value of buffer explains it there" in page
    assert '<p class="verdict same">in the range (100 Mbit/s' in page
    assert '<p class="verdict different">outside: by 95.2% above (300 Mbit/s' in page
    assert "How far each unknown key moves the goodput of B" in page
    picture = ccmix("compare", *campaigns, "--format", "svg").stdout
    for text in ("Goodput of a and the range of b", "range of b", "one all far", "two all far"):
        assert text in picture


def test_a_picture_of_groups_has_a_row_for_each(make: Make, ccmix: Ccmix) -> None:
    a = make("a", real(100e6, cca="cubic,bbr"))
    b = make("b", emulated(BUFFERS, cca="cubic,bbr"), unknown=UNKNOWN)
    picture = ccmix("compare", a, b, "--format", "svg").stdout
    assert "one all far: cubic" in picture
    assert "one all far: bbr" in picture


def test_a_picture_of_ranges_and_conditions(make: Make, ccmix: Ccmix) -> None:
    a = make("a", [*real(100e6), *real(100e6, cca="bbr", entry="two")])
    b = make(
        "b",
        [*emulated(BUFFERS), *iterations(around(100e6), path=TWIN, cca="bbr", entry="two")],
        unknown=UNKNOWN,
    )
    picture = ccmix("compare", a, b, "--format", "svg").stdout
    assert "Goodput of A and B" in picture
    assert "Goodput of a and the range of b" in picture
    assert ccmix("compare", a, b, "--format", "html").stdout.count("<figure") == 2
    lines = list(csv.DictReader(io.StringIO(ccmix("compare", a, b, "--format", "csv").stdout)))
    [goodput] = [
        line
        for line in lines
        if line["what"] == "condition" and (line["group"], line["metric"]) == ("bbr", "goodput_bps")
    ]
    assert (goodput["verdict"], float(goodput["ratio"])) == ("same", pytest.approx(1.0))
