"""Published numbers agree with their sources, and with the statements about them."""

import csv
import statistics

import pytest

from ccmix.papers.reading import PublishedNumber, read_published
from ccmix.units import parse_percent, parse_rate, parse_time
from support.commands import REPOSITORY

REFERENCE = REPOSITORY / "archive" / "cca-reference.csv"
BUFFERS_BYTES = {"100 KB": 102_400, "10 MB": 10_485_760}
DATTA = read_published("datta-fig2")


def test_google_s_own_code_is_beside_figure_7_as_it_was_measured() -> None:
    with REFERENCE.open() as lines:
        rows = [row for row in csv.DictReader(lines) if row["block"] == "b"]
    numbers = read_published("gomez-fig7")
    assert len(numbers) == 6
    for number in numbers:
        loss = parse_percent(number.at["loss"])
        same = [
            row
            for row in rows
            if row["cca"] == number.cca and float(row["loss"]) == pytest.approx(loss)
        ]
        assert len(same) == 3
        assert number.value == pytest.approx(
            statistics.fmean(float(row["goodput_bps"]) for row in same)
        )


def test_the_coefficients_of_table_2_have_the_means_of_its_text() -> None:
    """Tierney et al., section V.F, of CUBIC: that of BBRv2 includes a cell that is
    left out here.
    """
    numbers = [each for each in read_published("tierney-table2") if each.quantity == "variation"]
    for delays, mean in (("2ms or 5ms or 10ms", 0.2699), ("20ms or 30ms or 50ms", 0.0939)):
        cells = [
            each.value for each in numbers if (each.cca, each.at["delay"]) == ("cubic", delays)
        ]
        assert len(cells) == 12
        assert statistics.fmean(cells) == pytest.approx(mean, abs=5e-5)


def buffer_bdp(number: PublishedNumber) -> float:
    buffer = BUFFERS_BYTES[number.series.split(",")[0]]
    return buffer * 8 / parse_rate(number.at["rate"]) / parse_time(number.at["ack-delay"])


def test_bbr_of_datta_and_fund_retransmits_nothing_from_4_bdp_on() -> None:
    """This justifies how their "sufficiently large" is read."""
    large = [
        each
        for each in DATTA
        if (each.cca, each.quantity) == ("bbr", "retransmits") and buffer_bdp(each) >= 4
    ]
    assert len(large) > 40
    assert {each.value for each in large} == {0.0}


def test_goodputs_of_datta_and_fund_differ_by_at_most_25_times() -> None:
    """So their "100x or 1000x" mean percent."""
    goodputs = {
        (each.series, each.cca, each.at["rate"], each.at["ack-delay"]): each.value
        for each in DATTA
        if each.quantity == "goodput_bps"
    }
    ratios = [
        value / goodputs[series, "cubic", rate, rtt]
        for (series, cca, rate, rtt), value in goodputs.items()
        if cca != "cubic"
    ]
    assert 10 < max(ratios) < 25


def test_cubic_of_datta_and_fund_uses_less_than_90_percent_below_0_4_bdp() -> None:
    """So their data meet the limits that are set for the lab."""
    for series in ("100 KB, kernel 4.15", "100 KB, kernel 5.13"):
        cells = [
            (buffer_bdp(each), each.value / parse_rate(each.at["rate"]))
            for each in DATTA
            if (each.series, each.cca, each.quantity) == (series, "cubic", "goodput_bps")
        ]
        for least, below in ((0.0, 0.1), (0.1, 0.4)):
            assert statistics.fmean(used for bdp, used in cells if least <= bdp < below) < 0.9
        assert statistics.fmean(used for bdp, used in cells if bdp >= 0.4) > 0.9
