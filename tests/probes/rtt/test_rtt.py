"""Tests ccmix-rtt in guests of the lab against netem's delay and loss, and on this
machine's loopback.
"""

import asyncio
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import polars as pl
import pytest

from ccmix.lab import GuestSpec, run_guest
from ccmix.model import RttProbe
from ccmix.probes.rtt import RttError, Rtts, read
from ccmix.probes.rtt_beside import argv
from ccmix.tools import find_kernel
from support.commands import REPOSITORY


@pytest.fixture(scope="session")
def binary() -> str:
    named = os.environ.get("CCMIX_RTT")
    build = REPOSITORY / "probes" / "rtt" / "build"
    return (
        named
        or subprocess.run([build], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    )


def run(binary: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [binary, *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert "Sanitizer" not in done.stderr, done.stderr
    assert "runtime error" not in done.stderr, done.stderr
    return done


PATH = """
set -e
ip netns add far
ip link add near0 type veth peer name far0 netns far
ip addr add 10.9.0.1/24 dev near0
ip addr add fd09::1/64 dev near0 nodad
ip link set near0 up
ip -n far addr add 10.9.0.2/24 dev far0
ip -n far addr add fd09::2/64 dev far0 nodad
ip -n far link set far0 up
ip -n far link set lo up
ping -c 1 -q 10.9.0.2 >/dev/null
ping -c 1 -q fd09::2 >/dev/null
"""


@pytest.fixture(scope="session")
def answers(binary: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with the output of the probe on a path of the lab, with 7 ms there and
    5 ms back.
    """
    folder = tmp_path_factory.mktemp("rtt")
    script = f"""{PATH}
tc -n far qdisc add dev far0 root netem delay 5ms
tc qdisc add dev near0 root netem delay 7ms
for address in 10.9.0.2 fd09::2; do
    {binary} --rate 100 --duration 2s $address >raw-$address
    {binary} --rate 100 --duration 2s --tcp 9 $address >closed-$address
done
sysctl -qw net.ipv4.ping_group_range='0 0'
for address in 10.9.0.2 fd09::2; do {binary} --rate 100 --duration 2s $address >ping-$address; done
{binary} --rate 1000 --duration 3s 10.9.0.2 >fast
{binary} --rate 7 --duration 3s 10.9.0.2 >slow
ip netns exec far python3 -c 'import socket
server = socket.create_server(("", 80))
while True: server.accept()[0].close()' & server=$!
sleep 2
{binary} --rate 100 --duration 2s --tcp 80 10.9.0.2 >open
kill $server
tc qdisc replace dev near0 root tbf rate 10mbit burst 3028 limit 100000
for address in 10.9.0.2 fd09::2; do
    {binary} --rate 10 --duration 2s --train 8 --size 1452 $address >train-$address
done
tc qdisc replace dev near0 root netem delay 7ms loss 20%
{binary} --rate 100 --duration 20s --timeout 100ms 10.9.0.2 >lossy
{binary} --rate 100 --duration 20s --timeout 100ms --tcp 9 10.9.0.2 >lossy-tcp
tc qdisc replace dev near0 root netem delay 300ms
{binary} --rate 100 --duration 1s --timeout 200ms 10.9.0.2 >late
tc qdisc replace dev near0 root netem delay 7ms duplicate 50%
{binary} --rate 100 --duration 2s 10.9.0.2 >duplicate
{binary} --rate 10 --duration 1s --timeout 100ms 10.9.0.77 >nobody
{binary} --rate 10 --duration 1s 10.10.0.1 >unreachable 2>unreachable-said || echo $? >unreachable-status
"""
    (folder / "script.sh").write_text(script)
    argv = ("/bin/sh", str(folder / "script.sh"))
    result = asyncio.run(
        run_guest(
            find_kernel(), GuestSpec(argv=argv, job_dir=folder, memory_bytes=256 << 20, seed=1)
        )
    )
    assert result.exit_status == 0, result.console
    return folder


@pytest.mark.parametrize("address", ["10.9.0.2", "fd09::2"])
@pytest.mark.parametrize("kind", ["raw", "ping", "closed"])
def test_rtt_is_netems_delay(kind: str, address: str, answers: Path) -> None:
    rtts = read(answers / f"{kind}-{address}")
    assert rtts.missed == 0
    table = rtts.table
    assert table.get_column("sequence").to_list() == list(range(200))
    assert table.get_column("rtt_s").null_count() == 0
    assert table.filter(pl.col("rtt_s").is_between(0.012, 0.0125)).height == 200
    steps = table.get_column("time_s").diff().drop_nulls()
    assert steps.max() < 0.011  # type: ignore[operator]
    assert steps.min() > 0.009  # type: ignore[operator]


@pytest.mark.parametrize(("address", "header_bytes"), [("10.9.0.2", 20), ("fd09::2", 40)])
def test_a_train_leaves_the_bottleneck_packet_by_packet(
    address: str, header_bytes: int, answers: Path
) -> None:
    """All of a train are sent at once, and a bucket of two packets lets two pass at once."""
    table = read(answers / f"train-{address}").table
    assert table["sequence"].to_list() == list(range(160))
    assert table["rtt_s"].null_count() == 0
    number = pl.col("sequence") // 8
    gaps = (
        table.with_columns(arrived_s=pl.col("time_s") + pl.col("rtt_s"), number=number)
        .with_columns(gap_s=pl.col("arrived_s").diff().over("number"))
        .filter(pl.col("sequence") % 8 >= 3)
    )
    packet_s = (14 + header_bytes + 8 + 1452) * 8 / 10e6
    assert gaps["gap_s"].to_list() == pytest.approx([packet_s] * 100, rel=0.01)
    begins = table.filter(pl.col("sequence") % 8 == 0)["time_s"].diff().drop_nulls()
    assert begins.to_list() == pytest.approx([0.1] * 19, abs=0.001)


def test_rates(answers: Path) -> None:
    fast, slow = read(answers / "fast"), read(answers / "slow")
    assert fast.table.height + fast.missed == 3000
    assert fast.missed < 30
    assert slow.table.height == 21
    span_s = slow.table.get_column("time_s")[-1] - slow.table.get_column("time_s")[0]
    assert span_s == pytest.approx(20 / 7, abs=0.002)


def test_an_open_port_answers_too(answers: Path) -> None:
    table = read(answers / "open").table
    assert table.filter(pl.col("rtt_s").is_between(0.012, 0.0125)).height == 200


@pytest.mark.parametrize("name", ["lossy", "lossy-tcp"])
def test_losses_are_null(name: str, answers: Path) -> None:
    table = read(answers / name).table
    assert table.height == 2000
    lost = table.get_column("rtt_s").null_count()
    assert 320 <= lost <= 480  # 20%, 4.5 standard deviations to each side
    assert table.get_column("rtt_s").drop_nulls().is_between(0.012, 0.0125).all()


def test_late_answers_are_lost(answers: Path) -> None:
    assert read(answers / "late").table.get_column("rtt_s").null_count() == 100
    assert read(answers / "nobody").table.get_column("rtt_s").null_count() == 10


def test_duplicates_count_once(answers: Path) -> None:
    table = read(answers / "duplicate").table
    assert table.get_column("sequence").to_list() == list(range(200))
    assert table.get_column("rtt_s").drop_nulls().is_between(0.012, 0.0125).all()


def test_no_way(answers: Path) -> None:
    assert (answers / "unreachable-status").read_text() == "1\n"
    assert (
        answers / "unreachable-said"
    ).read_text() == "ccmix-rtt: no way to this address: Network is unreachable\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "give one address"),
        (["::1", "::1"], "give one address"),
        (["localhost"], "give an IPv4 or IPv6 address"),
        (["--rate", "0", "::1"], "1 to 1000"),
        (["--rate", "1001", "::1"], "1 to 1000"),
        (["--duration", "0s", "::1"], "give a time from 10ms to 30d"),
        (["--timeout", "11s", "::1"], "10ms to 10s"),
        (["--tcp", "9", "--timeout", "1s", "::1"], "10ms to 900ms"),
        (["--tcp", "65536", "::1"], "1 to 65535"),
        (["--tcp"], "--tcp needs a value"),
        (["--tcp", "9", "--train", "2", "::1"], "only ICMP has them"),
        (["--tcp", "9", "--size", "100", "::1"], "only ICMP has them"),
        (["--train", "0", "::1"], "1 to 64"),
        (["--size", "8973", "::1"], "16 to 8972"),
        (["--nothing"], "no option --nothing"),
    ],
)
def test_wrong_options(arguments: list[str], words: str, binary: str) -> None:
    done = run(binary, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("ccmix-rtt: ")
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_help(binary: str) -> None:
    done = run(binary, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Usage: ccmix-rtt [OPTION]... ADDRESS\n")
    assert (
        "--rate=HZ                 questions, or trains, per second (1 to 1000) [default: 10]\n"
        in done.stdout
    )


def test_output_that_cannot_be_written(binary: str) -> None:
    with Path("/dev/full").open("w") as full:
        argv = [binary, "--tcp=9", "--duration=1s", "127.0.0.1"]
        done = subprocess.run(
            argv, stdout=full, stderr=subprocess.PIPE, text=True, timeout=30, check=False
        )
    assert done.returncode == 1
    assert "the output can't be written" in done.stderr


def test_a_starved_probe_says_so(binary: str, tmp_path: Path) -> None:
    """A probe that is stopped for a second misses deadlines; the kernel times the answers of
    that second.
    """
    with socket.create_server(("127.0.0.1", 0)) as server, (tmp_path / "rtt").open("w") as out:
        port = server.getsockname()[1]
        process = subprocess.Popen([binary, "--rate=50", f"--tcp={port}", "127.0.0.1"], stdout=out)
        time.sleep(1)
        process.send_signal(signal.SIGSTOP)
        time.sleep(1)
        process.send_signal(signal.SIGCONT)
        time.sleep(1)
        process.terminate()
        assert process.wait(10) == 0
    rtts = read(tmp_path / "rtt")
    assert rtts.missed >= 45
    assert rtts.table.get_column("time_s").diff().max() > 0.9  # type: ignore[operator]
    assert rtts.table.height + rtts.missed == pytest.approx(150, abs=15)


def test_reader(tmp_path: Path, binary: str) -> None:
    file = tmp_path / "rtt"
    file.write_text("time_s,sequence,rtt_s\n1.5,0,0.25\n1.6,1,\n1.9,4,0.5\n2.0,5,0.")
    rtts: Rtts = read(file)
    assert rtts.missed == 2
    assert rtts.table.rows() == [(1.5, 0, 0.25), (1.6, 1, None), (1.9, 4, 0.5)]
    file.write_text("time_s,sequence,rtt_s\n")
    assert read(file).missed == 0
    for content in ("", "a,b\n", "time_s,sequence,rtt_s\nx,0,1\n"):
        file.write_text(content)
        with pytest.raises(RttError):
            read(file)
    assert argv(binary, RttProbe(5, 22), "::1") == [binary, "--rate=5", "--tcp=22", "--", "::1"]
