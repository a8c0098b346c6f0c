"""Tests entries with cca-load: between two namespaces of this machine, with the real ccmix-cca and
this kernel.
"""

import contextlib
import json
import os
import random
import re
import signal
import time
from pathlib import Path

import polars as pl
import pytest

from ccmix.conditions.bpf_cca import AVAILABLE
from support.cca_bpf import Loader
from support.commands import Ccmix, Pair, RunIni, Write, rows, summaries, wait_for

MIX = "type = iperf3\ncca = reno@20M,bbr3@20M\nstreams = 2\nduration = 2s\n"
SWEEP = "param-sweep = tcp_bbr3/parameters/{}\n"
KILLS = 60


def available() -> list[str]:
    return Path(AVAILABLE).read_text().split()


@pytest.mark.usefixtures("lists_of_sockets")
def test_an_entry_loads_a_cca_for_its_runs(
    own_state: Path, loader: Loader, pair: Pair, tmp_path: Path, run_ini: RunIni
) -> None:
    run_ini(f"[mix]\n{MIX}cca-load = bbr3\niterations = 2\n")
    assert [(row["cca"], row["runs"], row["invalid"]) for row in rows(tmp_path / "out")] == [
        ("reno", 2, 0),
        ("bbr3", 2, 0),
    ]
    for summary in summaries(tmp_path / "out"):
        assert summary["facts"]["bpf_ccas"]["bbr3"]["parameters"]["loss_thresh"] == "5"
        assert summary["execution"]["diagnostics"] == []
    [first, second] = [
        summary["facts"]["bpf_ccas"]["bbr3"]["program"] for summary in summaries(tmp_path / "out")
    ]
    assert first == second != ""
    assert "bbr3" not in available()
    assert loader.list() == {}
    assert pair.running() == []
    assert list(own_state.iterdir()) == []


@pytest.mark.usefixtures("lists_of_sockets")
def test_the_states_of_its_sockets_are_recorded_as_those_of_the_module(
    own_state: Path, loader: Loader, tmp_path: Path, run_ini: RunIni
) -> None:
    run_ini(f"[mix]\n{MIX}cca-load = bbr3\n")
    [sockets] = [pl.read_parquet(file) for file in (tmp_path / "out").rglob("sockets.parquet")]
    bbr, reno = (sockets.filter(cca=cca) for cca in ("bbr3", "reno"))
    assert bbr["bbr_phase"].drop_nulls().len() >= bbr.height - 1 > 5
    assert set(bbr["bbr_phase"].drop_nulls()) <= {
        "startup",
        "drain",
        "probe_bw_down",
        "probe_bw_cruise",
        "probe_bw_refill",
        "probe_bw_up",
        "probe_rtt",
    }
    assert bbr["bbr_cycle"].max() >= 1
    recorded = bbr.drop_nulls("bbr_phase")
    for column in ("bbr_bandwidth_bps", "bbr_min_rtt_s", "bbr_pacing_gain", "bbr_cwnd_gain"):
        assert recorded[column].null_count() == 0
        assert reno[column].null_count() == reno.height
    # of the path, which has no limit
    assert recorded["bbr_bandwidth_bps"].median() > 20e6  # type: ignore[operator]
    assert recorded.filter(bbr_phase="probe_bw_cruise")["bbr_pacing_gain"].unique().to_list() == [1]
    assert 0 < recorded["bbr_min_rtt_s"].max() < 0.1  # type: ignore[operator]
    assert (
        bbr["bbr_inflight_hi_packets"].null_count() == bbr.height
    )  # a path without loss sets no bound
    assert reno["bbr_phase"].null_count() == reno.height


def test_what_the_administrator_has_loaded_stays(
    own_state: Path, loader: Loader, tmp_path: Path, run_ini: RunIni
) -> None:
    loader.must("load", "bbr3", "loss_thresh=7")
    number = loader.list()["bbr3"]["id"]
    run_ini(f"[mix]\n{MIX}cca-load = bbr3\n")
    assert (loader.list()["bbr3"]["id"], loader.list()["bbr3"]["parameters"]["loss_thresh"]) == (
        number,
        "7",
    )
    [summary] = summaries(tmp_path / "out")
    assert summary["facts"]["bpf_ccas"]["bbr3"]["parameters"]["loss_thresh"] == "7"


def test_a_sweep_sets_its_parameters_and_puts_them_back(
    own_state: Path, loader: Loader, tmp_path: Path, run_ini: RunIni
) -> None:
    """Changes a number and an element of a vector of a CCA that stays loaded."""
    loader.must("load", "bbr3", "loss_thresh=7")
    number = SWEEP.format("loss_thresh, sys-module-list,2,9")
    element = SWEEP.format("pacing_gain, sys-module-vector-list,1,300")
    run_ini(f"[number]\n{MIX}{number}[element]\n{MIX}{element}")
    seen = {
        run["run"]["condition"].get("loss_thresh", run["run"]["condition"].get("pacing_gain")): run[
            "facts"
        ]["bpf_ccas"]
        for run in summaries(tmp_path / "out")
    }
    assert {value: seen[value]["bbr3"]["parameters"]["loss_thresh"] for value in ("2", "9")} == {
        "2": "2",
        "9": "9",
    }
    assert seen["300"]["bbr3"]["parameters"]["pacing_gain"] == "300,230,256,256"
    parameters = loader.list()["bbr3"]["parameters"]
    assert (parameters["loss_thresh"], parameters["pacing_gain"]) == ("7", "320,230,256,256")


