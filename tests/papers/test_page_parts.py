"""Parts of the page on papers: its tables, folded blocks, settings in words, and which command
made an archive.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from ccmix.archive import Campaign
from ccmix.model import Buffer, Queue
from ccmix.papers.experiment import PaperTable, PaperTableColumn, PaperTableLine
from ccmix.papers.forms import planned
from ccmix.papers.measuring import MeasuredRuns
from ccmix.papers.reading import EXPERIMENTS, PublishedNumber
from paper_pages.drawing import lab_settings
from paper_pages.figure_data import FigureData
from paper_pages.page import OLDER, WHYS, made_by, paper_table, wrapped
from papers.runs import run_of
from support.commands import REPOSITORY
from support.finished_runs import campaign_plan
from support.model import with_senders


def test_a_table_of_the_paper_has_published_and_lab_in_each_cell() -> None:
    columns = (("RTT < 30 ms, CUBIC", "2ms or 5ms"), ("RTT ≥ 30 ms, CUBIC", "20ms"))
    figure = PaperTable(
        "Table II",
        "title",
        ("loss", "test"),
        tuple(
            PaperTableLine((loss, "one flow"), "entry", "p1", {"loss": loss})
            for loss in ("0%", "1%")
        ),
        tuple(
            PaperTableColumn(head, "goodput_bps", "cubic", {"delay": delay}, 1e9)
            for head, delay in columns
        ),
        "A note.",
    )
    numbers = tuple(
        PublishedNumber(
            "p1", "cubic", "goodput_bps", value, "table", {"loss": loss, "delay": delay}
        )
        for loss, delay, value in (
            ("0%", "2ms or 5ms", 9.88e9),
            ("0%", "20ms", 9.8e9),
            ("1%", "20ms", 4.72e7),
        )
    )
    runs = (
        run_of({"cubic": value}, number, {"loss": loss, "delay": delay})
        for loss, delay, value in (
            ("0%", "5ms", 9.7e9),
            ("0%", "20ms", 9.6e9),
            ("1%", "2ms", 1e9),
            ("1%", "5ms", 2e9),
        )
        for number in (1, 2)
    )
    cells = paper_table(figure, FigureData(numbers, MeasuredRuns(tuple(runs)), ()))
    assert cells.head == ["loss", "test", "RTT < 30 ms, CUBIC", "RTT ≥ 30 ms, CUBIC"]
    assert cells.rows == [
        ["0%", "one flow", "9.88 / 9.70<sup>a</sup>", "9.80 / 9.60"],
        ["1%", "one flow", "– / 1.50", "0.0472 / –"],
    ]
    assert cells.in_part == {"the lab measured only delay 5ms of 2ms, 5ms": "a"}


def test_prose_is_wrapped_and_nothing_else() -> None:
    long = "word " * 30
    folded = (
        f"<details><summary>The cells</summary>\n\n\n\n| head |\n|---|\n| {long} |\n\n</details>\n"
    )
    lines = wrapped(
        f"# {long}\n{long}\n\n- {long}\n- {long}\n\n![{long}](images/a.svg)\n\n{folded}"
    ).splitlines()
    prose = [line for line in lines if not line.startswith(("#", "|", "<"))]
    assert max(map(len, prose)) <= 100
    assert f"# {long}".rstrip() in [line.rstrip() for line in lines]
    assert sum(line.startswith("- ") for line in lines) == 2
    assert [line for line in lines if line.startswith(("<", "|---"))] == [
        "<details><summary>The cells</summary>",
        "|---|",
        "</details>",
    ]
    assert lines[lines.index("|---|") - 2] == ""


def test_settings_are_said_in_words() -> None:
    runs = [run_of({"bbr": 1.0}, 1, {}, entry) for entry in ("shallow", "deep")]
    paths = [
        replace(run.run.path, buffer=Buffer(amount, "bdp"))
        for run, amount in zip(runs, (0.5, 10.0), strict=True)
    ]
    fq_codel = with_senders(replace(paths[1], offloads=True), queue=Queue("fq_codel"))
    runs = [
        replace(run, run=replace(run.run, path=path))
        for run, path in zip(runs, (paths[0], fq_codel), strict=True)
    ]
    assert lab_settings(runs[:1]) == (
        "entry shallow, buffer 0.5 BDP, queue discipline bfifo at the bottleneck and fq at the "
        "sender, offloads off, Linux 7.2.12-ccmix"
    )
    assert lab_settings(runs) == (
        "entries shallow and deep, buffer 0.5 or 10 BDP, queue discipline bfifo at the bottleneck "
        "and fq or fq_codel at the sender, offloads off or on, Linux 7.2.12-ccmix"
    )


@pytest.mark.parametrize(
    ("buffers", "words"),
    [
        ([Buffer(102_400, "byte")], "buffer 102 kB,"),
        (
            [Buffer(amount, "bdp") for amount in (0.1, 100.0, 1.0, 10.0)],
            "buffer 0.1 or 1 or 10 or 100 BDP,",
        ),
        (
            [Buffer(amount, "bdp") for amount in (0.1, 100.0, 1.0, 10.0, 30.0)],
            "buffer 0.1 to 100 BDP,",
        ),
    ],
)
def test_many_buffers_are_a_range(buffers: list[Buffer], words: str) -> None:
    run = run_of({"bbr": 1.0}, 1, {})
    runs = [
        replace(run, run=replace(run.run, path=replace(run.run.path, buffer=buffer)))
        for buffer in buffers
    ]
    assert words in lab_settings(runs)


def test_an_archive_is_known_by_its_plan_and_not_by_its_text() -> None:
    """A comment of the INI file may change; a run that is left out, or another seed, makes
    another plan.
    """
    for full, command in (
        (False, "`ccmix reproduce dai-fig1`"),
        (True, "`ccmix reproduce dai-fig1 --full`"),
    ):
        runs = planned("dai-fig1", 7, full=full)
        plan = campaign_plan(runs, ini="# another comment", seed=7)
        assert made_by("dai-fig1", Campaign(Path(), plan)) == command
        assert made_by("dai-fig1", Campaign(Path(), replace(plan, runs=runs[1:]))) == OLDER
        assert made_by("dai-fig1", Campaign(Path(), campaign_plan(runs, seed=8))) == OLDER
        assert made_by("dai-fig1", Campaign(Path(), campaign_plan(runs, seed=None))) == OLDER
    with_tries = campaign_plan(planned("gomez-fig8", 7, full=False), seed=7)
    assert (
        made_by("gomez-fig8", Campaign(Path(), with_tries))
        == "`ccmix reproduce gomez-fig8 --tried`"
    )


def test_pages_with_reasons_have_the_titles_that_links_give_them() -> None:
    for name, title in WHYS.items():
        assert (
            (REPOSITORY / "docs" / "explanation" / f"{name}.md")
            .read_text()
            .startswith(f"# {title}\n")
        )
    assert {name for experiment in EXPERIMENTS for name in experiment.whys} <= set(WHYS)
