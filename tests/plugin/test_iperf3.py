"""Tests a server whose iperf3 is ended by a signal. Stand-ins print output that iperf3 gives only
once in hundreds of tries.
"""

import json
import time
from pathlib import Path

import pytest

from iperf3mix import agreement, ends, spec
from support.plugin_runner import check, throughput

TOKEN = "a token"
SAID = {
    "start": {"test_start": {"num_streams": 2}},
    "extra_data": TOKEN,
    "error": "the client has terminated",
}


@pytest.mark.parametrize(
    ("on_signal", "error"),
    [
        (":", "iperf3 had to be killed when its slot ended: it left no result"),
        (
            f"echo {json.dumps(json.dumps(SAID))}; " * 2 + "exit 1",
            "the test didn't end before its slot: if the path has a longer round-trip time than "
            "link-rtt, give that",
        ),
    ],
    ids=["hangs", "says all twice"],
)
def test_a_stand_in_that_is_ended_by_a_signal(tmp_path: Path, on_signal: str, error: str) -> None:
    program = tmp_path / "iperf3"
    program.write_text(
        f"#!/bin/sh\ntrap '{on_signal}' TERM\nfor _ in $(seq 50); do sleep 0.1; done\n"
    )
    program.chmod(0o755)
    now = time.time()
    result = ends.run_server(
        spec.read(throughput()),
        agreement.Agreement(5201, TOKEN),
        agreement.RunSlot(now, now + 1),
        str(program),
    )
    check(result, "result")
    assert not result["succeeded"]
    assert result["error"] == error
