"""Tests the plan as text: the settings and commands on each host."""

from pathlib import Path

import pytest

from ccmix.config import load
from ccmix.plan import Span, make_plan
from ccmix.report import plan_text
from ccmix.report.plan_text import total
from support.commands import SMALL, Ccmix

ENTRY = """\
[lab]
type = iperf3
topology = dtn
rtt-probe = tcp:22@5
[topology dtn]
rate = 1gbit
delay = 5ms
loss = 0.1%
[wan]
type = bbr, 8 streams
dst = 10.1.2.3
user = op
alias = far
src-cmd = iperf3 -c {dst} -t 60
dst-cmd = iperf3 -s
dst-cmd-once = on
pre = echo {dst}
pre-src-cmd = one
    two
profile-file = p.yml
profile = WAN
pacing = 1gbit
netem-at = n:eth2,eth3
netem-loss = gemodel 1 10
lat-sweep = 2,5
param-sweep = m/parameters/gain, sys-module-vector-list,2,7
tcpdump = on
mpstat = 0-3
iterations = 2
pause = 5s
[own]
type = iperf3
dst = 10.1.2.3
src = netns:h1
server = running
streams = 4
cca = cubic,bbr@1G
[mine]
type = of my own
dst = 10.1.2.3
src-cmd = ./mine
"""
SHOWN = """\
[lab]
  path         emulated: 1.00 Gbit/s, base RTT 10 ms, loss 0.1%, buffer 1.25 MB
               h1 eth0 ── west [delay] east ── west [bottleneck] east ── eth0 receiver
  device       h1 eth0                  fq
  device       delay east               netem, data: delay 5 ms, loss 0.1%
  device       delay west               netem, ACKs: delay 5 ms
  device       bottleneck east          tbf 1.00 Gbit/s, buffer 1.25 MB
  spread       starts within 10 ms, delay of data ± 5 us
  rtt-probe    by TCP to port 22, 5 times a second
  lab all #1  10 s

[wan]
  type         bbr, 8 streams
  src          localhost
  dst          far: 10.1.2.3, commands on op@10.1.2.3
  pre          echo 10.1.2.3
  pre-src-cmd  one
               two
  dst-cmd      iperf3 -s  (once, for all runs)
  src-cmd      iperf3 -c 10.1.2.3 -t 60
  netem        on n, eth2 (data), eth3 (ACKs): delay 2 ms in each direction, loss gemodel 1% 10%
  netem        on n, eth2 (data), eth3 (ACKs): delay 5 ms in each direction, loss gemodel 1% 10%
  profile      WAN on localhost, eth7: delay 80 ms, limit 9 packets, rate 1.00 Gbit/s
  pacing       on localhost, eth1: fq maxrate 1.00 Gbit/s each flow
  parameter    on localhost: m/parameters/gain, element 2, = 7
  tcpdump      on localhost: -s 128 -i eth1 'host 10.1.2.3', up to 1 GB
  mpstat       on both hosts: cores 0-3
  wan far netem-lat=2,gain=7 #1  60 s
  wan far netem-lat=5,gain=7 #1  60 s
  wan far netem-lat=2,gain=7 #2  60 s
  wan far netem-lat=5,gain=7 #2  60 s

[own]
  type         iperf3
  src          netns:h1
  dst          10.1.2.3, commands on 10.1.2.3
  iperf3       4 streams, cubic,bbr@1000000000; the server runs at port 5201
  own 10.1.2.3 all #1  10 s

[mine]
  type         of my own
  src          localhost
  dst          10.1.2.3, commands on 10.1.2.3
  src-cmd      ./mine
  mine 10.1.2.3 all #1  unknown time
"""


def test_what_a_plan_shows(ccmix: Ccmix) -> None:
    (ccmix.folder / "p.yml").write_text(
        "profiles: {WAN: {interface: eth7, latency: 80, limit: 9, rate: 1gbit}}"
    )
    file = ccmix.folder / "x.ini"
    file.write_text(ENTRY)
    done = ccmix("plan", file, "-i", "eth1")
    assert done.returncode == 0, done.stderr
    assert done.stdout == SHOWN
    assert done.stderr.splitlines() == [
        "own can't settle: 10 s are too short to tell: they hold 1 BBR cycle of 10 s, and 5 are "
        "needed; duration = 60s would do",
        "7 runs, 260 s of traffic, 20 s of pauses, in all 0:04:40, plus 1 run of unknown length",
        "about 2.27 MB to write, and captures of up to 4 GB, plus the flows of commands in "
        "4 runs and 1 run of unknown length",
    ]


