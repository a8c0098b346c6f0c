"""Tests in the lab that the verdict sees one flow that a host limits among many, and a sender
without data.
"""

from pathlib import Path

import pytest

from ccmix.model.results import Verdict
from ccmix.run.machines import EmulationPrograms
from ccmix.tools import find_iperf3, find_rtt, find_sockmon
from support.lab_runs import make_in_lab, planned

pytestmark = pytest.mark.lab

PATH = """
[topology long]
host-root = on
rate = 200mbit
delay = 20ms
buffer = 1bdp
[DEFAULT]
duration = 3s
omit = 1s
"""
# A window of the receiver for one flow, which iperf3 gives to all flows of a test alike: so it is a
# test of its own
ONE_OF_64 = """
[many]
type = iperf3
topology = long
flows.many = h1 cubic:63
flows.server = receiver command {iperf3} --server --one-off --port 7000
flows.narrow = h1 command sleep 0.3; {iperf3} -c {{dst}} -p 7000 -t 4 -w {window}
interval = 100ms
"""
PLAIN = "[one]\ntype = iperf3\ntopology = long\ncca = cubic\nstreams = 2\ninterval = 100ms\n"


def verdict(ini: str, folder: Path, iperf3: Path | None = None) -> Verdict:
    [run] = planned(PATH + ini, folder)
    programs = EmulationPrograms(iperf3 or find_iperf3(), find_sockmon(), find_rtt())
    return make_in_lab(run, folder / "out", programs=programs).finished.verdict


@pytest.mark.parametrize(("window", "kinds"), [("4K", {"receiver-window"}), ("4M", set())])
def test_one_flow_of_64_that_its_host_limits(window: str, kinds: set[str], tmp_path: Path) -> None:
    result = verdict(ONE_OF_64.format(window=window, iperf3=find_iperf3()), tmp_path)
    assert {finding.kind for finding in result.findings} == kinds, result


@pytest.mark.parametrize(("rate", "kinds"), [("1M", {"application"}), ("0", set())])
def test_a_sender_that_has_less_data_than_the_path_takes(
    rate: str, kinds: set[str], tmp_path: Path
) -> None:
    """Replaces iperf3 by a script that sends at its own rate; 0 means no limit."""
    slow = tmp_path / "iperf3"
    slow.write_text(
        f'#!/bin/sh\ncase "$*" in *--client*) set -- "$@" -b {rate};; esac\nexec {find_iperf3()} '
        '"$@"\n'
    )
    slow.chmod(0o755)
    result = verdict(PLAIN, tmp_path, slow)
    assert {finding.kind for finding in result.findings} == kinds, result
