"""Compares campaigns of known numbers: matched conditions, differences, and verdicts."""

import csv
import io
import json
from dataclasses import replace

import polars as pl
import pytest

from ccmix.cli.compare import compared as print_compared
from ccmix.compare import comparison_text
from ccmix.compare.cells import cells
from ccmix.compare.charts import specification
from ccmix.compare.formats import terminal
from ccmix.compare.groups import interval_goodputs
from ccmix.compare.matching import match
from ccmix.compare.verdicts import Compared, compare
from ccmix.index.context import condition_fields
from ccmix.model import BpfCca, CommandSource, Destination, Traffic
from support.commands import Ccmix
from support.model import TOPOLOGY, with_senders

from .conftest import PATH, Make, finished, iterations, load, make_run

pytestmark = pytest.mark.slow

NEAR = [99e6, 100e6, 101e6]


def verdict(compared: Compared) -> str:
    [condition] = compared.conditions
    return comparison_text.condition_verdict(condition, compared.margin)


def test_the_same(make: Make) -> None:
    a, b = make("a", iterations(NEAR)), make("b", iterations([99.5e6, 100.5e6, 101.5e6]))
    compared = compare(load(a), load(b))
    [condition] = compared.conditions
    assert condition.verdict == "same"
    assert verdict(compared).startswith("same within ±10%: B has 0.5% more (95% CI of B/A 0.9")
    assert comparison_text.summary(compared) == (
        "1 condition in both: goodput 1 same, 0 different, 0 undecided (margin ±10%)"
    )


def test_different_by_how_much(make: Make) -> None:
    a, b = make("a", iterations(NEAR)), make("b", iterations([219e6, 220e6, 221e6]))
    assert verdict(compare(load(a), load(b))).startswith(
        "different: B has 2.2 times (95% CI of B/A 2.1"
    )
    assert verdict(compare(load(b), load(a))).startswith(
        "different: B has 54.5% less (95% CI of B/A 0.4"
    )


def test_a_sure_difference_below_the_margin_is_the_same(make: Make) -> None:
    a = make("a", iterations([99.9e6, 100e6, 100.1e6]))
    b = make("b", iterations([101.9e6, 102e6, 102.1e6]))
    assert verdict(compare(load(a), load(b))).startswith(
        "same within ±10%: B has 2% more, a significant difference within the margin"
    )
    assert verdict(compare(load(a), load(b), margin=0.01)).startswith("different: B has 2% more")


def test_who_can_t_tell_says_how_many_more_runs_would(make: Make) -> None:
    wide = make("wide", iterations([80e6, 100e6, 120e6]))
    compared = compare(load(wide), load(make("b", iterations([85e6, 100e6, 118e6]))))
    [condition] = compared.conditions
    [goodput] = condition.goodputs
    assert (condition.verdict, goodput.runs) == ("can't tell", 3)
    assert goodput.more_runs is not None
    assert f"about {goodput.more_runs} more runs of each would do" in verdict(compared)
    few = compare(load(wide), load(make("few", iterations([100e6, 101e6]))))
    assert verdict(few).endswith(
        "each campaign needs at least 3 valid runs, and one campaign has 2"
    )


@pytest.mark.parametrize(
    ("value", "where"),
    [(99e6, "below all of A"), (100.2e6, "among those of A"), (103e6, "above all of A")],
)
def test_runs_that_are_all_alike_are_one_observation(
    value: float, where: str, make: Make, ccmix: Ccmix
) -> None:
    """Lab runs without anything random are alike: they have neither an interval nor a verdict."""
    a, b = make("a", iterations([100e6, 100.5e6, 101e6])), make("b", iterations([value] * 3))
    compared = compare(load(a), load(b))
    [condition] = compared.conditions
    [goodput] = condition.goodputs
    assert goodput.b
    assert (condition.verdict, goodput.alike, goodput.b.ci95, goodput.more_runs) == (
        "can't tell",
        ("B",),
        None,
        None,
    )
    assert goodput.found
    assert goodput.found.interval is None
    assert "all runs of B are alike: they are one observation" in verdict(compared)
    assert verdict(compared).endswith(f"the only observation of B is {where}")
    assert "In 1 condition all runs of A or of B have the same goodput" in comparison_text.summary(
        compared
    )
    for form in ("table", "markdown", "html"):
        said = ccmix("compare", a, b, "--format", form).stdout
        assert "± 0.00" not in said
        assert "one observation" in said
    [mirrored] = compare(load(b), load(a)).conditions
    assert mirrored.goodputs[0].single == where.replace("A", "B")
    both = compare(load(b), load(b)).conditions[0].goodputs[0]
    assert (both.verdict, both.alike, both.single) == ("can't tell", ("A", "B"), None)


