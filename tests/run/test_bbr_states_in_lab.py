"""A run of the lab has the phases of BBR's later versions, from the module's file to the chart of
the report.
"""

from pathlib import Path

import polars as pl
import pytest

from support.commands import Ccmix

pytestmark = [pytest.mark.lab, pytest.mark.deep]

INI = """
[topology path]
rate = 20mbit
rtt = 40ms
buffer = 1bdp

[versions]
type = iperf3
topology = path
cca = bbr2:1,bbr3:1,cubic:1
streams = 3
duration = 8s
interval = 10ms
"""
PROBES = {"probe_bw_down", "probe_bw_cruise", "probe_bw_refill", "probe_bw_up"}


def test_phases_are_recorded_in_their_order_and_drawn(tmp_path: Path) -> None:
    ini = tmp_path / "versions.ini"
    ini.write_text(INI)
    done = Ccmix(tmp_path)("run", ini, "--lab", "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    [file] = (tmp_path / "out").glob("versions/all/receiver/*/sockets.parquet")
    sockets = (
        pl.read_parquet(file).filter(end="sender", final=False, state="established").sort("time_s")
    )
    for cca in ("bbr2", "bbr3"):
        own = sockets.filter(cca=cca)
        assert own["bbr_phase"].null_count() == 0
        spans = own.filter(pl.col("bbr_phase").ne_missing(pl.col("bbr_phase").shift()))[
            "bbr_phase"
        ].to_list()
        assert spans[:2] == ["startup", "drain"]
        assert set(spans[2:]) - {"probe_rtt"} == PROBES
        # in PROBE_BW a phase may be shorter than the time between two samples, but its gain is that
        # of the phase
        gains = own.filter(bbr_phase="probe_bw_up")["bbr_pacing_gain"].unique().to_list()
        assert gains == [1.25]
        assert own["bbr_pacing_gain"].filter(own["bbr_phase"] == "startup").min() > 2  # type: ignore[operator]
        assert own["bbr_cycle"].is_sorted()
        assert own["bbr_cycle"][-1] >= 2
        assert own["bbr_inflight_hi_packets"].drop_nulls().max() < 500  # type: ignore[operator]
        assert own["bbr_inflight_lo_packets"].drop_nulls().len() > 0
        assert 1e5 < own["bbr_bw_lo_bps"].drop_nulls().median() < 25e6  # type: ignore[operator]
    assert (
        sockets.filter(cca="cubic")["bbr_phase"].null_count()
        == sockets.filter(cca="cubic").height
        > 0
    )
    page = (tmp_path / "out" / "report.html").read_text()
    assert "One BBRv2 flow over time: versions, all" in page
    assert "One BBRv3 flow over time: versions, all" in page
    assert "probe_bw, refill" in page
