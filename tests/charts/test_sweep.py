"""Tests how swept settings of INI files become numbers on axes."""

import pytest

from ccmix.charts.frames import swept_axis


@pytest.mark.parametrize(
    ("key", "texts", "title", "values", "spacing"),
    [
        ("buffer", ("10bdp", "0.1bdp"), "buffer (BDP)", {"0.1bdp": 0.1, "10bdp": 10.0}, "log"),
        ("buffer", ("100kb", "1mb"), "buffer (MB)", {"100kb": 0.1, "1mb": 1.0}, "linear"),
        (
            "delay",
            ("5ms", "0.044s"),
            "delay in each direction (ms)",
            {"5ms": 5.0, "0.044s": 44.0},
            "linear",
        ),
        ("netem-lat", ("2", "5"), "delay in each direction (ms)", {"2": 2.0, "5": 5.0}, "linear"),
        (
            "loss",
            ("0%", "0.001%", "1%"),
            "loss (%)",
            {"0%": 0.0, "0.001%": 0.001, "1%": 1.0},
            "even",
        ),
        ("loss", ("0%", "0.1%"), "loss (%)", {"0%": 0.0, "0.1%": 0.1}, "linear"),
        (
            "rate",
            ("10mbit", "1gbit"),
            "bottleneck rate (Gbit/s)",
            {"10mbit": 0.01, "1gbit": 1.0},
            "log",
        ),
        ("streams", ("1", "16"), "flows", {"1": 1.0, "16": 16.0}, "linear"),
        ("mtu", ("1500", "9000"), "MTU (kB)", {"1500": 1.5, "9000": 9.0}, "linear"),
        (
            "tcp_bbr2.loss_thresh",
            ("2", "50"),
            "tcp_bbr2.loss_thresh",
            {"2": 2.0, "50": 50.0},
            "log",
        ),
    ],
)
def test_numbers(
    key: str, texts: tuple[str, ...], title: str, values: dict[str, float], spacing: str
) -> None:
    sweep = swept_axis(key, texts)
    assert sweep
    assert (sweep.title, sweep.values, sweep.spacing) == (title, values, spacing)
    assert list(sweep.values) == list(values)  # ascending


@pytest.mark.parametrize(
    ("key", "texts"),
    [
        ("cca", ("cubic", "bbr")),
        ("buffer", ("100kb", "1bdp")),
        ("pacing", ("none", "1gbit")),
        ("loss", ("gemodel 1% 10%", "1%")),
        ("delay", ("5ms", "5ms")),
        ("delay", ("5ms", "0.005s")),
    ],
)
def test_what_is_no_axis_of_numbers(key: str, texts: tuple[str, ...]) -> None:
    assert swept_axis(key, texts) is None