def test_runs_that_are_not_valid_are_left_out_and_counted(make: Make) -> None:
    a = make("a", iterations([*NEAR, 900e6]), limited=[3])
    compared = compare(load(a), load(make("b", iterations(NEAR))))
    [said] = compared.to_json()["conditions"]
    assert (said["verdict"], said["a"]["runs"], said["a"]["invalid"]) == ("same", 4, 1)


def test_runs_that_are_not_valid_are_shown_with_their_goodput(make: Make, ccmix: Ccmix) -> None:
    """A has an invalid run among four, and B has only invalid runs."""
    a = make("a", iterations([*NEAR, 900e6]), limited=[3])
    b = make("b", iterations([1e9, 3e9], cca="cubic,bbr"), limited=[0, 1])
    b_alone = make("b-alone", iterations([1e9, 3e9]), limited=[0, 1])
    compared = compare(load(a), load(b_alone))
    [line] = comparison_text.overview(compared)
    assert (
        line[2] == "3 (1 not valid: ? 900 Mbit/s, unknown), 0 (2 not valid: ? 2.00 Gbit/s, unknown)"
    )
    [said] = compared.to_json()["conditions"]
    assert said["b"]["not_valid"] == [
        {"meaning": "unknown", "limits": (), "runs": 2, "goodput_mean_bps": 2e9}
    ]
    for form in ("table", "markdown", "html"):
        assert "? 2.00 Gbit/s" in ccmix("compare", a, b_alone, "--format", form).stdout
    lines = csv.DictReader(io.StringIO(ccmix("compare", b, b, "--format", "csv").stdout))
    apart = [line for line in lines if line["what"] == "not valid"]
    assert [
        (line["a_runs"], line["a_mean"], line["b_runs"], line["b_mean"], line["verdict"])
        for line in apart
    ] == [("2", "2000000000.0", "", "", "unknown"), ("", "", "2", "2000000000.0", "unknown")]


def test_a_picture_has_the_runs_that_are_not_valid_lighter(make: Make) -> None:
    compared = compare(
        load(make("a", iterations([*NEAR, 900e6]), limited=[3])),
        load(make("b", iterations([1e9, 3e9]), limited=[0, 1])),
    )
    picture = specification(compared, "a", "b")
    points = picture["data"]["values"]
    assert [(point["line"], point["goodput_bps"]) for point in points] == [
        ("A (unknown)", 9e8),
        ("B (unknown)", 2e9),
    ]
    [*_, mark] = picture["spec"]["layer"]
    assert mark["encoding"]["opacity"]["condition"]["value"] < 1
    valid = compare(load(make("c", iterations(NEAR))), load(make("d", iterations(NEAR))))
    [*_, mark] = specification(valid, "c", "d")["spec"]["layer"]
    assert "opacity" not in mark["encoding"]


def test_many_comparisons_need_more(make: Make) -> None:
    """A p of 1.9% is significant in one comparison, but not in 20."""
    a, b = [100e6, 102e6, 104e6, 106e6], [92e6, 94e6, 96e6, 98e6]
    [alone] = compare(
        load(make("a", iterations(a))), load(make("b", iterations(b))), margin=0.01
    ).conditions
    assert alone.verdict == "different"
    many = [
        load(make(name, [one for at in range(20) for one in iterations(values, delay=f"{at}ms")]))
        for name, values in (("many-a", a), ("many-b", b))
    ]
    assert {one.verdict for one in compare(many[0], many[1], margin=0.01).conditions} == {
        "can't tell"
    }


def test_groups_are_compared_each(make: Make) -> None:
    a = make("a", iterations(NEAR, cca="cubic,bbr"))
    b = make("b", iterations(NEAR, cca="cubic,bbr"))
    [condition] = compare(load(a), load(b)).conditions
    assert [one.group for one in condition.goodputs] == ["cubic", "bbr"]
    assert comparison_text.condition_verdict(condition, 0.1).startswith(
        "same. cubic: same within ±10%: B has as much"
    )


