"""The plan for people: what will be run and set where."""

from ccmix.plan import Span
from ccmix.report.plan_text import total
from support import Ccmix

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
    (ccmix.folder / "p.yml").write_text("profiles: {WAN: {interface: eth7, latency: 80, limit: 9, rate: 1gbit}}")
    file = ccmix.folder / "x.ini"
    file.write_text(ENTRY)
    done = ccmix("plan", file, "-i", "eth1")
    assert done.returncode == 0, done.stderr
    assert done.stdout == SHOWN
    assert done.stderr == "7 runs, 260 s of traffic, 20 s of pauses, in all 0:04:40, plus 1 run of unknown length\n"


def test_totals() -> None:
    assert total(Span(1, 60.0, 0.0, 0)) == "1 run, 60 s of traffic, in all 0:01:00"
    assert (
        total(Span(9, 1.0, 2.0, 2))
        == "9 runs, 1 s of traffic, 2 s of pauses, in all 0:00:03, plus 2 runs of unknown length"
    )
