"""Tests the three commands for the twin of a path in real time: this machine's kernel makes the
path.

The hosts are namespaces of this machine, near ─ router ─ far; the router has a token bucket.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ccmix.analysis.comparison import MARGIN
from ccmix.compare.groups import WHOLE
from support.commands import Ccmix

pytestmark = [pytest.mark.lab, pytest.mark.namespaces, pytest.mark.long, pytest.mark.timeout(600)]

RATE_BPS, BUFFER_BYTES = 20e6, 60_000
NAMES = ("near", "router", "far")
PATH = f"""
set -e
for name in $NEAR $ROUTER $FAR; do ip netns add $name; ip -n $name link set lo up; done
ip link add eth0 netns $NEAR type veth peer name west netns $ROUTER
ip link add eth0 netns $FAR type veth peer name east netns $ROUTER
ip -n $NEAR addr add 10.213.8.1/24 dev eth0; ip -n $ROUTER addr add 10.213.8.2/24 dev west
ip -n $FAR addr add 10.213.9.1/24 dev eth0; ip -n $ROUTER addr add 10.213.9.2/24 dev east
for link in $NEAR:eth0 $ROUTER:west $ROUTER:east $FAR:eth0; do
    ip -n ${{link%:*}} link set ${{link#*:}} up
    ip netns exec ${{link%:*}} ethtool -K ${{link#*:}} gro off tso off gso off
done
ip -n $NEAR route add default via 10.213.8.2; ip -n $FAR route add default via 10.213.9.2
ip netns exec $ROUTER sysctl -qw net.ipv4.ip_forward=1
tc -n $ROUTER qdisc add dev east root tbf rate 20mbit burst 3028 limit {BUFFER_BYTES}
"""
INI = """
[DEFAULT]
src = netns:{near}
dst-host = netns:{far}
dst = 10.213.9.1
interval = 100ms
accept-limits = probe, cpu

[path]
type = path
duration = 30s
load-cap = 60mbit

[tests]
type = iperf3
sweep.cca = cubic, reno
duration = 5s
iterations = 3
"""


@pytest.fixture(scope="module")
def hosts() -> Iterator[dict[str, str]]:
    names = {name: f"ccmix-{name}-{os.getpid()}" for name in NAMES}
    variables = {name.upper(): own for name, own in names.items()}
    try:
        subprocess.run(["sh", "-c", PATH], env=os.environ | variables, check=True)
        yield names
    finally:
        for own in names.values():
            subprocess.run(["ip", "netns", "del", own], check=False)


@pytest.fixture(scope="module")
def answers(hosts: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with what the commands wrote: twin.json, compared.json."""
    folder = tmp_path_factory.mktemp("twin")
    (folder / "path.ini").write_text(INI.format(**hosts))
    ccmix, own_state = Ccmix(folder), ("env", f"CCMIX_STATE={folder / 'state'}")
    commands: dict[str, tuple[object, ...]] = {
        "run": ("run", folder / "path.ini", "-o", folder / "real"),
        "twin.json": ("twin", folder / "real", "--format", "json", "-o", folder / "twin.ini"),
        "lab": ("run", folder / "twin.ini", "--lab", "-o", folder / "twin"),
        "compared.json": ("compare", folder / "real", folder / "twin", "--format", "json"),
    }
    for name, words in commands.items():
        done = ccmix(*words, timeout=300, prefix=own_state)
        assert done.returncode == 0, done.stderr
        (folder / name).write_text(done.stdout)
    return folder


@pytest.mark.parametrize(
    ("quantity", "truth", "share"), [("rate", RATE_BPS, 0.05), ("buffer", BUFFER_BYTES, 0.25)]
)
def test_the_path_is_found(quantity: str, truth: float, share: float, answers: Path) -> None:
    [twin] = json.loads((answers / "twin.json").read_text())
    [estimate] = [each for each in twin["estimates"] if each["quantity"] == quantity]
    assert estimate["value"] == pytest.approx(truth, rel=share)


def test_the_twin_answers_as_the_path_does(answers: Path) -> None:
    conditions = json.loads((answers / "compared.json").read_text())["conditions"]
    assert [each["a"]["condition"] for each in conditions] == [{"cca": "cubic"}, {"cca": "reno"}]
    for each in conditions:
        assert each["matched_by"] == "same entry, condition, CCAs and streams"
        [goodput] = [
            tested
            for tested in each["metrics"]
            if (tested["group"], tested["metric"]) == (WHOLE, "goodput_bps")
        ]
        # the verdict also needs a narrow interval, which three runs of a busy machine do not have
        assert goodput["b"]["mean"] == pytest.approx(goodput["a"]["mean"], rel=MARGIN)
