"""A setting is the same whether one campaign sweeps it, and the other has it in its topology or
by default.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ccmix.compare.cells import cells
from ccmix.compare.matching import match
from ccmix.compare.verdicts import compare
from ccmix.config import load as load_config
from ccmix.model import Queue, Run
from ccmix.plan import make_plan
from support.model import TOPOLOGY

from .conftest import Make, iterations, load

NEAR = [100e6, 101e6, 99e6]
TOPOLOGY_SECTION = "[topology t]\nrate = 100mbit\nbuffer = 1bdp\ndelay = 5ms\n"
ENTRY = "type = iperf3\ntopology = t\nduration = 5s\nsweep.cca = cubic, bbr\n"


def campaign(tmp_path: Path, name: str, text: str) -> list[tuple[Run, float]]:
    """Returns the runs that an INI file plans, each with a goodput."""
    file = tmp_path / f"{name}.ini"
    file.write_text(text)
    return [
        (run, 90e6 + number * 1e5)
        for number, run in enumerate(make_plan(load_config(file).entries, 1))
    ]


def matched(
    make: Make, a: Sequence[tuple[Run, float]], b: Sequence[tuple[Run, float]]
) -> list[tuple[str, str, str]]:
    campaigns = [cells(load(make(name, runs)).runs) for name, runs in (("a", a), ("b", b))]
    return [(pair.a.name, pair.b.name, pair.rule) for pair in match(*campaigns).pairs]


@pytest.mark.parametrize("entry_of_b", ["e", "x"])
def test_a_default_is_what_the_other_file_sweeps(
    entry_of_b: str, make: Make, tmp_path: Path
) -> None:
    a = campaign(tmp_path, "a", f"{TOPOLOGY_SECTION}[e]\n{ENTRY}iterations = 3\n")
    b = campaign(
        tmp_path,
        "b",
        f"{TOPOLOGY_SECTION}[{entry_of_b}]\n{ENTRY}iterations = 3\nsweep.qdisc = bfifo, fq_codel\n",
    )
    for of_a, of_b in ((a, b), (b, a)):
        pairs = [sorted(pair[:2]) for pair in matched(make, of_a, of_b)]
        assert pairs == [
            sorted([f"e cca={cca}", f"{entry_of_b} cca={cca},qdisc=bfifo"])
            for cca in ("cubic", "bbr")
        ]
        for outdir in ("a", "b"):
            (tmp_path / outdir).rename(tmp_path / f"{outdir}-{of_a is a}")


def test_other_settings_that_differ_are_listed(make: Make, tmp_path: Path) -> None:
    """B's path has another rate throughout: a condition is still the one with the queue
    that A has.
    """
    a = campaign(tmp_path, "a", f"{TOPOLOGY_SECTION}[e]\n{ENTRY}iterations = 3\n")
    slower = TOPOLOGY_SECTION.replace("100mbit", "50mbit")
    b = campaign(
        tmp_path, "b", f"{slower}[x]\n{ENTRY}iterations = 3\nsweep.qdisc = bfifo, fq_codel\n"
    )
    compared = compare(load(make("a", a)), load(make("b", b)))
    assert [(one.a.name, one.b.name) for one in compared.conditions] == [
        (f"e cca={cca}", f"x cca={cca},qdisc=bfifo") for cca in ("cubic", "bbr")
    ]
    assert {one.rule for one in compared.conditions} == {
        "same traffic, and same values of the path's settings that A or B varies"
    }
    assert "rate" in [difference.what for difference in compared.differences]
    assert [cell.name for cell in compared.only_b] == [
        "x cca=cubic,qdisc=fq_codel",
        "x cca=bbr,qdisc=fq_codel",
    ]


def test_another_default_matches_nothing(make: Make) -> None:
    red = replace(TOPOLOGY, queue=Queue("red"))
    a = iterations(NEAR, path=red)
    swept = [
        run
        for kind in ("bfifo", "codel")
        for run in iterations(
            NEAR, path=replace(TOPOLOGY, queue=Queue(kind)), entry="x", qdisc=kind
        )
    ]
    assert matched(make, a, swept) == []


def test_the_same_path_comes_before_the_same_words(make: Make) -> None:
    """A's only condition has a name that one of B's has, of another path, and the path
    of another.
    """
    codel = replace(TOPOLOGY, queue=Queue("codel"))
    a = iterations(NEAR, path=codel, entry="a")
    b = [*iterations(NEAR, entry="b"), *iterations(NEAR, path=codel, entry="b", qdisc="codel")]
    assert matched(make, a, b) == [("a all", "b qdisc=codel", "same traffic and path")]
