"""Tests campaigns between hosts: two namespaces of this machine, joined by a veth pair, with real
iperf3 and real agents.
"""

import contextlib
import datetime
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner

from ccmix.cli.main import main
from ccmix.tools import find_iperf3, find_sockmon
from support.commands import (
    CCMIX,
    Ccmix,
    Pair,
    RunIni,
    Write,
    long,
    rows,
    run_program,
    summaries,
    wait_for,
)


def connections(name: str, port: int) -> int:
    """Returns how many connections to this port a namespace has."""
    argv = ["ss", "-N", name, "-tnH", "state", "established", f"sport = :{port}"]
    return len(run_program(argv, check=True).stdout.splitlines())


def listening(name: str) -> str:
    return run_program(["ss", "-N", name, "-ltn"], check=True).stdout


@contextmanager
def somebody_s_server(pair: Pair, port: str) -> Iterator[subprocess.Popen[bytes]]:
    argv = ["ip", "netns", "exec", pair.far, find_iperf3(), "-s", "-p", port]
    server = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
    try:
        wait_for(lambda: port in listening(pair.far), 10, "the server listens")
        yield server
    finally:
        server.terminate()
        server.wait()


def test_ccmix_s_own_iperf3_between_two_hosts(run_ini: RunIni, pair: Pair, tmp_path: Path) -> None:
    run_ini(
        "[mix]\ntype = iperf3\nstreams = 4\ncca = reno:3@20M,bbr@20M\nduration = 1s\niterations "
        "= 2\n"
    )
    reno, bbr = rows(tmp_path / "out")
    assert (reno["cca"], reno["streams"], reno["runs"], reno["invalid"]) == ("reno", 3, 2, 0)
    assert (bbr["cca"], bbr["streams"], bbr["dst"]) == ("bbr", 1, pair.address)
    assert reno["goodput_mean_bps"] > 1e6
    assert pair.running() == []
    [first, _] = summaries(tmp_path / "out")
    assert set(first["facts"]["hosts"]) == {"src", "dst"}
    assert first["facts"]["device"] == "eth0"
    assert (tmp_path / "out" / "mix" / "all" / pair.address / "001" / "cpu.parquet").exists()


@pytest.mark.deep
@pytest.mark.parametrize("server", ["ssh", "running"])
def test_a_run_between_hosts_ends_when_it_has_settled(
    run_ini: RunIni, server: str, ini: Write, pair: Pair, tmp_path: Path
) -> None:
    """Ends after 10 of 60 s, or 20 or 40 on a busy machine, with results of both ends, even if
    the server is somebody else's.
    """
    duration = "duration = settled, at most 60s\n"
    config = ini(
        f"[mix]\ntype = iperf3\nstreams = 2\ncca = reno@5M,cubic@5M\nserver = {server}\nport = "
        f"5231\n{duration}"
    )
    with somebody_s_server(pair, "5231") if server == "running" else contextlib.nullcontext():
        done = run_ini(config, status=None)
    assert done.returncode == 0, done.stderr
    [summary] = summaries(tmp_path / "out")
    assert summary["settled_after_s"] in (10, 20, 40)
    assert summary["metrics"]["settling"]["settled"] is True
    assert summary["ended_s"] - summary["started_s"] < 55
    assert [group["goodput_bps"] for group in summary["metrics"]["groups"]] == pytest.approx(
        [5e6, 5e6], rel=0.1
    )


@pytest.mark.deep
def test_a_failing_iperf3_ends_the_wait_for_its_settling(run_ini: RunIni) -> None:
    """Takes seconds instead of the ten minutes of the limit."""
    done = run_ini(
        "[mix]\ntype = iperf3\nserver = running\nport = 5232\nduration = settled, at most 10m\n",
        status=1,
    )
    assert "unable to connect" in done.stderr


def series(outdir: Path, name: str) -> pl.DataFrame:
    [file] = outdir.glob(f"*/*/*/001/{name}.parquet")
    return pl.read_parquet(file)