def test_a_sweep_of_draft_puts_back_what_draft_resets(
    own_state: Path, loader: Loader, tmp_path: Path, run_ini: RunIni
) -> None:
    loader.must("load", "bbr2", "loss_thresh=7", "pacing_gain=300,200,256,256", "max_sockets=1000")
    former = loader.list()["bbr2"]["parameters"]
    sweep = "param-sweep = tcp_bbr2/parameters/draft, sys-module-list,1\n"
    run_ini(f"[draft]\n{MIX.replace('bbr3', 'bbr2')}{sweep}")
    [summary] = summaries(tmp_path / "out")
    assert summary["facts"]["bpf_ccas"]["bbr2"]["parameters"]["draft"] == "1"
    assert summary["facts"]["bpf_ccas"]["bbr2"]["parameters"]["loss_thresh"] != "7"
    assert loader.list()["bbr2"]["parameters"] == former


def test_a_parameter_that_somebody_changes_makes_a_run_not_valid(
    own_state: Path, loader: Loader, tmp_path: Path, run_ini: RunIni
) -> None:
    meddling = f"pre-src-cmd = {loader.program} set bbr3 loss_thresh=50\n"
    sweep = SWEEP.format("loss_thresh, sys-module-list,2")
    run_ini(f"[number]\n{MIX}cca-load = bbr3\n{meddling}{sweep}", status=1)
    [summary] = summaries(tmp_path / "out")
    assert "loss_thresh of bbr3 was 50, configured: 2" in json.dumps(summary["verdict"])


@pytest.mark.parametrize("signal_number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.usefixtures("lists_of_sockets")
def test_a_controller_that_dies_leaves_nothing_loaded(
    signal_number: int,
    loader: Loader,
    own_state: Path,
    ccmix: Ccmix,
    ini: Write,
    pair: Pair,
    tmp_path: Path,
) -> None:
    sweep = SWEEP.format("loss_thresh, sys-module-list,2")
    long = MIX.replace("2s", "30s")
    running = ccmix.start(
        "run", ini(f"[mix]\n{long}cca-load = bbr3, bbr2\n{sweep}"), "-o", tmp_path / "out"
    )
    wait_for(lambda: {"bbr2", "bbr3"} <= set(available()), 30, "both CCAs are loaded")
    wait_for(lambda: loader.status() != [], 30, "connections use them")
    running.send_signal(signal_number)
    running.communicate(timeout=60)
    wait_for(lambda: pair.running() == [], 20, "the end of every process on the hosts")
    wait_for(lambda: loader.list() == {}, 10, "nothing is loaded")
    assert list(own_state.iterdir()) == []


@pytest.mark.usefixtures("lists_of_sockets")
def test_restore_unloads_what_a_killed_agent_has_left(
    loader: Loader, own_state: Path, ccmix: Ccmix, ini: Write, pair: Pair, tmp_path: Path
) -> None:
    long = MIX.replace("2s", "30s")
    running = ccmix.start("run", ini(f"[mix]\n{long}cca-load = bbr3\n"), "-o", tmp_path / "out")
    wait_for(lambda: loader.list() != {} and loader.status() != [], 30, "a connection uses it")
    running.send_signal(
        signal.SIGSTOP
    )  # with it running, the agents would see it end, and unload the CCA
    for pid in pair.running():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    running.kill()
    running.communicate(timeout=60)
    wait_for(lambda: pair.running() == [], 20, "the end of every process on the hosts")
    assert "bbr3" in available()
    restored = ccmix("restore", f"netns:{pair.near}", f"netns:{pair.far}", status=0)
    assert f"CCA bbr3 as a BPF program on netns:{pair.near}: restored" in restored.stderr
    assert "bbr3" not in available()
    wait_for(
        lambda: list(own_state.iterdir()) == [],
        10,
        "no journal is left, not even those of restore's agents",
    )


@pytest.mark.long
def test_kills_at_random_moments_leave_nothing_loaded(
    loader: Loader,
    own_state: Path,
    ccmix: Ccmix,
    ini: Write,
    pair: Pair,
    tmp_path: Path,
) -> None:
    sweep = SWEEP.format("loss_thresh, sys-module-list,2,3,4")
    config = ini(f"[many]\n{MIX}cca-load = bbr3\niterations = 5\n{sweep}")
    moments = random.Random(20261123)
    for _ in range(KILLS):
        running = ccmix.start("run", config, "-o", tmp_path / "out", "--resume")
        time.sleep(moments.uniform(0.5, 6.0))
        running.kill()
        running.communicate(timeout=30)
        wait_for(lambda: pair.running() == [], 15, "the end of every process on the hosts")
        wait_for(lambda: loader.list() == {}, 10, "nothing is loaded")
        assert list(own_state.iterdir()) == []


def test_a_run_says_what_the_kernel_lacks(own_state: Path, loader: Loader, run_ini: RunIni) -> None:
    """The hosts' agents and their commands see an older kernel."""
    done = run_ini(f"[mix]\n{MIX}cca-load = bbr3\n", prefix=("setarch", "--uname-2.6"), status=1)
    assert re.search(
        r"ccmix-cca: kernel: Linux 2\.6\S* is too old: 6\.1 or newer is needed", done.stderr
    )
    assert loader.list() == {}
    assert list(own_state.iterdir()) == []