def test_a_real_path_and_its_twin_are_one_condition(make: Make) -> None:
    """They match by the key of the index or, if entries have other names, by traffic that no other
    condition has.
    """
    real = load(
        make(
            "real",
            iterations(NEAR, path=PATH) + iterations(NEAR, path=PATH, cca="bbr", entry="two"),
        )
    )
    twin = load(make("twin", iterations(NEAR, cca="bbr", entry="two") + iterations(NEAR)))
    path = with_senders(TOPOLOGY, delay_s=0.006)
    renamed = load(
        make(
            "renamed",
            iterations(NEAR, path=path, cca="bbr", entry="x")
            + iterations(NEAR, path=path, entry="y"),
        )
    )
    for emulated in (twin, renamed):
        compared = compare(real, emulated)
        assert [one.a.first.run.entry for one in compared.conditions] == ["one", "two"]
        for one in compared.conditions:
            assert one.a.first.run.traffic == one.b.first.run.traffic
        assert (compared.only_a, compared.only_b) == ((), ())


def test_the_key_is_the_index_s() -> None:
    real, twin = make_run(path=PATH, cca="cubic,bbr"), make_run(cca="cubic,bbr")
    keys = {condition_fields(finished(run, 1e6))["ccmix.condition.key"] for run in (real, twin)}
    assert keys == {"one all cubic,bbr 8"}


def test_destinations_are_told_apart(make: Make) -> None:
    other = replace(PATH, dst=Destination("near", "192.0.2.2", "near"))
    both = [*iterations(NEAR, path=PATH), *iterations(NEAR, path=other)]
    a, b = make("a", both), make("b", list(reversed(both)))
    compared = compare(load(a), load(b))
    assert [(one.a.first.run.dst, one.b.first.run.dst) for one in compared.conditions] == [
        ("far", "far"),
        ("near", "near"),
    ]
    # which of two destinations an emulated path stands for, nobody can tell
    twin = compare(load(a), load(make("twin", iterations(NEAR))))
    assert (len(twin.conditions), len(twin.only_a), len(twin.only_b)) == (0, 2, 1)


def test_destinations_within_the_entry_s_name_have_names_of_their_own(make: Make) -> None:
    paths = [replace(PATH, dst=Destination(name, "192.0.2.2", name)) for name in ("dtn1", "dtn2")]
    runs = [one for path in paths for one in iterations(NEAR, path=path, entry="dtn1-dtn2")]
    assert [cell.name for cell in cells(load(make("a", runs)).runs)] == [
        "dtn1-dtn2 all dtn1",
        "dtn1-dtn2 all dtn2",
    ]


def test_between_two_alike_nobody_guesses(make: Make) -> None:
    """A has 5 and 44 ms. In B a condition has 44 ms, and two others could match A's 5 ms by their
    traffic.
    """
    a = load(make("a", [one for delay in ("5ms", "44ms") for one in iterations(NEAR, delay=delay)]))
    b = load(
        make(
            "b",
            [
                one
                for delay in ("44ms", "6ms", "7ms")
                for one in iterations(NEAR, delay=delay, entry="b")
            ],
        )
    )
    matched = match(cells(a.runs), cells(b.runs))
    assert [(pair.a.name, pair.b.name) for pair in matched.pairs] == [
        ("one delay=44ms", "b delay=44ms")
    ]
    assert [cell.name for cell in matched.only_a] == ["one delay=5ms"]
    assert [cell.name for cell in matched.only_b] == ["b delay=6ms", "b delay=7ms"]


def test_what_differs_comes_first(make: Make) -> None:
    a = make("a", iterations(NEAR, path=PATH), kernel="5.10.0", offloads={"far eth0 gro": True})
    b = make("b", iterations(NEAR), version="0.2.0", sysctls={"net.ipv4.tcp_sack": "0"})
    found = {one.what: (one.a, one.b) for one in compare(load(a), load(b)).differences}
    assert next(iter(found)) == "ccmix"
    assert found["machine"] == (("hosts",), ("lab",))
    assert found["kernel release"] == (("5.10.0",), ("6.1.0",))
    assert found["sysctl.net.ipv4.tcp_sack"] == (("1",), ("0",))
    assert found["offloads"] == (("far eth0 gro on",), ("unknown",))
    assert found["path"] == (("real",), ("emulated",))
    assert found["rate"] == (("unknown",), ("1 Gbit/s",))
    assert "duration" not in found
    assert compare(load(a), load(a)).differences == ()