def test_the_series_of_both_hosts(run_ini: RunIni, pair: Pair, tmp_path: Path) -> None:
    run_ini("[one]\ntype = iperf3\nstreams = 2\ncca = reno@20M\nduration = 1s\nmpstat = 1\n")
    sockets = series(tmp_path / "out", "sockets")
    assert sockets["port"].n_unique() == 2
    sending = sockets.filter(pl.col("end") == "sender")
    assert set(sending["remote_address"]) == {pair.address}
    assert set(sockets["end"]) == {"sender", "receiver"}
    assert sending.filter("final").height == 2
    assert series(tmp_path / "out", "cpu").select("host", "core").unique().sort("host").rows() == [
        ("dst", 1),
        ("src", 1),
    ]
    counters = series(tmp_path / "out", "counters").filter(name="Tcp.InSegs")
    assert (counters.group_by("host").agg(pl.col("value").max() > pl.col("value").min()))[
        "value"
    ].to_list() == [True] * 2
    processes = series(tmp_path / "out", "processes")
    assert processes.filter(pl.col("name").str.contains("iperf3"))["host"].n_unique() == 2
    assert set(series(tmp_path / "out", "queues")["place"]) == {"sender-queue"}
    [summary] = summaries(tmp_path / "out")
    assert set(summary["facts"]["probes"]) == {"sockmon-src", "sockmon-dst"}


@pytest.mark.parametrize("how", ["icmp", "tcp:9"])
def test_rtts_beside_the_traffic(run_ini: RunIni, how: str, tmp_path: Path) -> None:
    run_ini(f"[one]\ntype = iperf3\ncca = reno@20M\nduration = 1s\nrtt-probe = {how}@20\n")
    asked = series(tmp_path / "out", "rtt")
    assert asked["rtt_s"].null_count() <= 1
    [summary] = summaries(tmp_path / "out")
    assert 10 < summary["metrics"]["rtt_probe"]["questions"] < 30
    assert 0 < summary["metrics"]["rtt_probe"]["median_s"] < 0.1
    assert set(summary["facts"]["probes"]) == {"sockmon-src", "sockmon-dst", "rtt"}


# Runs what it is given with a filter of system calls: socket(AF_NETLINK, ...) is EPERM
# (linux/seccomp.h, filter.h).
WITHOUT_NETLINK = """#!{python}
import ctypes, os, struct, sys
SOCKET, AF_NETLINK, LOAD, IF_EQUAL, RETURN = 41, 16, 0x20, 0x15, 0x06
code = [(LOAD, 0, 0, 0), (IF_EQUAL, 0, 3, SOCKET), (LOAD, 0, 0, 16), (IF_EQUAL, 0, 1, AF_NETLINK),
        (RETURN, 0, 0, 0x50001), (RETURN, 0, 0, 0x7FFF0000)]
program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in code))
filter = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(code), ctypes.addressof(program)))
prctl = ctypes.CDLL(None).prctl
assert prctl(38, 1, 0, 0, 0) == 0 and prctl(22, 2, filter, 0, 0) == 0
os.execv("{sockmon}", sys.argv)
"""


def of_another_processor(program: Path) -> None:
    """Writes a file of 64-bit Arm (ELF: e_machine, EM_AARCH64)."""
    binary = bytearray(find_sockmon().read_bytes())
    binary[18:20] = (183).to_bytes(2, "little")
    program.write_bytes(binary)


def without_netlink(program: Path) -> None:
    if platform.machine() != "x86_64":
        pytest.skip("the filter of system calls is written for x86-64")
    program.write_text(WITHOUT_NETLINK.format(python=sys.executable, sockmon=find_sockmon()))


