"""Tests the sentence on each setting, of lines whose numbers are chosen."""

from dataclasses import replace

from ccmix.analysis.comparison import Paired
from ccmix.analysis.effects import Level, SettingLine, Subject
from ccmix.report.effects_text import settings_sentences

CUBIC, BBR = Subject("goodput", "cubic"), Subject("goodput", "bbr")
SHARE = Subject("share", "bbr", ("cubic",), 0.5)
RATIO = Subject("ratio", "bbr", ("cubic",))


def level(value: str, mean: float, p: float | None = 0.001, side: int = 0) -> Level:
    return Level(value, mean, side, None, p)


def line(subject: Subject, setting: str, *levels: Level, **held: str) -> SettingLine:
    """Makes a line; its first level has no test."""
    first = replace(levels[0], p_adjusted=None)
    return SettingLine(subject, setting, tuple(held.items()), "path", 8, (first, *levels[1:]))


def said(*lines: SettingLine) -> list[str]:
    return [f"{name}: {sentence}" for name, sentence in settings_sentences(lines)]


def test_a_change_here_and_none_elsewhere() -> None:
    assert said(
        line(CUBIC, "loss", level("0%", 993e6), level("0.1%", 990e6, p=0.5), delay="5ms"),
        line(CUBIC, "loss", level("0%", 993e6), level("0.1%", 267e6), delay="44ms"),
        line(BBR, "loss", level("0%", 980e6), level("0.1%", 970e6), delay="5ms"),
        line(SHARE, "loss", level("0%", 0.9), level("0.1%", 0.92), delay="5ms"),
    ) == [
        "Loss: the goodput of cubic alone falls from 993 Mbit/s (0%) to 267 Mbit/s (0.1%) with "
        "delay 44ms, and changes by at most 0.3% elsewhere; no other goodput changes by more than "
        "1% and no share changes by more than 2 percentage points."
    ]


def test_each_setting_has_a_sentence_that_names_where_the_sign_turns() -> None:
    assert said(
        line(
            SHARE,
            "buffer",
            level("0.5 BDP", 0.91, side=1),
            level("8 BDP", 0.28, side=-1),
            qdisc="bfifo",
        ),
        line(
            SHARE, "buffer", level("0.5 BDP", 0.51), level("8 BDP", 0.511, p=0.5), qdisc="fq_codel"
        ),
        line(
            SHARE, "qdisc", level("bfifo", 0.91, side=1), level("fq_codel", 0.51), buffer="0.5 BDP"
        ),
        line(
            SHARE, "qdisc", level("bfifo", 0.28, side=-1), level("fq_codel", 0.511), buffer="8 BDP"
        ),
    ) == [
        "Buffer: the share of bbr competing with cubic falls from 91% (0.5 BDP) to 28% (8 BDP) with qdisc "
        "bfifo, and so turns from more to less than fair, and changes by at most 0.1 percentage "
        "points elsewhere.",
        "Queue discipline: the share of bbr competing with cubic falls from 91% (bfifo) to 51% (fq_codel, "
        "about fair) with a buffer of 0.5 BDP, and rises from 28% (bfifo) to 51.1% (fq_codel, "
        "about fair) with a buffer of 8 BDP.",
    ]


def test_of_several_values_each_is_named_and_between_which_the_sign_turns() -> None:
    shares = (("1 BDP", 0.9, 1), ("2 BDP", 0.7, 1), ("4 BDP", 0.5, 0), ("8 BDP", 0.3, -1))
    [sentence] = said(
        line(SHARE, "buffer", *(level(value, share, side=side) for value, share, side in shares))
    )
    assert sentence == (
        "Buffer: the share of bbr competing with cubic falls: 90% (1 BDP), 70% (2 BDP), 50% (4 BDP, about "
        "fair), 30% (8 BDP), and so turns from more to less than fair between 2 BDP and 8 BDP."
    )


def test_of_many_values_the_ends_and_the_extremes_are_named() -> None:
    goodputs = [
        level(f"{at} ms", bps * 1e6) for at, bps in enumerate((500, 900, 800, 700, 300, 400), 1)
    ]
    assert said(line(CUBIC, "base RTT", *goodputs)) == [
        "Base RTT: the goodput of cubic alone changes from 500 Mbit/s (1 ms) to 400 Mbit/s (6 ms), "
        "at least 300 Mbit/s (5 ms), at most 900 Mbit/s (2 ms)."
    ]


