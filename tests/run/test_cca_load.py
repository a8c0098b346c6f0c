"""Tests entries with cca-load: between two namespaces of this machine, with the real ccmix-cca and this kernel."""

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

from cca_bpf import Loader
from ccmix.conditions.bpf_cca import AVAILABLE
from support import Ccmix, Pair, Write, rows, summaries, wait_for

MIX = "type = iperf3\ncca = reno@20M,bbr3@20M\nstreams = 2\nduration = 2s\n"
SWEEP = "param-sweep = tcp_bbr3/parameters/{}\n"
KILLS = {False: 10, True: 60}


def available() -> list[str]:
    return Path(AVAILABLE).read_text().split()


def test_an_entry_loads_a_cca_for_its_runs(
    loader: Loader, own_state: Path, ccmix: Ccmix, ini: Write, pair: Pair, tmp_path: Path
) -> None:
    done = ccmix("run", ini(f"[mix]\n{MIX}cca-load = bbr3\niterations = 2\n"), "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert [(row["cca"], row["runs"], row["invalid"]) for row in rows(ccmix, tmp_path / "out")] == [
        ("reno", 2, 0), ("bbr3", 2, 0),
    ]  # fmt: skip
    for summary in summaries(tmp_path / "out"):
        assert summary["facts"]["bpf_ccas"]["bbr3"]["parameters"]["loss_thresh"] == "5"
        assert summary["execution"]["diagnostics"] == []
    [first, second] = [summary["facts"]["bpf_ccas"]["bbr3"]["program"] for summary in summaries(tmp_path / "out")]
    assert first == second != ""
    assert "bbr3" not in available()
    assert loader.list() == {}
    assert pair.running() == []
    assert list(own_state.iterdir()) == []


