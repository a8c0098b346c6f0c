"""Tests campaigns in the lab, from the command to the archive: what a user starts, interrupts,
resumes and reads.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import polars as pl
import pytest

from ccmix.version import version
from support.commands import CCMIX, SMALL, Ccmix, invoke, rows, wait_for
from support.lab_runs import make_all

pytestmark = pytest.mark.lab

IPERF3_BLOCK_BYTES = 128 * 1024  # the receiver counts whole blocks
RUNS = ("both/all/receiver/001", "both/all/receiver/002")
MANY = 1000  # runs: no test waits for the last


@pytest.fixture
def endless_ini(small_ini: Path) -> Path:
    text = small_ini.read_text()
    assert text.count("iterations = 2\n") == 1
    small_ini.write_text(text.replace("iterations = 2\n", f"iterations = {MANY}\n"))
    return small_ini


@dataclass(frozen=True)
class Made:
    """A campaign of two runs, which tests read, or copy before they change it."""

    ini: Path
    outdir: Path
    done: subprocess.CompletedProcess[str]

    def copied(self, outdir: Path) -> Path:
        shutil.copytree(self.outdir, outdir)
        return outdir


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("campaign")
    (folder / "small.ini").write_text(SMALL)
    done = Ccmix(folder)(
        "run", folder / "small.ini", "--lab", "--seed", 7, "-o", folder / "out", status=0
    )
    return Made(folder / "small.ini", folder / "out", done)


def test_run_archives_and_reports(made: Made) -> None:
    outdir = made.outdir
    assert "2 runs valid, 0 not valid, 0 failed" in made.done.stderr
    assert made.done.stdout.splitlines()[-1] == str(outdir / "report.html")
    assert (outdir / "report.html").exists()

    for name in RUNS:
        summary = json.loads((outdir / name / "run.json").read_text())
        assert summary["verdict"] == {"status": "valid", "findings": [], "not_verified": []}
        assert [group["group"] for group in summary["metrics"]["groups"]] == ["cubic", "bbr"]
        # 8948 of each 9014 bytes on the wire are the application's
        assert 0.93 < summary["metrics"]["utilisation"] < 1.01
        sockets = pl.read_parquet(outdir / name / "sockets.parquet")
        assert set(sockets["group"].unique()) == {"cubic", "bbr"}
        assert sockets.filter(pl.col("group") == "bbr")["bbr_min_rtt_s"].min() == pytest.approx(
            0.01, abs=20e-6
        )
        assert summary["started_s"] % 1 < 100e-6, "what repeats begins on a whole second"
        for file in ("intervals.parquet", "generators/h1-iperf3-client.json", "logs/guest.log"):
            assert (outdir / name / file).exists()
        look_at_series(outdir / name)
    assert not list(outdir.rglob("*.partial"))

    table = rows(outdir)
    assert [(row["group"], row["streams"], row["runs"], row["invalid"]) for row in table] == [
        ("cubic", 1, 2, 0),
        ("bbr", 1, 2, 0),
    ]
    runs = [json.loads((outdir / name / "run.json").read_text()) for name in RUNS]
    goodputs = [run["metrics"]["groups"][0]["goodput_bps"] for run in runs]
    assert table[0]["goodput_mean_bps"] == sum(goodputs) / 2


def look_at_series(folder: Path) -> None:
    """Checks all series of the only probe, which reports on itself; its counts at each place fit
    the rest of the run.
    """
    sockets, queues, counters = (
        pl.read_parquet(folder / f"{name}.parquet") for name in ("sockets", "queues", "counters")
    )
    assert set(sockets["end"]) == {"sender", "receiver"}
    # all that one end has sent, its SYN and FIN aside, the other has received; one may not have
    # closed yet
    last = sockets.filter("final")
    closed = last.filter(end="sender").join(last.filter(end="receiver"), on="port")
    assert closed.height >= 1
    assert (closed["bytes_acked"] - 1).to_list() == closed["bytes_received_right"].to_list()
    root = queues.filter(place="bottleneck", parent="root")
    assert (root["kind"].unique().to_list(), root["drops"].is_sorted()) == (["tbf"], True)
    assert queues.filter(place="sender-queue")["flow_limit_drops"].to_list() == [0] * root.height
    sent = counters.filter(
        pl.col("name").is_in(["Tcp.OutSegs", "Tcp.RetransSegs"]), netns="ccmix-h1"
    )
    at_end = sent.filter(pl.col("time_s") == pl.col("time_s").max())["value"].sum()
    of_flows = (
        sockets.filter(end="sender")
        .group_by("port")
        .agg(pl.col("segs_out").max())["segs_out"]
        .sum()
    )
    assert 0 <= at_end - of_flows < 100  # those of iperf3's control connection
    processes = pl.read_parquet(folder / "processes.parquet")
    assert processes.filter(name="iperf3")["pid"].n_unique() == 2
    summary = json.loads((folder / "run.json").read_text())
    assert (
        summary["facts"]["probes"]["sockmon"]
        | {"missed": 0, "failed": None, "samples": root.height}
        == (summary["facts"]["probes"]["sockmon"])
    )
    assert summary["execution"]["diagnostics"] == []


def test_without_the_probe_ss_and_tc_sample_and_the_run_says_so(
    ccmix: Ccmix, small_ini: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "sockmon"
    program.write_text("#!/no/such/interpreter\n")
    program.chmod(0o755)
    monkeypatch.setenv("CCMIX_SOCKMON", str(program))
    small_ini.write_text(small_ini.read_text().replace("iterations = 2", "iterations = 1"))
    done = Ccmix(ccmix.folder)("run", small_ini, "--lab", "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "sockets and queues were sampled by ss and tc: No such file or directory" in done.stderr
    [folder] = (tmp_path / "out").glob("both/all/receiver/001")
    summary = json.loads((folder / "run.json").read_text())
    assert "sampled by ss and tc" in summary["execution"]["diagnostics"][0]
    assert set(summary["facts"]["probes"]) == {"sockets", "queues"}
    assert pl.read_parquet(folder / "sockets.parquet")["bytes_sent"].max() > 1e6
    assert set(pl.read_parquet(folder / "queues.parquet")["place"]) == {"bottleneck"}


def test_rtts_under_load(tmp_path: Path) -> None:
    """Expects a ping to wait for up to 1 BDP of buffer on top of 10 ms of base RTT, and not less
    than the path takes.
    """
    ini = SMALL.replace("iterations = 2", "sweep.rtt-probe = icmp@50, tcp:9@50")
    for run in make_all(ini, tmp_path).values():
        asked = run.table("rtt")
        rtts_s = asked["rtt_s"].drop_nulls()
        assert rtts_s.len() > 0.95 * asked.height > 100
        # spread draws up to 0.05% less
        assert 0.009995 <= rtts_s.min() < 0.0105  # type: ignore[operator]
        rtt_probe = run.record["metrics"]["rtt_probe"]
        assert 0.011 < rtt_probe["median_s"] <= rtt_probe["p95_s"] <= rtt_probe["p99_s"] < 0.022
        assert rtt_probe["questions"] == pytest.approx(
            50 * 1.6, abs=20
        )  # of the 2 s, less what came before the first sample


@pytest.mark.deep
def test_pacing_holds_each_flow(tmp_path: Path) -> None:
    runs = make_all(SMALL.replace("iterations = 2", "sweep.pacing = 20mbit, none"), tmp_path)
    paced, unpaced = (
        max(group.goodput_bps for group in runs[f"both {pacing}"].finished.metrics.groups)
        for pacing in ("20mbit", "none")
    )
    # a block may have begun before the 2 s
    assert 18e6 < paced <= 20e6 + IPERF3_BLOCK_BYTES * 8 / 2
    assert unpaced > 40e6


def metrics(outdir: Path) -> list[object]:
    return [json.loads((outdir / name / "run.json").read_text())["metrics"] for name in RUNS]


@pytest.mark.deep
@pytest.mark.parametrize(("seed", "same"), [(7, True), (8, False)])
def test_the_same_seed_gives_the_same_numbers(
    seed: int, same: bool, made: Made, ccmix: Ccmix, tmp_path: Path
) -> None:
    ccmix("run", made.ini, "--lab", "-o", tmp_path / "out", "--seed", seed, status=0)
    assert (metrics(tmp_path / "out") == metrics(made.outdir)) == same


def at_work_after(ccmix: Ccmix, outdir: Path, before: Mapping[Path, int]) -> bool:
    """Returns whether there are more runs than before, and another run is in progress."""
    return set(outdir.rglob("run.json")) > set(before) and bool(ccmix.guests())


def test_interrupted_and_resumed(ccmix: Ccmix, endless_ini: Path, tmp_path: Path) -> None:
    outdir = tmp_path / "out"
    before: dict[Path, int] = {}
    for resume in ((), ("--resume",)):
        running = ccmix.start("run", endless_ini, "--lab", "-j", 1, "-o", outdir, *resume)
        wait_for(partial(at_work_after, ccmix, outdir, before), 120, "a run in progress")
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=30)
        assert running.returncode == 130, errors
        assert f"{MANY - len(before)} of {MANY} runs" in errors
        assert "--resume" in errors
        assert ccmix.guests() == []
        assert not list(outdir.rglob("*.partial"))
        after = {file: file.stat().st_mtime_ns for file in outdir.rglob("run.json")}
        assert after == after | before
        before = after


def test_a_damaged_run_is_made_again(made: Made, ccmix: Ccmix, tmp_path: Path) -> None:
    outdir = made.copied(tmp_path / "out")
    kept = outdir / RUNS[0] / "run.json"
    whole = kept.read_text()
    kept.write_text(whole[:-1000])
    fixed = ccmix("run", made.ini, "--lab", "--seed", 7, "-o", outdir, "--resume", status=0)
    assert f"{kept}: can't be read" in fixed.stderr
    assert "1 of 2 runs" in fixed.stderr
    assert json.loads(kept.read_text())["metrics"] == json.loads(whole)["metrics"]
    aside = kept.parent.with_name(f"{kept.parent.name}.damaged-1") / "run.json"
    assert aside.read_text() == whole[:-1000]

    nothing_left = ccmix("run", made.ini, "--lab", "--seed", 7, "-o", outdir, "--resume", status=0)
    assert "0 of 2 runs" in nothing_left.stderr
    assert "version" not in nothing_left.stderr


def test_resumed_by_another_version(made: Made, ccmix: Ccmix, tmp_path: Path) -> None:
    """The start of the resume, the table, 'Repeat it' and a comparison name both versions."""
    outdir = made.copied(tmp_path / "out")
    older, other = (outdir / run for run in RUNS)
    text = (older / "run.json").read_text()
    assert version().name in text
    (older / "run.json").write_text(text.replace(version().name, "0.2.9+g0123456789ab"))
    shutil.rmtree(other)
    command = ("run", made.ini, "--lab", "--seed", 7, "-o", outdir, "--resume")
    both = f"1 run by 0.2.9+g0123456789ab, 1 run by {version().name}"
    resumed = ccmix(*command, status=0)
    assert (
        "another version of ccmix made finished runs (1 run by 0.2.9+g0123456789ab); this is "
        f"{version().name}, and its numbers may differ\n1 of 2 runs" in resumed.stderr
    )
    assert (
        f"Made by several versions of ccmix, whose numbers may differ: {both}.\n" in resumed.stdout
    )
    repeat = (outdir / "report.html").read_text().partition("Repeat it")[2]
    assert f"ccmix {both}, Python" in repeat
    differs = ccmix("compare", made.outdir, outdir).stdout
    assert re.search(
        rf"ccmix.*{re.escape(version().name)}.*0\.2\.9\+g0123456789ab, {re.escape(version().name)}",
        differs,
    )


def test_nothing_survives_a_killed_harness(ccmix: Ccmix, small_ini: Path, tmp_path: Path) -> None:
    outdir = tmp_path / "out"
    running = ccmix.start("run", small_ini, "--lab", "-o", outdir)
    wait_for(lambda: list(outdir.rglob("run.sockmon")), 120, "a guest that measures")
    assert ccmix.guests()
    running.kill()
    running.communicate(timeout=30)
    wait_for(lambda: not ccmix.guests(), 10, "the end of every guest")
    assert list(outdir.rglob("*.partial"))
    ccmix("run", small_ini, "--lab", "-o", outdir, "--resume", status=0)
    assert not list(outdir.rglob("*.partial"))


def test_a_failed_run_is_reported_and_the_others_are_kept(
    ccmix: Ccmix, small_ini: Path, tmp_path: Path
) -> None:
    failing = (
        "[fails]\ntype = iperf3\ntopology = small\nduration = 1s\nflows.tool = h1 command "
        "exit 3\niterations = 2\n"
    )
    small_ini.write_text(f"{small_ini.read_text()}\n{failing}")
    outdir = tmp_path / "out"
    done = ccmix("run", small_ini, "--lab", "-o", outdir, status=1)
    assert "exit 3 ended with 3" in done.stderr
    assert "2 runs valid, 0 not valid, 2 failed" in done.stderr
    assert [(row["entry"], row["runs"]) for row in rows(outdir)] == [("both", 2), ("both", 2)]
    assert "2 runs are missing" in (outdir / "report.html").read_text()


def test_nothing_is_started_for_wrong_input(small_ini: Path, tmp_path: Path) -> None:
    small_ini.write_text(SMALL.replace("delay = 5ms", "delay = -5"))
    done = invoke("run", small_ini, "--lab", "-o", tmp_path / "out")
    assert done.exit_code == 2
    assert f"{small_ini}:4: [topology small] delay:" in done.stderr
    assert not (tmp_path / "out").exists()


def test_one_at_a_time_in_a_folder(ccmix: Ccmix, endless_ini: Path, tmp_path: Path) -> None:
    outdir = tmp_path / "out"
    first = ccmix.start("run", endless_ini, "--lab", "-j", 1, "-o", outdir)
    wait_for(lambda: list(outdir.rglob("*.partial")), 60, "the first one at work")
    second = ccmix("run", endless_ini, "--lab", "-o", outdir, "--resume")
    first.send_signal(signal.SIGINT)
    _, errors = first.communicate(timeout=30)
    assert first.returncode == 130, errors
    assert second.returncode == 2
    assert "another ccmix run is at work" in second.stderr


def test_runs_that_are_not_valid_stay_so_when_resumed(
    ccmix: Ccmix, small_ini: Path, tmp_path: Path
) -> None:
    """Without an omitted time, the window that grows at the start limits the flows."""
    small_ini.write_text(small_ini.read_text().replace("omit = 1s", "interval = 2s"))
    outdir = tmp_path / "out"
    for resume in ((), ("--resume",)):
        done = ccmix("run", small_ini, "--lab", "-o", outdir, *resume, status=1)
        assert "0 runs valid, 2 not valid, 0 failed" in done.stderr
    assert "both all #2: the receiver's window" in ccmix("report", outdir).stderr


def test_another_plan_is_not_resumed(made: Made, ccmix: Ccmix, small_ini: Path) -> None:
    small_ini.write_text(SMALL.replace("delay = 5ms", "delay = 6ms"))
    command = ("run", small_ini, "--lab", "--seed", 7, "-o", made.outdir)
    said = ccmix(*command, "--resume", status=2).stderr
    assert "can't be resumed" in said
    assert "[topology small] delay = 6ms, was 5ms" in said
    assert "is not empty" in ccmix(*command, status=2).stderr


BESIDE = """
import socket, subprocess, sys
from ccmix.lab.host import TAKEN
taken = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
taken.bind(f"{TAKEN}{sys.argv[1]}")
sys.exit(subprocess.run(sys.argv[2:]).returncode)
"""


@pytest.mark.namespaces
def test_a_campaign_keeps_off_the_processor_of_another(
    ccmix: Ccmix, small_ini: Path, tmp_path: Path
) -> None:
    """Runs in its own network namespace, which has its own names of sockets, because simultaneous
    tests have guests, too.
    """
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        pytest.skip("NOT TESTED: this machine has one processor")
    argv = ["unshare", "--net", sys.executable, "-c", BESIDE, str(allowed[0])]
    argv += [str(CCMIX), "run", str(small_ini), "--lab", "-j", "1", "-o", str(tmp_path / "out")]
    on: set[int] = set()
    with subprocess.Popen(
        argv, env=os.environ | {"TMPDIR": str(ccmix.folder)}, stderr=subprocess.DEVNULL
    ) as process:
        while process.poll() is None:
            for guest in ccmix.guests():
                with contextlib.suppress(ProcessLookupError):
                    pinned_to = os.sched_getaffinity(guest)
                    on |= pinned_to if len(pinned_to) == 1 else set()  # else it has only just begun
            time.sleep(0.05)
    assert process.returncode == 0
    assert on == {allowed[1]}