@pytest.mark.parametrize(
    ("make", "reason"),
    [(of_another_processor, "Exec format error"), (without_netlink, "Operation not permitted")],
)
def test_a_host_that_refuses_the_probe_is_sampled_by_ss(
    make: Callable[[Path], None],
    reason: str,
    ini: Write,
    ccmix: Ccmix,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = tmp_path / "sockmon"
    make(program)
    program.chmod(0o755)
    monkeypatch.setenv("CCMIX_SOCKMON", str(program))
    config = ini("[one]\ntype = iperf3\ncca = reno@20M\nduration = 1s\nmpstat = 0\n")
    done = Ccmix(ccmix.folder)("run", config, "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    [summary] = summaries(tmp_path / "out")
    diagnostics = [
        notice
        for notice in summary["execution"]["diagnostics"]
        if "sampled by ss and /proc instead of" in notice
    ]
    assert len(diagnostics) == 2
    assert all(reason in notice for notice in diagnostics), diagnostics
    assert set(summary["facts"]["probes"]) == {"sockets", "processors-src", "processors-dst"}
    assert series(tmp_path / "out", "sockets")["bytes_sent"].max() > 1e6  # type: ignore[operator]
    assert series(tmp_path / "out", "cpu").select("host", "core").unique().sort("host").rows() == [
        ("dst", 0),
        ("src", 0),
    ]


def processes_of(pair: Pair, program: Path, word: str = "") -> list[int]:
    """Returns the processes on both hosts that run a program, with this word in its
    command line.
    """
    found = []
    for pid in pair.running():
        with contextlib.suppress(OSError):  # it has ended
            process = Path(f"/proc/{pid}")
            same = (process / "comm").read_text() == f"{program.name}\n"
            found += [pid] if same and word in (process / "cmdline").read_text().split("\0") else []
    return found


@pytest.mark.parametrize(
    ("by", "sentence"),
    [
        (signal.SIGSTOP, "samples missed"),
        (signal.SIGKILL, "it ended before its time"),
    ],
)
def test_a_probe_without_processor_time_or_killed_says_so(
    by: signal.Signals,
    sentence: str,
    ccmix: Ccmix,
    ini: Write,
    pair: Pair,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    config = ini("[one]\ntype = iperf3\ncca = reno@20M\nduration = 5m\naccept-limits = cpu\n")
    running = ccmix.start("run", config, "-o", tmp_path / "out")
    request.addfinalizer(running.kill)

    def recorded() -> list[Path]:
        return [file for file in (tmp_path / "out").rglob("???.sockmon") if file.stat().st_size > 0]

    wait_for(lambda: len(recorded()) == 2, 60, "both probes record")
    wait_for(lambda: connections(pair.far, 5201) == 2, 60, "iperf3's connections")
    probes = processes_of(pair, find_sockmon())
    assert len(probes) == 2
    for pid in probes:
        os.kill(pid, by)
    time.sleep(1.0)
    if by == signal.SIGSTOP:
        for pid in probes:
            os.kill(pid, signal.SIGCONT)
    [client] = processes_of(pair, find_iperf3(), "--client")
    os.kill(client, signal.SIGUSR1)  # it ends its test as if its time were over
    _, stderr = running.communicate(timeout=60)
    assert running.returncode == 1, stderr
    [summary] = summaries(tmp_path / "out")
    details = [
        finding["detail"]
        for finding in summary["verdict"]["findings"]
        if finding["kind"] == "probe"
    ]
    assert [
        sum(name in detail and sentence in detail for detail in details)
        for name in ("sockmon-src", "sockmon-dst")
    ] == [1, 1]


def test_a_server_that_daemonises_is_ended_with_its_run(
    run_ini: RunIni, pair: Pair, tmp_path: Path
) -> None:
    iperf3 = find_iperf3()
    run_ini(f"""[tuning]
type = iperf3 1 stream, cubic
iterations = 3
dst-cmd = {iperf3} -s -D -p 5205
src-cmd = {iperf3} -c {{dst}} -p 5205 -t 1 -C reno -b 50M -J
""")
    [row] = rows(tmp_path / "out")
    assert (row["cca"], row["runs"], row["invalid"]) == ("reno", 3, 0)
    assert pair.running() == []


def test_a_command_without_a_result_of_its_own_is_measured_by_its_sockets(
    run_ini: RunIni, tmp_path: Path
) -> None:
    iperf3 = find_iperf3()
    done = run_ini(
        f"""[transfer]
type = text output
dst-cmd = {iperf3} -s -1
src-cmd = {iperf3} -c {{dst}} -t 2 -b 20M
""",
        status=None,
    )
    [row] = rows(tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert (row["entry"], row["streams"]) == ("transfer", 1)
    assert row["goodput_mean_bps"] == pytest.approx(20e6, rel=0.3)


def test_commands_before_and_after_surround_every_run(run_ini: RunIni, tmp_path: Path) -> None:
    """Checks the assumption of listing 1 of Tierney et al.: the original ran pre-src-cmd before the
    first iteration only.
    """
    order = tmp_path / "told"
    cca = "/proc/sys/net/ipv4/tcp_congestion_control"
    done = run_ini(f"""[listing-1]
type = perfSONAR
iterations = 2
pre = echo pre >> {order}
post = echo post >> {order}
pre-src-cmd = cp {cca} {tmp_path}/before; sysctl -qw net.ipv4.tcp_congestion_control=bbr; echo pre-src >> {order}
post-src-cmd = sysctl -qw net.ipv4.tcp_congestion_control=$(cat {tmp_path}/before); echo post-src >> {order}
pre-dst-cmd = echo pre-dst >> {order}
post-dst-cmd = echo post-dst >> {order}; false
src-cmd = echo src $(cat {cca}) >> {order}; {find_iperf3()} -c {{dst}} -t 1 -b 50M -J
dst-cmd = {find_iperf3()} -s -1
""")
    around = ["pre-src", "pre-dst", "src bbr", "post-dst", "post-src"]
    assert order.read_text().splitlines() == ["pre", *around, *around, "post"]
    assert [row["cca"] for row in rows(tmp_path / "out")] == ["bbr"]
    assert "left changed" not in done.stderr


def test_what_a_command_leaves_changed_is_reported(run_ini: RunIni, pair: Pair) -> None:
    done = run_ini(
        """[careless]
type = x
pre-src-cmd = sysctl -qw net.ipv4.tcp_reordering=7
src-cmd = true
""",
        status=None,
    )
    pair.near_says("sysctl", "-qw", "net.ipv4.tcp_reordering=3")
    assert f"left changed: netns:{pair.near}: net.ipv4.tcp_reordering was 3 and is 7" in done.stderr


def test_dst_cmd_once_serves_all_runs_of_its_entry(
    run_ini: RunIni, pair: Pair, tmp_path: Path
) -> None:
    starts = tmp_path / "starts"
    run_ini(f"""[once]
type = x
iterations = 3
dst-cmd-once = true
dst-cmd = echo started >> {starts}; exec {find_iperf3()} -s
src-cmd = {find_iperf3()} -c {{dst}} -t 1 -b 50M -J
""")
    assert starts.read_text() == "started\n"
    assert pair.running() == []


@pytest.mark.parametrize("terminal", [False, True])
def test_messages_to_a_full_disk_stop_no_run(terminal: bool, ini: Write, tmp_path: Path) -> None:
    """The same for the progress display of a terminal, which FORCE_COLOR forces elsewhere."""

    config = ini("[two]\ntype = x\niterations = 2\nsrc-cmd = sleep 0.2\n")
    environment = (
        os.environ | {"TMPDIR": str(tmp_path)} | ({"FORCE_COLOR": "1"} if terminal else {})
    )
    with Path("/dev/full").open("w") as full:
        subprocess.run(
            [CCMIX, "run", config, "-o", tmp_path / "out"],
            stderr=full,
            env=environment,
            check=False,
        )
    assert len(summaries(tmp_path / "out")) == 2


@pytest.mark.parametrize("damage", [os.mkfifo, Path.mkdir])
def test_what_is_in_the_place_of_a_run_s_document_is_put_aside(
    damage: Callable[[Path], None], ccmix: Ccmix, ini: Write, tmp_path: Path
) -> None:

    config, out = ini("[one]\ntype = x\nsrc-cmd = sleep 0.2\n"), tmp_path / "out"
    ccmix("run", config, "-o", out)
    [document] = out.rglob("run.json")
    document.unlink()
    damage(document)
    done = ccmix("run", config, "-o", out, "--resume", timeout=120)
    assert f"{document}: can't be read" in done.stderr
    assert json.loads(document.read_text())["run"]["entry"] == "one"
    assert (
        document.parent.with_name(f"{document.parent.name}.damaged-1").joinpath("run.json").exists()
    )


def linked(place: Path, outside: Path) -> None:
    if place.is_dir():
        place.rename(outside / "moved")
    place.unlink(missing_ok=True)
    place.symlink_to(outside / ("moved" if (outside / "moved").exists() else "file"))


def piped(place: Path, _: Path) -> None:
    place.unlink(missing_ok=True)
    os.mkfifo(place)


@pytest.mark.parametrize(
    ("attack", "name"),
    [
        (linked, "*[0-9]"),
        (piped, "post-entry.out"),
        long(piped, "pre-entry.out"),
        *(long(linked, f"{name}-entry.out") for name in ("pre", "post")),
    ],
)
def test_a_campaign_of_others_that_is_resumed_leads_to_no_file_outside(
    attack: Callable[[Path, Path], None],
    name: str,
    ccmix: Ccmix,
    ini: Write,
    tmp_path: Path,
) -> None:
    """Nor to a pipe that is waited for."""

    out, outside = tmp_path / "out", tmp_path / "outside"
    config = ini("""[others]
type = x
pre = echo x
post = echo y
dst-cmd-once = true
dst-cmd = date +%N; sleep 60
src-cmd = sleep 0.2
""")
    ccmix("run", config, "-o", out)
    [summary] = out.rglob("run.json")
    shutil.rmtree(summary.parent)
    outside.mkdir()
    (outside / "file").write_text("ours")
    [place] = (out / "others").glob(name)
    attack(place, outside)
    before = {path: path.read_text() if path.is_file() else None for path in outside.rglob("*")}
    done = ccmix("run", config, "-o", out, "--resume", timeout=120)
    assert "Traceback" not in done.stderr
    assert {
        path: path.read_text() if path.is_file() else None for path in outside.rglob("*")
    } == before


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("exit 3", "src-cmd on netns:{near} failed: exit status 3"),
        ("echo oops >&2; false", "exit status 1: oops"),
        ("nonsense-command", "exit status 127"),
        ("""echo '{{"succeeded": false, "error": "Run was missed"}}'""", "Run was missed"),
        ("{iperf3} -c {{dst}} -p 1 -J", "unable to connect to server"),
    ],
)
def test_a_failed_command_fails_its_run_only(
    run_ini: RunIni, pair: Pair, tmp_path: Path, command: str, reason: str
) -> None:
    command = command.format(iperf3=find_iperf3())
    done = run_ini(
        f"[bad]\ntype = x\nsrc-cmd = {command}\n[good]\ntype = y\nsrc-cmd = echo error; true\n",
        status=1,
    )
    assert reason.format(near=pair.near) in done.stderr
    assert (
        tmp_path / "out" / "bad" / "all" / pair.address / "001.partial" / "logs" / "error.txt"
    ).exists()
    assert (tmp_path / "out" / "good" / "all" / pair.address / "001" / "run.json").exists()


def test_retries_are_made_and_recorded(run_ini: RunIni, tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    done = run_ini(
        f"""[flaky]
type = x
retries = 2
src-cmd = echo x >> {counter}; test $(wc -l < {counter}) = 3
""",
        status=None,
    )
    assert "1 failed" not in done.stderr
    [summary] = summaries(tmp_path / "out")
    assert len(summary["execution"]["retries"]) == 2
    assert "exit status 1" in summary["execution"]["retries"][0]


def test_a_command_that_hangs_is_ended_at_its_timeout(run_ini: RunIni, pair: Pair) -> None:
    done = run_ini(
        "[hangs]\ntype = x\ntimeout = 1s\nsrc-cmd = tail -f /dev/null\n", timeout=60, status=None
    )
    assert "has not ended after 1 s" in done.stderr
    assert pair.running() == []


def test_a_destination_that_does_not_answer_is_skipped_and_named(
    run_ini: RunIni, pair: Pair, tmp_path: Path
) -> None:
    hosts = tmp_path / "hosts.csv"
    hosts.write_text(f"hostname,alias\n10.213.7.99,nobody\n{pair.address},far\n")
    done = run_ini("[both]\ntype = x\nsrc-cmd = true\niterations = 2\n", "-H", hosts, status=1)
    assert "2 skipped" in done.stderr
    assert "10.213.7.99 answers" in done.stderr
    assert len(summaries(tmp_path / "out")) == 2


def test_an_interrupted_campaign_leaves_nothing_and_goes_on(
    run_ini: RunIni, ccmix: Ccmix, ini: Write, pair: Pair, tmp_path: Path
) -> None:
    config = ini(f"""[long]
type = x
iterations = 2
pre-src-cmd = sysctl -qw net.ipv4.tcp_reordering=7
post-src-cmd = sysctl -qw net.ipv4.tcp_reordering=3
dst-cmd = {find_iperf3()} -s -D
src-cmd = test -e {tmp_path}/second && exit 0; touch {tmp_path}/first; sleep 300
""")
    running = ccmix.start("run", config, "-o", tmp_path / "out")
    wait_for((tmp_path / "first").exists, 30, "the src-cmd runs")
    running.send_signal(signal.SIGINT)
    _, stderr = running.communicate(timeout=30)
    assert running.returncode == 130, stderr
    assert pair.running() == []
    value = ["sysctl", "-n", "net.ipv4.tcp_reordering"]
    assert pair.near_says(*value) == "3\n"
    (tmp_path / "second").touch()
    done = run_ini(config, "--resume", status=None)
    assert "0 failed" in done.stderr
    assert len(summaries(tmp_path / "out")) == 2


@pytest.mark.root  # tcpdump sets its groups, which a user namespace refuses
def test_a_capture_is_kept_with_its_counts(run_ini: RunIni, pair: Pair, tmp_path: Path) -> None:
    done = run_ini(
        f"""[captured]
type = x
tcpdump = true
tcpdump-filt = -s 96 -i eth0 "host {{dst}} and port 5201"
dst-cmd = {find_iperf3()} -s -1
src-cmd = {find_iperf3()} -c {{dst}} -n 1M -J
""",
        status=None,
    )
    assert done.returncode in (0, 1), done.stderr
    [summary] = summaries(tmp_path / "out")
    capture = summary["facts"]["capture"]
    assert capture["complete"]
    assert capture["packets"]["dropped by kernel"] == 0
    file = tmp_path / "out" / "captured" / "all" / pair.address / "001" / "capture.pcap.zst"
    packets = run_program(
        f"zstd -dc {file} | tcpdump -n -r - 2>/dev/null | wc -l", shell=True, check=True
    )
    assert int(packets.stdout) == capture["packets"]["captured"] > 10
    connections = pl.read_parquet(file.with_name("connections.parquet")).filter(
        pl.col("destination_port") == 5201
    )
    assert connections["unique_bytes"].max() >= 2**20  # of data; the control connection has less
    series = pl.read_parquet(file.with_name("packets.parquet"))
    assert series["packets"].sum() == capture["packets"]["captured"]


@pytest.mark.root
def test_a_capture_ends_at_its_cap(run_ini: RunIni, pair: Pair, tmp_path: Path) -> None:
    run_ini(
        f"""[captured]
type = x
tcpdump = true
tcpdump-size = 10kb
tcpdump-filt = -s 96 -i eth0
dst-cmd = {find_iperf3()} -s -1
src-cmd = {find_iperf3()} -c {{dst}} -t 1 -b 100M -J
""",
        status=None,
    )
    [summary] = summaries(tmp_path / "out")
    assert not summary["facts"]["capture"]["complete"]
    file = tmp_path / "out" / "captured" / "all" / pair.address / "001" / "capture.pcap.zst"
    raw = subprocess.run(["zstd", "-dc", file], capture_output=True, check=True).stdout
    assert 0 < len(raw) <= 10_000


def test_somebody_s_running_server_is_used_and_left(
    run_ini: RunIni, pair: Pair, tmp_path: Path
) -> None:
    with somebody_s_server(pair, "5333") as server:
        run_ini(
            "[running]\ntype = iperf3\nserver = running\nport = 5333\ncca = bbr@50M\nduration = "
            "1s\n"
        )
        assert [row["cca"] for row in rows(tmp_path / "out")] == ["bbr"]
        assert server.poll() is None


def test_what_a_killed_agent_left_is_restored_by_name(
    ccmix: Ccmix, ini: Write, pair: Pair, tmp_path: Path
) -> None:
    """Kills harness and agents with kill -9, so that only the journal on the host is left."""
    config = ini(f"""[long]
type = x
pre-src-cmd = sysctl -qw net.ipv4.tcp_reordering=7
post-src-cmd = sysctl -qw net.ipv4.tcp_reordering=3
src-cmd = touch {tmp_path}/first; sleep 300
""")
    running = ccmix.start("run", config, "-o", tmp_path / "out")
    wait_for((tmp_path / "first").exists, 30, "the src-cmd runs")
    running.send_signal(signal.SIGSTOP)  # so that it doesn't reconnect
    os.kill(pair.running()[0], signal.SIGKILL)  # the agent; its keepers end what they keep
    running.kill()
    running.wait()
    value = ["sysctl", "-n", "net.ipv4.tcp_reordering"]
    assert pair.near_says(*value) == "7\n"
    assert (
        "nothing to restore" in ccmix("restore").stderr
    )  # another namespace's journal is not applied here
    restored = ccmix("restore", f"netns:{pair.near}", status=0)
    assert f"post-src-cmd on netns:{pair.near}: restored" in restored.stderr
    assert pair.near_says(*value) == "3\n"
    assert pair.running() == []


@pytest.mark.parametrize("name", ["-oProxyCommand=true", "a;b", "netns:../x", ""])
def test_restore_refuses_what_is_no_host(name: str) -> None:
    assert CliRunner().invoke(main, ["restore", "--", name]).exit_code == 2


def test_a_port_that_somebody_has_is_not_taken_for_ccmix_s_own(run_ini: RunIni, pair: Pair) -> None:
    with somebody_s_server(pair, "5444") as server:
        done = run_ini("[taken]\ntype = iperf3\nport = 5444\nduration = 1s\n", status=None)
        assert "something listens on port 5444 already" in done.stderr
        assert server.poll() is None


def test_a_disk_that_is_full_in_the_middle(
    run_ini: RunIni, ini: Write, pair: Pair, tmp_path: Path
) -> None:
    config = ini(f"""[many]
type = x
iterations = 3
pre-src-cmd = sysctl -qw net.ipv4.tcp_reordering=7
post-src-cmd = sysctl -qw net.ipv4.tcp_reordering=3
dst-cmd = {find_iperf3()} -s -1
src-cmd = {find_iperf3()} -c {{dst}} -t 1 -i 0.1 -b 20M -J
""")
    (tmp_path / "out").mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=160k", "tmpfs", tmp_path / "out"], check=True
    )
    try:
        done = run_ini(config, status=None)
    finally:
        subprocess.run(["umount", tmp_path / "out"], check=True)
    assert done.returncode == 1
    full = [line for line in done.stderr.splitlines() if "No space left on device" in line]
    assert full
    for line in full:
        assert f" {tmp_path}/out" in line
        assert line.endswith(
            "No space left on device: make room on that disk, or choose another place"
        ), line
    assert "Traceback" not in done.stderr
    assert pair.near_says("sysctl", "-n", "net.ipv4.tcp_reordering") == "3\n"
    assert pair.running() == []


def test_a_server_that_dies_in_the_middle(run_ini: RunIni, pair: Pair) -> None:
    connections = "ss -tnH state established sport = :5201"
    done = run_ini(
        f"""[dies]
type = x
dst-cmd = {find_iperf3()} -s & until [ $({connections} | wc -l) = 2 ]; do sleep 0.1; done; kill $!; wait
src-cmd = {find_iperf3()} -c {{dst}} -t 30 -b 5M -J
""",
        timeout=60,
        status=1,
    )
    assert "src-cmd on netns:" in done.stderr
    # iperf3 says what it meets first: the server's word, or a connection that is closed
    assert "the server has terminated" in done.stderr or "Broken pipe" in done.stderr
    assert pair.running() == []


def test_a_server_that_hangs(run_ini: RunIni, pair: Pair) -> None:
    hangs = "import socket,time; s=socket.create_server(('', 5201)); time.sleep(300)"
    done = run_ini(
        f"""[hangs]
type = x
timeout = 3s
dst-cmd = exec python3 -c "{hangs}"
src-cmd = {find_iperf3()} -c {{dst}} -n 1M -J
""",
        timeout=60,
        status=None,
    )
    assert "has not ended after 3 s" in done.stderr
    assert pair.running() == []


def test_a_tool_that_is_not_installed(run_ini: RunIni, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for folder in ("/usr/sbin", "/usr/bin", "/sbin", "/bin"):
        for tool in Path(folder).iterdir():
            if tool.name != "tcpdump" and not (tools / tool.name).exists():
                (tools / tool.name).symlink_to(tool)
    done = run_ini(
        "[captured]\ntype = x\ntcpdump = on\ntcpdump-filt = -i eth0\nsrc-cmd = true\n",
        path=tools,
        status=1,
    )
    assert "captures need tcpdump there: install the package tcpdump" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_src_cmd_that_is_kept_goes_on_from_run_to_run(
    run_ini: RunIni, pair: Pair, tmp_path: Path
) -> None:
    starts = tmp_path / "starts"
    done = run_ini(
        f"""[kept]
type = x
iterations = 3
duration = 1s
src-cmd-once = true
dst-cmd = {find_iperf3()} -s -1
src-cmd = echo started >> {starts}; {find_iperf3()} -c {{dst}} -t 60 -b 20M -J
""",
        timeout=60,
        status=None,
    )
    assert "0 failed" in done.stderr, done.stderr
    assert starts.read_text() == "started\n"
    [row] = rows(tmp_path / "out")
    assert (row["runs"], row["invalid"], row["streams"]) == (3, 0, 1)
    assert row["goodput_mean_bps"] == pytest.approx(20e6, rel=0.3)
    assert pair.running() == []


def test_a_budget_is_not_exceeded(run_ini: RunIni, tmp_path: Path) -> None:
    done = run_ini(
        f"""[thrifty]
type = x
iterations = 3
rate-budget = 4mb/day
dst-cmd = {find_iperf3()} -s -1
src-cmd = {find_iperf3()} -c {{dst}} -t 1 -b 20M -J
""",
        status=1,
    )
    assert "1 run valid, 0 not valid, 0 failed, 2 skipped" in done.stderr
    assert re.search(r"rate-budget: 2\.[4-6]\d? MB were sent", done.stderr), (
        done.stderr
    )  # 20 Mbit/s for 1 s
    assert len(summaries(tmp_path / "out")) == 1


@pytest.mark.parametrize("made_by", ["iperf3", "src-cmd"])
def test_a_first_run_that_nothing_bounds_ends_with_the_budget(
    run_ini: RunIni, made_by: str, pair: Pair, tmp_path: Path
) -> None:
    command = (
        f"dst-cmd = {find_iperf3()} -s -1\nsrc-cmd = {find_iperf3()} -c {{dst}} -t 20 -b "
        "100M -J; true"
    )
    own = "cca = cubic\nduration = 20s"
    done = run_ini(
        f"""[thrifty]
type = iperf3
iterations = 2
retries = 1
rate-budget = 20mb/day
{own if made_by == "iperf3" else command}
""",
        status=1,
    )
    assert "0 runs valid, 0 not valid, 0 failed, 2 skipped" in done.stderr, done.stderr
    [sent_mb] = re.findall(
        r"rate-budget: the run was ended when it had sent (\d+)\S* MB, since 20 MB", done.stderr
    )
    assert int(sent_mb) >= 20
    assert summaries(tmp_path / "out") == []
    assert pair.running() == []


def test_a_run_waits_for_its_time_window(ccmix: Ccmix, ini: Write, tmp_path: Path) -> None:
    now = datetime.datetime.now(datetime.UTC)
    begin, end = (now + datetime.timedelta(hours=hours) for hours in (2, 3))
    window = f"{begin:%H:%M}-{end:%H:%M} UTC"
    config = ini(f"[patient]\ntype = x\ntime-window = {window}\nsrc-cmd = touch {tmp_path}/ran\n")
    running = ccmix.start("run", config, "-o", tmp_path / "out")
    assert running.stderr
    line = "begins"
    while line and "waits for its time window" not in line:
        line = running.stderr.readline()
    assert f"waits for its time window, until {begin:%H:%M} UTC" in line
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=30)
    assert running.returncode == 130
    assert not (tmp_path / "ran").exists()


def test_a_destination_may_be_given_by_name(
    run_ini: RunIni, ini: Write, pair: Pair, tmp_path: Path
) -> None:
    config = ini("[named]\ntype = iperf3\ncca = bbr@20M\nduration = 1s\n")
    config.write_text(config.read_text().replace(f"dst = {pair.address}", f"dst = {pair.name}"))
    run_ini(config)
    assert [row["dst"] for row in rows(tmp_path / "out")] == [pair.name]


def test_a_name_that_nobody_knows_is_skipped_and_named(
    run_ini: RunIni, ini: Write, pair: Pair
) -> None:
    config = ini("[named]\ntype = x\nsrc-cmd = true\n")
    config.write_text(config.read_text().replace(f"dst = {pair.address}", "dst = nobody.invalid"))
    done = run_ini(config, status=None)
    assert f"netns:{pair.near} does not know the name nobody.invalid" in done.stderr
    assert "1 skipped" in done.stderr


def test_what_a_tool_says_in_another_way_fails_the_run_only(
    run_ini: RunIni, tmp_path: Path
) -> None:
    """Uses an iproute2 whose tc writes no JSON."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "tc").write_text("#!/bin/sh\necho 'qdisc noqueue 0: dev eth0 root'\n")
    (tools / "tc").chmod(0o755)
    done = run_ini(
        "[old]\ntype = x\nsrc-cmd = true\n", path=f"{tools}:{os.environ['PATH']}", status=1
    )
    assert "unexpected output" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_output_folder_that_is_read_only(
    ccmix: Ccmix, ini: Write, pair: Pair, tmp_path: Path
) -> None:
    config = ini(f"[one]\ntype = x\nsrc-cmd = touch {tmp_path}/ran\n")
    place = tmp_path / "read-only"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", place], check=True)
    try:
        done = ccmix("run", config, "-o", place / "out")
    finally:
        subprocess.run(["umount", place], check=True)
    assert done.returncode == 2
    assert (
        f"{place / 'out'}: Read-only file system: mount it for writing, or choose another"
        in done.stderr
    )
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "ran").exists()
    assert pair.running() == []


def test_an_output_folder_that_is_removed_in_the_middle(
    run_ini: RunIni, pair: Pair, tmp_path: Path
) -> None:
    done = run_ini(
        f"[two]\ntype = x\niterations = 2\nsrc-cmd = rm -rf {tmp_path}/out; touch "
        f"{tmp_path}/ran; sleep 0.5\n",
        status=1,
    )
    assert "campaign.json was removed, so ccmix no longer writes there" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("out/**/run.json"))
    assert pair.running() == []
