"""One statement of each paper, from the command to its outcome, in the lab."""

import pytest

from ccmix.papers.reading import EXPERIMENTS
from support.commands import Ccmix

pytestmark = [pytest.mark.deep, pytest.mark.lab, pytest.mark.timeout(1200)]

CHECKED = {
    "datta-fig2": "bbr-retransmits-less-with-a-deep-buffer",
    "tierney-table2": "cubic-drops-with-little-loss",
    "dai-fig1": "fair-at-300-ms",
    "gomez-fig7": "cubic-below-20-percent-at-0.1-percent",
    "zeynali-coexistence": "v3-most-unfair-at-a-shallow-buffer",
}  # cheap ones


@pytest.mark.parametrize(("name", "statement"), CHECKED.items(), ids=CHECKED)
def test_a_statement_of_the_paper_holds(name: str, statement: str, ccmix: Ccmix) -> None:
    outdir = ccmix.folder / "out"
    done = ccmix("reproduce", name, "--statement", statement, "-o", outdir, timeout=1100)
    assert done.returncode == 0, done.stderr
    assert f"{statement}: holds" in done.stdout, done.stdout
    again = ccmix("reproduce", name, "--statement", statement, "-o", outdir, "--resume")
    assert again.returncode == 0, again.stderr
    assert again.stdout == done.stdout
    assert "\n0 of " in f"\n{again.stderr}"


def test_each_paper_has_a_statement() -> None:
    by_name = {experiment.name: experiment.paper.author for experiment in EXPERIMENTS}
    assert {by_name[name] for name in CHECKED} == set(by_name.values())
