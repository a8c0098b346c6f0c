"""Experiments are read from TOML, and a mistake is reported with its place."""

import re
from pathlib import Path

import pytest

from ccmix.papers.experiment import Bound, Experiment, Paper, Quotient, RunNumber
from ccmix.papers.reading import FOLDER, PaperError, combinations, read_experiment, read_experiments
from papers.runs import quotient

HEAD = 'shows = "figure 1"\nquestion = "Who is faster?"\nentry = "shallow"\n'
STATEMENT = '[[statements]]\nname = "fast"\nsection = "1"\nsentence = "It is fast."\n'


def read(folder: Path, text: str) -> Experiment:
    file = folder / "a-paper.toml"
    file.write_text(HEAD + text)
    return read_experiment(file, Paper("author", "citation", "link"))


def bounds(folder: Path, table: str) -> tuple[Bound, ...]:
    [statement] = read(folder, f"{STATEMENT}bounds = [{{{table}}}]").statements
    return statement.bounds


def test_lists_of_words_stand_for_each_of_their_words_and_the_last_one_varies_fastest() -> None:
    table = {
        "quantity": "share",
        "at": {"rate": ["1", "2"], "rtt": ["3", "4"]},
        "buffer_bdp": [0.0, 1.0],
    }
    assert list(combinations(table)) == [
        {"quantity": "share", "at": {"rate": rate, "rtt": rtt}, "buffer_bdp": [0.0, 1.0]}
        for rate in ("1", "2")
        for rtt in ("3", "4")
    ]


def test_a_bound_on_a_number(tmp_path: Path) -> None:
    assert bounds(
        tmp_path, 'quantity = "share", cca = "bbr", at.rtt = ["1ms", "2ms"], least = 1'
    ) == tuple(
        Bound(RunNumber("share", "shallow", "bbr", at={"rtt": rtt}), least=1.0)
        for rtt in ("1ms", "2ms")
    )


def test_a_bound_on_a_ratio_has_on_both_sides_what_they_share(tmp_path: Path) -> None:
    table = (
        'kind = "ratio", quantity = "goodput_bps", over.cca = "bbr", under.entry = "deep", '
        'at.rtt = "1ms", most = 2'
    )
    assert bounds(tmp_path, table) == (
        Bound(
            quotient(
                RunNumber("goodput_bps", "shallow", "bbr", at={"rtt": "1ms"}),
                RunNumber("goodput_bps", "deep", at={"rtt": "1ms"}),
            ),
            most=2.0,
        ),
    )


def test_a_bound_on_a_ratio_of_means(tmp_path: Path) -> None:
    table = (
        'kind = "ratio of means", quantity = "variation", over.cca = "cubic", under.cca = "bbr", '
        'at.rtt = "1ms", '
        'mean = [{at.loss = ["0%", "1%"]}, {entry = "deep"}], least = 2'
    )

    def mean(cca: str) -> tuple[RunNumber, ...]:
        shallow = (
            RunNumber("variation", "shallow", cca, at={"loss": loss, "rtt": "1ms"})
            for loss in ("0%", "1%")
        )
        return (*shallow, RunNumber("variation", "deep", cca, at={"rtt": "1ms"}))

    assert bounds(tmp_path, table) == (Bound(Quotient(mean("cubic"), mean("bbr")), least=2.0),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rows = 1\n", "a-paper.toml: 'rows' is not a key of this table"),
        ("entry", "a-paper.toml: Expected '=' after a key"),
        ("[[statements]]\nname = 'fast'\n", "a-paper.toml: statements.fast: 'bounds' is missing"),
        (
            f"{STATEMENT}bounds = 3",
            "a-paper.toml: statements.fast.bounds: Input should be a valid list, not 3",
        ),
        (
            f"{STATEMENT}bounds = [{{quantity = 'share'}}]",
            "statements.fast.bounds.1: give 'least', 'most' or both",
        ),
        (f"{STATEMENT}bounds = [{{least = 1}}]", "statements.fast.bounds.1: 'quantity' is missing"),
        (
            f"{STATEMENT}bounds = [{{quantity = 'speed', least = 1}}]",
            "statements.fast.bounds.1.quantity: Input should be 'goodput_bps', 'variation', ",
        ),
        (
            f"{STATEMENT}bounds = [{{quantity = 'share', least = 'much'}}]",
            "statements.fast.bounds.1.least: Input should be a valid number",
        ),
        (
            f"{STATEMENT}bounds = [{{kind = 'ration', least = 1}}]",
            "1.kind: 'ration' is not known; did you mean 'ratio'?",
        ),
        (
            f"{STATEMENT}bounds = [{{kind = 'ratio', over.cca = 'bbr', least = 1}}]",
            "bounds.1: 'under' is missing",
        ),
        (
            f"{STATEMENT}tried = ['fq']\nbounds = [{{quantity = 'share', least = 1}}]",
            "statements.fast.tried: 'fq' is not known",
        ),
        ("tried = 3\n", "a-paper.toml: tried: Input should be a valid dictionary, not 3"),
        ("[tried.fq]\nentry = 'with-fq'\n", "a-paper.toml: tried.fq: 'setting' is missing"),
        (
            "[[figures]]\nkind = 'pie'\nname = 'Figure 1'\n",
            "a-paper.toml: figures.Figure 1.kind: 'pie' is not known",
        ),
        (
            "[[figures]]\nname = 'Figure 1'\ntitle = 'share'\nquantities = ['share']\nx = "
            "'rtt'\npanels = [{}]\n",
            "a-paper.toml: figures.Figure 1.panels.1: 'title' is missing",
        ),
        (
            "[[comparisons]]\nquantity = 'share'\n",
            "a-paper.toml: comparisons.1: 'series' is missing",
        ),
    ],
)
def test_a_mistake_is_reported_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(PaperError, match=re.escape(message)):
        read(tmp_path, text)


def test_a_paper_without_a_citation_is_reported(tmp_path: Path) -> None:
    (tmp_path / "papers.toml").write_text(
        '[dai]\nlink = "https://example.org"\nexperiments = ["dai-fig1"]\n'
    )
    with pytest.raises(PaperError, match=re.escape("papers.toml: dai: 'citation' is missing")):
        read_experiments(tmp_path)


def test_papers_are_in_the_order_of_their_list() -> None:
    assert [experiment.paper.author for experiment in read_experiments(FOLDER)][:3] == [
        "datta",
        "tierney",
        "tierney",
    ]