def test_the_states_of_its_sockets_are_recorded_as_those_of_the_module(
    loader: Loader, own_state: Path, ccmix: Ccmix, ini: Write, tmp_path: Path
) -> None:
    done = ccmix("run", ini(f"[mix]\n{MIX}cca-load = bbr3\n"), "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    [sockets] = [pl.read_parquet(file) for file in (tmp_path / "out").rglob("sockets.parquet")]
    bbr, reno = (sockets.filter(cca=cca) for cca in ("bbr3", "reno"))
    assert bbr["bbr_phase"].drop_nulls().len() >= bbr.height - 1 > 5
    assert set(bbr["bbr_phase"].drop_nulls()) <= {
        "startup", "drain", "probe_bw_down", "probe_bw_cruise", "probe_bw_refill", "probe_bw_up", "probe_rtt",
    }  # fmt: skip
    assert bbr["bbr_cycle"].max() >= 1
    recorded = bbr.drop_nulls("bbr_phase")
    for column in ("bbr_bandwidth_bps", "bbr_min_rtt_s", "bbr_pacing_gain", "bbr_cwnd_gain"):
        assert recorded[column].null_count() == 0
        assert reno[column].null_count() == reno.height
    assert recorded["bbr_bandwidth_bps"].median() > 20e6  # type: ignore[operator]  # of the path, which has no limit
    assert recorded.filter(bbr_phase="probe_bw_cruise")["bbr_pacing_gain"].unique().to_list() == [1]
    assert 0 < recorded["bbr_min_rtt_s"].max() < 0.1  # type: ignore[operator]
    assert bbr["bbr_inflight_hi_packets"].null_count() == bbr.height  # a path without loss sets no bound
    assert reno["bbr_phase"].null_count() == reno.height


def test_what_the_administrator_has_loaded_stays(
    loader: Loader, own_state: Path, ccmix: Ccmix, ini: Write, tmp_path: Path
) -> None:
    loader.must("load", "bbr3", "loss_thresh=7")
    number = loader.list()["bbr3"]["id"]
    done = ccmix("run", ini(f"[mix]\n{MIX}cca-load = bbr3\n"), "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert (loader.list()["bbr3"]["id"], loader.list()["bbr3"]["parameters"]["loss_thresh"]) == (number, "7")
    [summary] = summaries(tmp_path / "out")
    assert summary["facts"]["bpf_ccas"]["bbr3"]["parameters"]["loss_thresh"] == "7"


def test_a_sweep_sets_its_parameters_and_puts_them_back(
    loader: Loader, own_state: Path, ccmix: Ccmix, ini: Write, tmp_path: Path
) -> None:
    """Of a CCA that stays loaded, one number and one element of a vector."""
    loader.must("load", "bbr3", "loss_thresh=7")
    number = SWEEP.format("loss_thresh, sys-module-list,2,9")
    element = SWEEP.format("pacing_gain, sys-module-vector-list,1,300")
    config = ini(f"[number]\n{MIX}{number}[element]\n{MIX}{element}")
    done = ccmix("run", config, "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    seen = {
        run["run"]["condition"].get("loss_thresh", run["run"]["condition"].get("pacing_gain")): run["facts"]["bpf_ccas"]
        for run in summaries(tmp_path / "out")
    }
    assert {value: seen[value]["bbr3"]["parameters"]["loss_thresh"] for value in ("2", "9")} == {"2": "2", "9": "9"}
    assert seen["300"]["bbr3"]["parameters"]["pacing_gain"] == "300,230,256,256"
    parameters = loader.list()["bbr3"]["parameters"]
    assert (parameters["loss_thresh"], parameters["pacing_gain"]) == ("7", "320,230,256,256")


def test_a_sweep_of_draft_puts_back_what_draft_resets(
    loader: Loader, own_state: Path, ccmix: Ccmix, ini: Write, tmp_path: Path
) -> None:
    loader.must("load", "bbr2", "loss_thresh=7", "pacing_gain=300,200,256,256", "max_sockets=1000")
    former = loader.list()["bbr2"]["parameters"]
    sweep = "param-sweep = tcp_bbr2/parameters/draft, sys-module-list,1\n"
    done = ccmix("run", ini(f"[draft]\n{MIX.replace('bbr3', 'bbr2')}{sweep}"), "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    [summary] = summaries(tmp_path / "out")
    assert summary["facts"]["bpf_ccas"]["bbr2"]["parameters"]["draft"] == "1"
    assert summary["facts"]["bpf_ccas"]["bbr2"]["parameters"]["loss_thresh"] != "7"
    assert loader.list()["bbr2"]["parameters"] == former


def test_a_parameter_that_somebody_changes_makes_a_run_not_valid(
    loader: Loader, own_state: Path, ccmix: Ccmix, ini: Write, tmp_path: Path
) -> None:
    meddling = f"pre-src-cmd = {loader.program} set bbr3 loss_thresh=50\n"
    sweep = SWEEP.format("loss_thresh, sys-module-list,2")
    done = ccmix("run", ini(f"[number]\n{MIX}cca-load = bbr3\n{meddling}{sweep}"), "-o", tmp_path / "out")
    assert done.returncode == 1, done.stderr
    [summary] = summaries(tmp_path / "out")
    assert "loss_thresh of bbr3 was 50, configured is 2" in json.dumps(summary["verdict"])


@pytest.mark.parametrize("signal_number", [signal.SIGKILL, signal.SIGTERM])
def test_a_controller_that_dies_leaves_nothing_loaded(
    signal_number: int, loader: Loader, own_state: Path, ccmix: Ccmix, ini: Write, pair: Pair, tmp_path: Path
) -> None:
    sweep = SWEEP.format("loss_thresh, sys-module-list,2")
    long = MIX.replace("2s", "30s")
    running = ccmix.start("run", ini(f"[mix]\n{long}cca-load = bbr3, bbr2\n{sweep}"), "-o", tmp_path / "out")
    wait_for(lambda: {"bbr2", "bbr3"} <= set(available()), 30, "both CCAs are loaded")
    wait_for(lambda: loader.status() != [], 30, "connections use them")
    running.send_signal(signal_number)
    running.communicate(timeout=60)
    wait_for(lambda: pair.running() == [], 20, "the end of every process on the hosts")
    wait_for(lambda: loader.list() == {}, 10, "nothing is loaded")
    assert list(own_state.iterdir()) == []


def test_restore_unloads_what_a_killed_agent_has_left(
    loader: Loader, own_state: Path, ccmix: Ccmix, ini: Write, pair: Pair, tmp_path: Path
) -> None:
    long = MIX.replace("2s", "30s")
    running = ccmix.start("run", ini(f"[mix]\n{long}cca-load = bbr3\n"), "-o", tmp_path / "out")
    wait_for(lambda: loader.list() != {} and loader.status() != [], 30, "a connection uses it")
    running.send_signal(signal.SIGSTOP)  # with it running, the agents would see it end, and unload the CCA
    for pid in pair.running():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    running.kill()
    running.communicate(timeout=60)
    wait_for(lambda: pair.running() == [], 20, "the end of every process on the hosts")
    assert "bbr3" in available()
    restored = ccmix("restore", f"netns:{pair.near}", f"netns:{pair.far}")  # the far agent may have been killed, too
    assert restored.returncode == 0, restored.stderr
    assert f"CCA bbr3 as a BPF program on netns:{pair.near}: restored" in restored.stderr
    assert "bbr3" not in available()
    wait_for(lambda: list(own_state.iterdir()) == [], 10, "no journal is left, not even those of restore's agents")


@pytest.mark.parametrize(
    "long", [pytest.param(False, id="10", marks=pytest.mark.deep), pytest.param(True, id="60", marks=pytest.mark.long)]
)
def test_kills_at_random_moments_leave_nothing_loaded(
    long: bool, loader: Loader, own_state: Path, ccmix: Ccmix, ini: Write, pair: Pair, tmp_path: Path
) -> None:
    sweep = SWEEP.format("loss_thresh, sys-module-list,2,3,4")
    config = ini(f"[many]\n{MIX}cca-load = bbr3\niterations = 5\n{sweep}")
    moments = random.Random(20261123)
    for _ in range(KILLS[long]):
        running = ccmix.start("run", config, "-o", tmp_path / "out", "--resume")
        time.sleep(moments.uniform(0.5, 6.0))
        running.kill()
        running.communicate(timeout=30)
        wait_for(lambda: pair.running() == [], 15, "the end of every process on the hosts")
        wait_for(lambda: loader.list() == {}, 10, "nothing is loaded")
        assert list(own_state.iterdir()) == []


def test_a_run_says_what_the_kernel_lacks(
    loader: Loader, own_state: Path, ccmix: Ccmix, ini: Write, tmp_path: Path
) -> None:
    """The hosts' agents, and what they run, see an older kernel."""
    config = ini(f"[mix]\n{MIX}cca-load = bbr3\n")
    done = ccmix("run", config, "-o", tmp_path / "out", prefix=("setarch", "--uname-2.6"))
    assert done.returncode == 1
    assert re.search(r"ccmix-cca: kernel: Linux 2\.6\S* is too old: 6\.1 or newer is needed", done.stderr)
    assert loader.list() == {}
    assert list(own_state.iterdir()) == []
