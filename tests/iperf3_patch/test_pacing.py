"""Tests the shares of paced groups in a guest of the lab, whose virtual time does not depend on
the machine.
"""

import asyncio
import json
from pathlib import Path

import pytest

from ccmix.lab import GuestSpec, run_guest
from ccmix.run.machines import GUEST_ENVIRONMENT
from ccmix.tools import find_kernel
from support.commands import long

pytestmark = pytest.mark.lab

# $1 is the iperf3, $2 the address, the rest the client's arguments. Port 5201 is 1451 in the
# kernel's table.
SCRIPT = """
"$1" -s -1 -J >server.json &
until grep -q ':1451 0*:0000 0A' /proc/net/tcp /proc/net/tcp6; do sleep 0.01; done
iperf3=$1 address=$2
shift 2
"$iperf3" -c "$address" -J "$@" >client.json && wait $!
"""
SHARE_BPS = 8_000_000


@pytest.mark.parametrize("direction", [(), ("-R",), ("--bidir",)], ids=["forward", "-R", "bidir"])
@pytest.mark.parametrize("address", [long("127.0.0.1"), "::1"])
@pytest.mark.parametrize("streams", [*(long(n) for n in (1, 2, 16)), 3, 128])
def test_shares(
    iperf3: str, tmp_path: Path, direction: tuple[str, ...], address: str, streams: int
) -> None:
    """The streams of the second group send at twice the rate of the first group's, because of their
    pacing.
    """
    spec = f"cubic@{SHARE_BPS},bbr@{2 * SHARE_BPS}"
    # a block is counted when it is whole: small ones, so that what is missing of the last one
    # doesn't matter
    client = ("-t", "3", "-O", "1", "-l", "4K", "-C", spec, "-P", str(streams), *direction)
    guest = GuestSpec(
        argv=("sh", "-c", SCRIPT, "sh", iperf3, address, *client),
        job_dir=tmp_path,
        memory_bytes=1 << 30,
        seed=1,
        environment=GUEST_ENVIRONMENT,
    )
    got = asyncio.run(run_guest(find_kernel(), guest))
    assert got.exit_status == 0, got.console
    ends = [
        json.loads((tmp_path / f"{side}.json").read_text())["end"] for side in ("client", "server")
    ]
    directions = [[g for g in end["groups"] if not g["sender"]["sender"]] for end in ends]
    assert [bool(groups) for groups in directions] == [bool(direction), direction != ("-R",)]
    for groups in filter(None, directions):
        assert [g["streams"] for g in groups] == [
            n for n in ((streams + 1) // 2, streams // 2) if n
        ]
        each = [g["receiver"]["bits_per_second"] / g["streams"] for g in groups]
        # goodput, and headers make up to 0.2 % at the loopback's MTU
        assert each[0] == pytest.approx(SHARE_BPS, rel=0.03)
        if len(each) == 2:
            assert each[1] / each[0] == pytest.approx(2, rel=0.03)