@pytest.mark.parametrize(
    ("queues", "shown"),
    [
        ({"h1": "fq limit 10000p"}, "h1 fq limit 10000p"),
        ({"h1": "fq", "h2": "pfifo"}, "h1 fq, h2 pfifo"),
    ],
    ids=["of one host", "of two hosts"],
)
def test_queues_of_senders_beside_unknown_ones(
    queues: dict[str, str], shown: str, make: Make
) -> None:
    a, b = make("a", iterations(NEAR)), make("b", iterations(NEAR), sender_qdiscs=queues)
    found = {one.what: (one.a, one.b) for one in compare(load(a), load(b)).differences}
    assert found["sender-queue"] == (("unknown",), (shown,))


def test_other_programs_of_a_cca_and_other_parameters_differ(make: Make) -> None:
    a, b = (
        make(
            name,
            iterations(NEAR, path=PATH),
            bpf_ccas={"bbr3": BpfCca(program, {"loss_thresh": thresh, "beta": "77"})},
        )
        for name, program, thresh in (
            ("a", "c9194834acdcb8df", "5"),
            ("b", "e840960fe3c41a43", "9"),
        )
    )
    found = {one.what: (one.a, one.b) for one in compare(load(a), load(b)).differences}
    assert found == {
        "cca.bbr3 program": (("c9194834acdcb8df",), ("e840960fe3c41a43",)),
        "cca.bbr3 parameters loss_thresh": (("5",), ("9",)),
    }


def test_intervals_of_a_command_are_as_long_as_its_iperf3_made_them(make: Make) -> None:
    """Two measured intervals of 0.2 s each are two values, and not a value of the planned second."""
    [result] = load(make("a", iterations([100.0]))).runs
    traffic = Traffic((CommandSource("", "src", "transfer 192.0.2.1"),), None, 0.0, 1.0)
    run = replace(result.run, path=PATH, traffic=traffic)
    output = {
        "start": {"connected": [], "test_start": {"omit": 0, "interval": 0.2}},
        "intervals": [],
        "end": {},
    }
    (result.folder / "generators").mkdir()
    (result.folder / "generators" / "src-cmd.out").write_text(json.dumps(output))
    intervals = {
        "time_s": [0.2, 0.4],
        "group": "cubic",
        "omitted": False,
        "seconds": 0.2,
        "goodput_bps": [1.0, 2.0],
    }
    pl.DataFrame(intervals).write_parquet(result.folder / "intervals.parquet")
    made = replace(result, finished=replace(result.finished, run=run))
    assert interval_goodputs([made], unread=[])["cubic"].tolist() == [1.0, 2.0]


def test_distributions_of_the_intervals(make: Make) -> None:
    """Each run has two measured intervals, a moment apart; A has 2 to 5 bit/s, B 12 to 15."""
    a, b = make("a", iterations([0.0, 1.0, 2.0])), make("b", iterations([10.0, 11.0, 12.0]))
    [condition] = compare(load(a), load(b)).conditions
    [group] = condition.groups
    assert group.distributions
    assert group.distributions.apart == 1
    assert group.distributions.a_quantiles_bps[2] == 3.5  # of 2, 3, 3, 4, 4, 5
    assert group.distributions.b_quantiles_bps[2] == 13.5
    [same] = compare(load(a), load(a)).conditions
    assert same.groups[0].distributions
    assert same.groups[0].distributions.apart == 0


def test_a_campaign_that_carried_nothing_is_drawn(make: Make, ccmix: Ccmix) -> None:
    a, b = make("a", iterations([0.0, 0.0, 0.0])), make("b", iterations(NEAR))
    assert "NaN" not in ccmix("compare", a, b, "--format", "svg").stdout


