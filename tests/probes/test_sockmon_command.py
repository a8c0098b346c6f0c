"""Tests ccmix-sockmon's command line, its deadlines, its end, and its tables other than sockets."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ccmix.probes.stream.reader import read_stream


def run(binary: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [binary, *arguments],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=30,
    )


def test_help_teaches(sockmon_binary: str) -> None:
    done = run(sockmon_binary, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Usage: ccmix-sockmon ")
    for option in (
        "--sockets",
        "--queue",
        "--cpu",
        "--rate",
        "--until-eof",
        "--output",
        "--remote-port",
    ):
        assert option in done.stdout


def test_help_states_ranges_and_defaults(sockmon_binary: str) -> None:
    text = run(sockmon_binary, "-h").stdout
    assert (
        "-r, --rate=HZ                 sockets, queues and links (0.0001 to 1000) [default: 100]"
        in text
    )
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing to record"),
        (["--sockets", "file"], "file is not an option"),
        (["--sockets", "--rate=0"], "--rate=0: give a number from 0.0001 to 1000"),
        (["--sockets", "--rate=1001"], "--rate=1001"),
        (["--sockets", "--rate=ten"], "--rate=ten"),
        (["--sockets", "--rate="], "--rate="),
        (["--sockets", "--rate=nan"], "--rate=nan"),
        (["--sockets", "--port=65536"], "--port=65536: give a port or a range of ports"),
        (["--sockets", "--port=2-1"], "--port=2-1"),
        (["--sockets", "--port=-5"], "--port=-5"),
        (["--sockets", "--port=5-"], "--port=5-"),
        (["--sockets", "--remote=10.0.0"], "--remote=10.0.0: give an IPv4 or IPv6 address"),
        (["--sockets", "--remote=10.0.0.1/33"], "--remote=10.0.0.1/33: give a prefix length"),
        (["--sockets", "--remote=" + "1" * 100], "an IPv4 or IPv6 address"),
        (["--sockets", *["--remote=::1"] * 9], "--remote is given more than 8 times"),
        (["--queue="], "--queue=: give a name"),
        (["--queue=a/b/c"], "--queue=a/b/c"),
        (["--queue=../eth0"], "--queue=../eth0"),
        (["--sockets=" + "n" * 100], "a name"),
        (["--cpu=4-"], "--cpu=4-: give 'all' or a list of cores"),
        (["--cpu=1,,2"], "--cpu=1,,2"),
        (["--cpu=99999"], "--cpu=99999"),
        (["--pid=0"], "--pid=0: give a process's number"),
        (["--tree=me"], "--tree=me"),
        (["--duration=0", "--cpu"], "--duration=0"),
        (["--cpu", "--grid=soon"], "--grid=soon: give a number from 0"),
        (["--cpu", "--start=soon"], "--start=soon: give a number from 0"),
        (["--cpu", "--also=soon"], "--also=soon: give a time in seconds since 1970"),
        (["--cpu", "--also=1e11"], "--also=1e11: give a time in seconds since 1970"),
        (["--cpu", *["--also=1"] * 9], "--also is given more than 8 times"),
        (["--no-such-option"], "there is no option --no-such-option"),
        (["-x"], "there is no option -x"),
        (["--until-eof=5"], "--until-eof takes no value"),
        (["--help=5"], "--help takes no value"),
        (["--sockets=" + "x"] * 2049, "--sockets is given more than 2048 times"),
    ],
)
def test_wrong_options_start_nothing(
    arguments: list[str], message: str, sockmon_binary: str, tmp_path: Path
) -> None:
    done = run(sockmon_binary, *arguments, f"--output={tmp_path}/out")
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("option", ["--rate", "-r"])
def test_a_value_that_is_missing(option: str, sockmon_binary: str) -> None:
    done = run(sockmon_binary, option)
    assert (done.returncode, done.stderr) == (
        2,
        "ccmix-sockmon: --rate needs a value; see --help\n",
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--queue=no-such-device"], "there is no device no-such-device"),
        (["--link=no-such-space/lo"], "network namespace no-such-space: No such file or directory"),
        (["--sockets=no-such-space"], "network namespace no-such-space"),
        (["--pid=4194303"], "there is no process 4194303"),
        (["--cpu", "--output=/no/such/folder/file"], "/no/such/folder/file: No such file"),
        (["--cpu", "--output=/dev/full"], "the stream can't be written: No space left on device"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    arguments: list[str], message: str, sockmon_binary: str
) -> None:
    done = run(sockmon_binary, *arguments, "--duration=0.1")
    assert done.returncode == 1
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_reader_that_goes_away_is_an_error(sockmon_binary: str) -> None:
    process = subprocess.Popen(
        [sockmon_binary, "--cpu", "--rate=1000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    process.stdout.close()
    assert process.wait(timeout=10) == 1
    assert process.stderr
    assert "can't be written: Broken pipe" in process.stderr.read()


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGINT])
def test_ends_with_a_last_sample(by: signal.Signals, sockmon: Any) -> None:
    process = sockmon.start("--cpu", "--slow-rate=0.1", "--rate=0.1")
    time.sleep(0.5)
    begin = time.time()
    process.send_signal(by)
    stream = sockmon.finish(process, None)
    assert time.time() - begin < 9  # and not at the next deadline, 10 s after the first
    times = stream.cpu["time_s"].unique().sort().to_list()
    assert len(times) == 2
    assert times[1] >= begin
    assert stream.report["samples"] == 2


def test_ends_with_its_standard_input(sockmon: Any) -> None:
    process = sockmon.start("--cpu", "--until-eof", "--rate=0.2")
    process.stdin.write("whatever")
    process.stdin.flush()
    time.sleep(0.5)
    assert process.poll() is None
    process.stdin.close()
    process.stdin = None
    assert sockmon.finish(process, None).report["samples"] == 2


def test_duration_and_rate(sockmon: Any) -> None:
    stream = sockmon.record("--link=lo", "--rate=100", "--duration=0.5")
    times = stream.links["monotonic_s"]
    assert stream.report["samples"] == stream.links.height
    assert stream.report["samples"] + stream.report["missed"] in (50, 51, 52)
    assert 0.5 <= times[-1] - times[0] < 0.7
    # on absolute deadlines: late ones do not push those after them
    late = [(time_s - times[0] + 0.005) % 0.01 - 0.005 for time_s in times[:-1]]
    assert sorted(late)[len(late) // 2] < 0.003
    walls = stream.links["time_s"] - times
    assert walls.max() - walls.min() < 0.001
    assert (stream.links["took_s"] > 0).all()


def late_s(times: list[float], due: float) -> float:
    """Returns the delay of the first sample that is not earlier than `due`, apart from the clock's
    steps.
    """
    return min(time_s - due for time_s in times if time_s > due - 1e-4)


def test_samples_are_at_times_of_the_wall_clock(sockmon: Any) -> None:
    """Every 0.2 s, counted from a moment that comes 0.53 s after the start, and that is not a
    multiple of it.
    """
    grid_s = time.time() + 0.53
    stream = sockmon.record("--link=lo", "--rate=5", f"--grid={grid_s:.6f}", "--duration=1.5")
    times = stream.links["time_s"].to_list()
    between = times[1:-1]  # the first one is at once, and the last one at the end
    assert 6 <= len(between) + stream.report["missed"] <= 8
    assert between[0] < grid_s - 0.1
    assert sorted((time_s - grid_s + 1e-4) % 0.2 for time_s in between)[len(between) // 2] < 0.02


@pytest.mark.parametrize(("late_s", "moved"), [(0.33, True), (-0.2, False)])
def test_after_a_late_start_all_samples_are_as_much_later(
    late_s: float, moved: bool, sockmon: Any
) -> None:
    """Every 0.2 s from the start, and 0.71 s after it. A start in time changes nothing, nor does a
    second start.
    """
    start_s = time.time() + 0.5
    options = (f"--start={start_s:.6f}", f"--grid={start_s:.6f}", f"--also={start_s + 0.71:.6f}")
    process = sockmon.start("--link=lo", "--rate=5", *options, "--duration=2")
    time.sleep(start_s + late_s - time.time())
    told_s = time.time()
    process.send_signal(signal.SIGUSR1)
    time.sleep(0.15)
    process.send_signal(signal.SIGUSR1)
    stream = sockmon.finish(process, by_signal=None)
    times = stream.links["time_s"][:-1]  # the last one is at the end
    began_s = told_s if moved else start_s
    after = times.filter(times > began_s - 0.02) - began_s
    assert abs(after[0]) < 0.02
    phases = sorted((after % 0.2 + 0.02).to_list())
    assert phases[len(phases) // 2] % 0.2 < 0.05
    assert (after - 0.71).abs().min() < 0.02


def test_samples_besides_at_given_moments_are_of_everything(sockmon: Any) -> None:
    """Slow tables are sampled, too, such as processors, which otherwise have a sample only at the
    beginning and the end.
    """
    begin_s = time.time()
    moments_s = [begin_s + 0.9, begin_s + 0.5]
    also = [f"--also={moment_s:.6f}" for moment_s in moments_s]
    stream = sockmon.record(
        "--link=lo", "--cpu", "--rate=0.01", "--slow-rate=0.01", *also, "--duration=1.3"
    )
    assert stream.report["samples"] + stream.report["missed"] == 4
    for times in (stream.links["time_s"].to_list(), stream.cpu["time_s"].unique().to_list()):
        assert len(times) == stream.report["samples"]
        assert max(late_s(times, moment_s) for moment_s in moments_s) < 0.1


def test_starved_it_says_what_it_missed(sockmon: Any) -> None:
    process = sockmon.start("--link=lo", "--rate=20")
    time.sleep(0.4)
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(0.525)
    os.kill(process.pid, signal.SIGCONT)
    time.sleep(0.6)
    stream = sockmon.finish(process)
    assert 9 <= stream.report["missed"] <= 25
    assert stream.report["longest_delay_ns"] + stream.report["longest_sample_ns"] > 0.4e9
    times = stream.links["monotonic_s"]
    assert 0.45 < times.diff().max() < 2
    # every deadline was kept or counted, and the stop does not shift the deadlines after it
    assert (
        abs(stream.report["samples"] + stream.report["missed"] - (times[-1] - times[0]) * 20) < 2.1
    )
    phases = sorted((time_s - times[0]) % 0.05 for time_s in times[-8:-1])
    assert phases[len(phases) // 2] < 0.01


@pytest.mark.skipif(
    not shutil.which("chrt"), reason="chrt is not installed: apt-get install util-linux"
)
def test_without_a_processor_it_says_what_it_missed(sockmon: Any) -> None:
    """The probe shares a core with a busy process, which leaves it almost no time."""
    core = str(min(os.sched_getaffinity(0)))
    busy = subprocess.Popen(["taskset", "-c", core, "sh", "-c", "while :; do :; done"])
    try:
        argv = [
            "taskset",
            "-c",
            core,
            "chrt",
            "--idle",
            "0",
            *sockmon.argv("--link=lo", "--rate=1000", "--duration=2"),
        ]
        subprocess.run(argv, check=True, timeout=120)
    finally:
        busy.kill()
        busy.wait()
    stream = read_stream(sockmon.file)
    assert stream.report
    assert stream.report["missed"] > 500
    assert stream.report["longest_delay_ns"] + stream.report["longest_sample_ns"] > 0.01e9
    assert (
        2000 <= stream.report["samples"] + stream.report["missed"] <= 2002
    )  # also those just before the end


def test_a_slow_reader_costs_samples_and_is_reported(sockmon_binary: str, tmp_path: Path) -> None:
    argv = [sockmon_binary, *["--counters"], "--slow-rate=1000", "--rate=1000", "--duration=1.5"]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE)
    time.sleep(1)
    output, _ = process.communicate(timeout=30)
    (tmp_path / "stream").write_bytes(output)
    report = read_stream(tmp_path / "stream").report
    assert report
    assert report["longest_write_ns"] > 0.3e9
    assert report["missed"] > 300


def test_a_crash_only_shortens_the_stream(sockmon: Any) -> None:
    process = sockmon.start("--link=lo", "--rate=200")
    time.sleep(0.6)
    process.kill()
    process.communicate()
    stream = read_stream(sockmon.file)
    assert stream.report is None
    assert 40 < stream.links.height < 130


def test_processor_time_of_processes(sockmon: Any) -> None:
    """The probe records a shell's child that burns half a second, though it started later than
    the probe.
    """
    burn = (
        "import sys, time\nwhile time.process_time() < 0.5: "
        "pass\nprint(flush=True)\nsys.stdin.read()"
    )
    script = f"sleep 0.3; {sys.executable} -c '{burn}'; true"
    shell = subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        process = sockmon.start(f"--tree={shell.pid}", f"--pid={os.getpid()}", "--slow-rate=50")
        assert shell.stdout
        shell.stdout.readline()  # the child has burnt its half second
        time.sleep(0.1)
        own_stat = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        processes = sockmon.finish(process).processes
    finally:
        shell.communicate()
    assert set(processes["pid"]) >= {shell.pid, os.getpid()}
    [burner] = set(processes.filter(pl.col("name").str.starts_with("python"))["pid"]) - {
        os.getpid()
    }
    rows = processes.filter(pl.col("pid") == burner)
    assert rows["name"][-1].startswith("python")  # after it was a shell, before exec()
    assert rows["parent_pid"].unique().to_list() == [shell.pid]
    spent = rows["user_s"] + rows["system_s"]
    assert 0.45 <= spent.max() <= 0.8
    mine = processes.filter(pl.col("pid") == os.getpid())
    assert mine["started_s"][0] == int(own_stat[19]) / 100
    assert mine["threads"][-1] == int(own_stat[17])
    assert mine["memory_bytes"][-1] == pytest.approx(int(own_stat[21]) * 4096, rel=0.2)


def test_processor_time_of_threads(sockmon: Any) -> None:
    """The probe distinguishes the thread that burns half a second from the one that waits for
    it.
    """
    burn = (
        "t = threading.Thread(target=lambda: [None for _ in iter(lambda: time.process_time() "
        "< 0.5, False)])"
    )
    script = (
        "import sys, threading, "
        f"time\n{burn}\nt.start()\nt.join()\nprint(flush=True)\nsys.stdin.read()"
    )
    threaded = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        process = sockmon.start(f"--tree={threaded.pid}", "--threads", "--slow-rate=50")
        assert threaded.stdout
        threaded.stdout.readline()
        processes = sockmon.finish(process).processes
    finally:
        threaded.communicate()
    spent = pl.col("user_s") + pl.col("system_s")
    threads = (
        processes.filter(pl.col("threads") == 0).group_by("pid", "parent_pid").agg(spent.max())
    )
    assert set(threads["parent_pid"]) == {threaded.pid}
    used = dict(threads.select("pid", "user_s").iter_rows())
    assert set(used) > {threaded.pid}
    assert used.pop(threaded.pid) < 0.2
    assert max(used.values()) > 0.25
    whole = processes.filter(pl.col("threads") > 0)
    assert set(whole["pid"]) == {threaded.pid}
    assert whole.select(spent.max()).item() >= max(used.values())


def test_processor_time_of_cores(sockmon: Any) -> None:
    """The times lie between two readings of /proc/stat by the test."""

    def reading() -> list[list[float]]:
        lines = Path("/proc/stat").read_text().splitlines()
        return [
            [int(word) / 100 for word in line.split()[1:]]
            for line in lines
            if re.match(r"cpu\d", line)
        ]

    before = reading()
    cpu = sockmon.record("--cpu", "--slow-rate=50", "--duration=0.1").cpu
    after = reading()
    assert sorted(set(cpu["core"])) == list(range(len(before)))
    names = ["user_s", "nice_s", "system_s", "idle_s", "iowait_s", "irq_s", "softirq_s", "steal_s"]
    for row in cpu.iter_rows(named=True):
        for column, name in enumerate(names):
            # the kernel may take back some of what it calls idle
            assert (
                before[row["core"]][column] - 0.05 <= row[name] <= after[row["core"]][column] + 0.05
            )
    core_0 = sockmon.record("--cpu=0", "--duration=0.01").cpu
    assert set(core_0["core"]) == {0}


@pytest.mark.namespaces
def test_chosen_cores_of_many_with_steal_and_frequency(sockmon: Any, tmp_path: Path) -> None:
    """The probe has a separate mount namespace, in which the kernel's files show a machine with
    eight cores.
    """
    times = {core: [1000 * core + field for field in range(10)] for core in range(8)}
    lines = ["cpu  " + " ".join(str(sum(column)) for column in zip(*times.values(), strict=True))]
    lines += [f"cpu{core} {' '.join(map(str, fields))}" for core, fields in times.items()]
    (tmp_path / "stat").write_text("\n".join([*lines, "intr 5 0 1", "ctxt 7"]) + "\n")
    for core in range(8):
        folder = tmp_path / "cpu" / f"cpu{core}" / "cpufreq"
        folder.mkdir(parents=True)
        if core != 5:
            (folder / "scaling_cur_freq").write_text(f"{1_200_000 + core}\n")
    (tmp_path / "cpu" / "online").write_text("0-7\n")
    (tmp_path / "cpu" / "possible").write_text("0-7\n")
    script = (
        'mount --bind "$1/stat" /proc/stat; mount --bind "$1/cpu" /sys/devices/system/cpu; '
        'shift; exec "$@"'
    )
    argv = sockmon.argv("--cpu=4-5,7", "--duration=0.01")
    subprocess.run(["unshare", "--mount", "sh", "-ec", script, "sh", tmp_path, *argv], check=True)
    cpu = read_stream(sockmon.file).cpu
    assert set(cpu["core"]) == {4, 5, 7}
    for row in cpu.iter_rows(named=True):
        core = row["core"]
        assert row["frequency_hz"] == (None if core == 5 else 1.2e9 + core * 1e3)
        assert list(row.values())[-10:] == [field / 100 for field in times[core]]
        assert row["steal_s"] == times[core][7] / 100


def proc_counters() -> dict[str, int]:
    counters: dict[str, int] = {}
    for file in ("snmp", "netstat"):
        lines = Path(f"/proc/net/{file}").read_text().splitlines()
        for names, values in zip(lines[::2], lines[1::2], strict=True):
            group = names.partition(":")[0]
            pairs = zip(names.split()[1:], values.split()[1:], strict=True)
            counters |= {f"{group}.{name}": int(value) for name, value in pairs}
    return counters


def test_counters_of_the_kernel(sockmon: Any) -> None:
    before = proc_counters()
    counters = sockmon.record("--counters", "--duration=0.01").counters
    after = proc_counters()
    last = {
        row["name"]: row["value"]
        for row in counters.filter(pl.col("core").is_null()).iter_rows(named=True)
    }
    assert {
        "Tcp.RetransSegs",
        "TcpExt.TCPMemoryPressures",
        "TcpExt.ListenDrops",
        "IpExt.InCEPkts",
    } <= set(last)
    for name, value in last.items():
        low, high = sorted((before[name], after[name]))
        assert low <= value <= high, name
    softnet = [line.split() for line in Path("/proc/net/softnet_stat").read_text().splitlines()]
    dropped = (
        counters.filter(pl.col("name") == "Softnet.dropped")
        .group_by("core")
        .agg(pl.col("value").last())
    )
    assert dict(dropped.iter_rows()) == {int(line[12], 16): int(line[1], 16) for line in softnet}


def test_counters_of_a_link(sockmon: Any) -> None:
    def reading(name: str) -> int:
        return int(Path(f"/sys/class/net/lo/statistics/{name}").read_text())

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.bind(("127.0.0.1", 0))
        sender.sendto(bytes(500), sender.getsockname())
    names = (
        "rx_packets",
        "tx_packets",
        "rx_bytes",
        "tx_bytes",
        "rx_dropped",
        "tx_dropped",
        "rx_crc_errors",
        "multicast",
    )
    before = {name: reading(name) for name in names}
    row = sockmon.record("--link=lo", "--duration=0.001").links.row(-1, named=True)
    after = {name: reading(name) for name in names}
    assert (row["netns"], row["device"]) == ("", "lo")
    assert all(before[name] <= row[name] <= after[name] for name in names)
    assert before["rx_bytes"] > 500


def test_namespaces(sockmon: Any, namespace: Any) -> None:
    """Records sockets, links, queues and counters of another namespace from this one."""
    name = namespace.name
    subprocess.run(["ip", "-n", name, "link", "set", "lo", "up"], check=True)
    code = """