def test_what_no_test_has_shown_is_no_change() -> None:
    [unseen] = said(line(CUBIC, "buffer", level("1 BDP", 30e6), level("2 BDP", 60e6, p=0.2)))
    assert unseen == (
        "Buffer: the goodput of cubic alone shows no significant change: from 30.0 Mbit/s (1 BDP) "
        "to 60.0 Mbit/s (2 BDP)."
    )
    [untested] = said(
        line(CUBIC, "buffer", level("1 BDP", 30e6), level("2 BDP", 60e6, p=None), loss="0%")
    )
    assert untested == (
        "Buffer: the goodput of cubic alone is 30.0 Mbit/s (1 BDP) and 60.0 Mbit/s (2 BDP) with "
        "0% loss (not tested)."
    )
    [both] = said(
        line(
            CUBIC,
            "buffer",
            level("1 BDP", 3e7),
            level("2 BDP", 6e7, p=None),
            level("3 BDP", 5e7, p=0.2),
        )
    )
    assert "shows no significant change in the tested cases: 30.0 Mbit/s (1 BDP), 60.0" in both


def test_a_change_that_the_correction_leaves_undecided_has_its_interval() -> None:
    change = Paired(3, 0.45, 0.4, (0.3, 0.5), None, None, 0.01, 4)
    undecided = replace(level("1%", 0.85, p=0.3), change=change, iterations_needed=5)
    assert said(line(SHARE, "loss", level("0%", 0.45), undecided)) == [
        "Loss: the share of bbr competing with cubic may change: from 45% (0%) to 85% (1%, "
        "undecided with 3 iterations: 95% CI of the change 30 to 50 percentage points, about 5 "
        "would decide)."
    ]
    goodput = replace(change, interval=(-2e6, -1e6))
    undecided = replace(undecided, mean=3e6, change=goodput)
    assert "95% CI of the change -2.00 Mbit/s to -1.00 Mbit/s, about" in "".join(
        said(line(CUBIC, "loss", level("0%", 5e6), undecided))
    )


def test_a_cca_overtakes_another_one() -> None:
    assert said(
        line(RATIO, "loss", level("0%", 0.7, p=None, side=-1), level("0.1%", 2.0, p=None, side=1))
    ) == [
        "Loss: bbr alone turns from less to more than cubic alone: from 0.7 times (0%) to 2 "
        "times (0.1%) its goodput."
    ]


def test_paths_and_numbers_of_flows_are_named_where_they_differ() -> None:
    one = line(CUBIC, "loss", level("0%", 9e8), level("0.1%", 1e8))
    [sentence] = said(replace(one, path="near", streams=1), replace(one, path="far", streams=16))
    assert (
        "the goodput of 1 flow of cubic alone falls from 900 Mbit/s (0%) to 100 Mbit/s (0.1%) on "
        "near; " in sentence
    )
    assert "the goodput of 16 flows of cubic alone falls" in sentence


def test_only_the_largest_changes_have_words() -> None:
    lines = [
        line(Subject("goodput", cca), "loss", level("0%", 9e8), level("0.1%", bps), delay=f"{at}ms")
        for cca, bps in (("cubic", 1e8), ("reno", 2e8), ("htcp", 3e8), ("bic", 4e8), ("vegas", 5e8))
        for at in range(5)
    ]
    [sentence] = said(*lines)
    assert "vegas" not in sentence
    assert sentence.endswith("; 1 more is in the table.")
    assert sentence.count("and changes in 2 more cases by more than 5%") == 4


def test_a_level_that_may_be_chance_is_marked() -> None:
    """Of several levels, the last one differs from the first, and the second is not shown to."""
    goodputs = (level("0%", 9.87e6), level("1%", 6.07e6, p=0.3), level("3%", 2.7e6))
    assert said(line(CUBIC, "loss", *goodputs)) == [
        "Loss: the goodput of cubic alone falls: 9.87 Mbit/s (0%), 6.07 Mbit/s (1%, not "
        "significant), 2.70 Mbit/s (3%)."
    ]
    untested = (level("0%", 9.87e6), level("1%", 6.07e6, p=None), level("3%", 2.7e6))
    assert (
        "6.07 Mbit/s (1%, not tested), 2.70 Mbit/s (3%)" in said(line(CUBIC, "loss", *untested))[0]
    )
    none = (level("0%", 9.87e6), level("1%", 6.07e6, p=0.3), level("3%", 2.7e6, p=0.2))
    assert said(line(CUBIC, "loss", *none)) == [
        "Loss: the goodput of cubic alone shows no significant change: 9.87 Mbit/s (0%), 6.07 "
        "Mbit/s (1%), 2.70 Mbit/s (3%)."
    ]