def test_the_command(make: Make, ccmix: Ccmix) -> None:
    a = make("a", iterations(NEAR))
    b = make("b", iterations([219e6, 220e6, 221e6]), kernel="<b>7</b>")
    table = ccmix("compare", a, b)
    assert (table.returncode, table.stderr) == (0, "")
    assert table.stdout.index("kernel") < table.stdout.index("different: B has 2.2 times")
    data = json.loads(ccmix("compare", a, b, "--format", "json", "--margin", "5%").stdout)
    assert data["margin"] == 0.05
    assert data["conditions"][0]["metrics"][0]["found"]["ratio"] == pytest.approx(2.2)
    page = ccmix("compare", a, b, "--format", "html").stdout
    assert "&lt;b&gt;7&lt;/b&gt;" in page
    assert "different: B has 2.2 times" in page
    assert "<script" not in page
    assert page.count("<svg") == 1
    assert "Matched by: same entry, condition, CCAs, streams and destination" in page
    tables = ccmix("compare", a, b, "--format", "markdown").stdout
    assert (
        "| one all | one all | 3, 3 | cubic | 100 Mbit/s ± 2.48 Mbit/s | 220 Mbit/s ± 2.48 Mbit/s |"
        in tables
    )
    assert "| &lt;b&gt;7&lt;/b&gt; |" in tables
    for wrong in ("0%", "ten", "200%"):
        refused = ccmix("compare", a, b, "--margin", wrong)
        assert (refused.returncode, refused.stdout) == (2, "")
    assert ccmix("compare", a, a / "nothing").returncode == 2


def test_the_drawing(make: Make, ccmix: Ccmix) -> None:
    """The chart has a line for A and for each condition of B, with A's margin behind them; ccmix
    says if there is nothing to draw.
    """
    a, b = make("a", iterations(NEAR)), make("b", iterations([219e6, 220e6, 221e6]))
    spec = specification(compare(load(a), load(b)), "a", "b")
    points = {one["line"]: one for one in spec["data"]["values"]}
    assert {line: one["goodput_bps"] for line, one in points.items()} == {"A": 100e6, "B": 220e6}
    assert {one["panel"] for one in spec["data"]["values"]} == {"one all"}
    assert points["B"]["least_bps"] == pytest.approx(90e6)
    assert points["A"]["low_bps"] == pytest.approx(
        100e6 - 2.484e6, rel=1e-3
    )  # t(0.975, 2) / sqrt(3) Mbit/s
    of_another_name = make("d", iterations(NEAR, entry="other"))
    spec = specification(compare(load(a), load(of_another_name)), "a", "d")
    assert [(one["panel"], one["line"]) for one in spec["data"]["values"]] == [
        ("A: one all", "A"),
        ("A: one all", "B: other all"),
    ]
    drawn = ccmix("compare", a, b, "--format", "svg")
    assert (drawn.returncode, drawn.stdout.count("<svg")) == (0, 1)
    elsewhere = ccmix(
        "compare", a, make("c", iterations(NEAR, cca="bbr", entry="other")), "--format", "svg"
    )
    assert (elsewhere.returncode, elsewhere.stdout) == (2, "")
    assert "no condition in common" in elsewhere.stderr


def test_paths_of_another_base_rtt_say_so(make: Make, ccmix: Ccmix) -> None:
    a = make("a", iterations(NEAR, path=PATH))
    b = make("b", iterations(NEAR, path=with_senders(TOPOLOGY, delay_s=0.006)))
    assert (
        "one all far and one all: 3 valid runs over 12 ms in A, 3 valid runs over 12 ms in B"
        in (ccmix("compare", a, b).stdout)
    )


def test_a_comparison_of_numbers_is_that_of_whole_runs(make: Make) -> None:
    mixed = iterations([100.0, 104.0, 103.0, 101.0], cca="cubic,bbr")
    sides = [
        make(name, [(run, factor * bps) for run, bps in mixed], limited=[1])
        for name, factor in (("a", 1.0), ("b", 1.2))
    ]
    whole = terminal(compare(*map(load, sides), 0.1))
    assert print_compared(*sides, 0.1, "table") == whole


def test_settings_are_listed_once_for_runs_that_have_the_same(make: Make) -> None:
    """Runs of one path, and a run of another one after them."""
    other = replace(TOPOLOGY, mtu_bytes=9000)
    runs = [*iterations([1.0, 1.0, 1.0]), (make_run(iteration=4, path=other), 1.0)]
    listed = {
        each.what: (each.a, each.b)
        for each in compare(load(make("a", runs)), load(make("b", runs[:3]))).differences
    }
    assert listed["mtu"] == (("1500 B", "9000 B"), ("1500 B",))


def test_each_group_of_a_run_has_its_own_distribution(make: Make) -> None:
    results = load(make("c", [(make_run("cubic,bbr"), 100.0)])).runs
    assert {name: of.tolist() for name, of in interval_goodputs(results, unread=[]).items()} == {
        "cubic": [102.0, 103.0],
        "bbr": [102.0, 103.0],
    }