MANY = """\
[topology rtt]
rate = 1gbit
shaper = htb
qdisc = fq_codel ecn target 5ms
buffer = 2bdp
hosts = 100
delay = 10ms
host.h100 = delay 80ms loss gemodel 1% 30% 70% rate 100mbit
at.5s = rate 500mbit, h2 delay 20ms
[one]
type = iperf3
topology = rtt
[two]
type = iperf3
topology = rtt
sweep.receivers = one
flows.noise = h1 udp@1M
flows.load = h5..h100 workload web-search rate 1mbit +2s
[three]
type = iperf3
topology = rtt
cca = cubic:3,bbr
streams = 8
flows.noise = h2..h100 udp@1M
"""
MANY_SHOWN = """\
[one]
  path         emulated: 1.00 Gbit/s, base RTT 20 ms to 160 ms, loss 0% or gemodel 1% 30% 70%, buffer 40 MB, \
fq_codel ecn target 5000us
               h1..h100 eth0 ── west1..100 [delay] east1..100 ── west1..100 [bottleneck] east ── \
west [exit] east1..100 ── eth0 h1..h100-receiver
  device       h1..h99 eth0             fq
  device       delay east1..east99      netem, data: delay 10 ms
  device       delay west1..west99      netem, ACKs: delay 10 ms
  device       h100 eth0                tbf 100 Mbit/s, then fq
  device       delay east100            netem, data: delay 80 ms, loss gemodel 1% 30% 70%
  device       delay west100            netem, ACKs: delay 80 ms
  device       bottleneck east          htb 1.00 Gbit/s, buffer 40 MB, fq_codel ecn target 5000us
  spread       starts within 20 ms to 160 ms, delay of data ± 10 us to 80 us
  at 5 s       rate 500 Mbit/s
  at 5 s       h2: delay 20 ms
  one all #1  10 s
"""
LINES_SHOWN = """\
  flows        noise: h1 udp, 1 x 1.00 Mbit/s
  flows        load: h5..h100 workload web-search, 1.00 Mbit/s offered, -, from 2 s on
"""
TEST_SHOWN = """\
  iperf3       h1: 8 flows of cubic:3,bbr
  flows        noise: h2..h100 udp, 1 x 1.00 Mbit/s
"""
ONE_RECEIVER = "west1..100 [bottleneck] east ── eth0 receiver\n"


def test_a_path_of_many_hosts(ccmix: Ccmix) -> None:
    file = ccmix.folder / "x.ini"
    file.write_text(MANY)
    done = ccmix("plan", file)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(MANY_SHOWN)
    assert ONE_RECEIVER in done.stdout.removeprefix(MANY_SHOWN)
    assert LINES_SHOWN in done.stdout.removeprefix(MANY_SHOWN)
    assert TEST_SHOWN in done.stdout.removeprefix(MANY_SHOWN)


UNKNOWN = """\
[topology p]
rate = 100mbit
delay = 5ms
[twin]
type = iperf3
topology = p
sweep.buffer = 0.3bdp, 1bdp
sweep.loss = 0%, 0.1%
sweep.cca = cubic, bbr
unknown = loss, buffer
"""


def test_a_plan_says_which_conditions_are_one_range(ccmix: Ccmix) -> None:
    file = ccmix.folder / "x.ini"
    file.write_text(UNKNOWN)
    assert (
        "  unknown      loss (0%, 0.1%), buffer (0.3bdp, 1bdp): conditions that differ only in "
        "these are one range\n" in ccmix("plan", file).stdout
    )
    file.write_text(UNKNOWN.replace("loss, buffer", "buffer"))
    assert (
        "buffer (0.3bdp, 1bdp): conditions that differ only in this are one range"
        in ccmix("plan", file).stdout
    )
    file.write_text(UNKNOWN.replace("unknown = loss, buffer\n", ""))
    assert "one range" not in ccmix("plan", file).stdout


def test_totals() -> None:
    assert total(Span(1, 60.0, 0.0, 0)) == "1 run, 60 s of traffic, in all 0:01:00"
    assert (
        total(Span(9, 1.0, 2.0, 2))
        == "9 runs, 1 s of traffic, 2 s of pauses, in all 0:00:03, plus 2 runs of unknown length"
    )


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("buffer = 1b", ["both: buffer = 1b becomes 1.51 kB, a packet: nothing passes a smaller"]),
        ("buffer = 0.001bdp", ["both: buffer = 0.001bdp becomes"]),
        ("buffer = 1p", []),
        ("loss = 0.0000000001%", ["both: a probability of 1e-10% becomes 0, because netem's"]),
        ("loss = 0.001%", []),
        ("loss = gemodel 0.0000000001% 10%", ["both: a probability of 1e-10% becomes 0"]),
    ],
)
def test_values_that_the_kernel_rounds_are_said(line: str, said: list[str], tmp_path: Path) -> None:
    config = tmp_path / "a.ini"
    config.write_text(SMALL.replace("mtu = 9000", line))
    found = list(plan_text.rounded_values(make_plan(load(config).entries, 1)))
    assert len(found) == len(said)
    for sentence, beginning in zip(found, said, strict=True):
        assert sentence.startswith(beginning)


def test_a_duration_that_the_command_contradicts(tmp_path: Path, ccmix: Ccmix) -> None:
    entry = "[long]\ntype = iperf3\ndst = 192.0.2.2\nsrc-cmd = iperf3 -c {dst} -t 300\n"
    file = tmp_path / "long.ini"
    file.write_text(entry + "duration = 10s\n")
    said = "duration     10 s, but src-cmd sends for 300 s: change one of them"
    assert said in ccmix("plan", file).stdout
    file.write_text(entry + "duration = 300s\n")
    assert "src-cmd sends for" not in ccmix("plan", file).stdout
    file.write_text(entry)
    assert "src-cmd sends for" not in ccmix("plan", file).stdout