import socket, time
listener = socket.socket(); listener.bind(("127.0.0.1", 7)); listener.listen()
client = socket.create_connection(("127.0.0.1", 7)); server, _ = listener.accept()
client.sendall(bytes(4321)); print("ready", flush=True); time.sleep(60)
"""
    inside = subprocess.Popen(
        ["ip", "netns", "exec", name, "python3", "-c", code], stdout=subprocess.PIPE
    )
    try:
        assert inside.stdout
        inside.stdout.readline()
        targets = [
            f"--sockets={name}",
            f"--link={name}/lo",
            "--link=lo",
            f"--queue={name}/lo",
            f"--counters={name}",
        ]
        stream = sockmon.record(*targets, "--counters", "--duration=0.05")
    finally:
        inside.kill()
        inside.wait()
    sent = stream.sockets.filter(pl.col("remote_port") == 7)
    assert (sent["netns"][0], sent["bytes_sent"][-1]) == (name, 4321)
    assert stream.sockets["local_port"].n_unique() == 2  # and none of ours
    links = {row["netns"]: row["rx_bytes"] for row in stream.links.iter_rows(named=True)}
    assert 4321 < links[name] < 10_000
    assert links[""] != links[name]
    assert set(stream.queues["netns"]) == {name}
    opens = (
        stream.counters.filter(pl.col("name") == "Tcp.ActiveOpens")
        .group_by("netns")
        .agg(pl.col("value").last())
    )
    assert dict(opens.iter_rows())[name] == 1
