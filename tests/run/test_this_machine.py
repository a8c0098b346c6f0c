"""Tests `ccmix run` without the lab, on a machine with root and netem: the machine is a guest of
the lab.

The kernel, its namespaces and qdiscs are real; the hardware is not, and time is virtual.
"""

from pathlib import Path

import pytest

from support.commands import CCMIX, Ccmix, deep

pytestmark = pytest.mark.lab

MEMORY_MIB = 3000  # the harness with all its libraries runs inside

# All sorts of traffic, on a path of several hosts that changes
LINES = """
[topology lines]
rate = 50mbit
qdisc = codel ecn ce_threshold 2ms
ecn = on
host.near = delay 5ms jitter 1ms
host.far = delay 20ms rate 20mbit loss 0.1%
at.2s = near delay 10ms
at.3s = rate 40mbit

[lines]
type = iperf3
topology = lines
duration = 4s
flows.bulk = near cubic:1,dctcp:1
flows.noise = far udp@1M+1s
flows.web = near http requests 20 size 10kb parallel 2
flows.load = far workload web-search rate 1mbit
flows.server = near-receiver command iperf3 -s -p 9999
flows.tool = near command sleep 1; exec iperf3 -c {dst} -p 9999 -b 1M -t 2
"""

# Everything is left as it was: these print nothing else before and after a run.
STATE = """
ip netns list
sysctl net.ipv4.tcp_mem net.core.netdev_max_backlog
"""


def printed_in_guest(ccmix: Ccmix, tmp_path: Path, commands: str) -> str:
    """Returns the output of the shell commands in a guest whose root is this machine's."""
    file = tmp_path / "script.sh"
    file.write_text(f"set -u\n{commands}")
    guest = ("lab", "exec", "--host-root", "--memory", MEMORY_MIB)
    return ccmix(*guest, "--", "sh", file, status=0).stdout


def test_a_campaign_leaves_the_machine_as_it_was(
    ccmix: Ccmix, small_ini: Path, tmp_path: Path
) -> None:
    small_ini.write_text(small_ini.read_text() + LINES)
    commands = (
        f"{STATE} echo RUN\n{CCMIX} run {small_ini} -o out || exit\necho AFTER\n{STATE} "
        "ls $CCMIX_STATE\n"
    )
    printed = printed_in_guest(ccmix, tmp_path, commands)
    before, _, rest = printed.partition("RUN\n")
    during, _, after = rest.partition("AFTER\n")
    assert "3 runs valid, 0 not valid, 0 failed" in during
    for group in ("bulk cubic", "bulk dctcp", "noise", "web", "load", "tool"):
        assert f"│ {group} " in during
    assert "net.ipv4.tcp_mem" in before
    assert after == before


@pytest.mark.parametrize("how", ["restore", deep("next run")])
def test_a_killed_run_is_put_back(how: str, ccmix: Ccmix, small_ini: Path, tmp_path: Path) -> None:
    """Kills the harness and the measuring process with kill -9 in the middle of the traffic."""
    put_back = (
        f"{CCMIX} restore" if how == "restore" else f"{CCMIX} run {small_ini} -o again >/dev/null"
    )
    commands = f"""
{STATE} echo RUN
setsid {CCMIX} run {small_ini} -o out 2>/dev/null &
harness=$!
until ls out/*/*/*/*/logs/run.sockmon >/dev/null 2>&1; do sleep 0.1; done
sleep 1
for process in /proc/[0-9]*; do
    if tr '\\0' ' ' <$process/cmdline 2>/dev/null | grep -q ccmix.run.measure; then
        kill -9 ${{process#/proc/}}
    fi
done
kill -9 $harness
sleep 1
echo KILLED
ip netns list
echo BACK
{put_back}
echo AFTER
{STATE} ls $CCMIX_STATE
"""
    printed = printed_in_guest(ccmix, tmp_path, commands)
    before, _, rest = printed.partition("RUN\n")
    killed, _, rest = rest.partition("KILLED\n")[2].partition("BACK\n")
    back, _, after = rest.partition("AFTER\n")
    assert "ccmix-bottleneck" in killed
    assert "restored" in back
    assert after == before
