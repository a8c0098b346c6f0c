"""Compares a campaign of the lab with the range of another campaign, whose file names unknown keys."""

import json

import pytest

from support.commands import Ccmix

pytestmark = pytest.mark.lab

PATH = """\
[topology path]
rate = 5mbit
delay = 10ms
buffer = 1bdp
loss = 0.3%

[one]
type = iperf3
topology = path
duration = 3s
iterations = 3
"""
TWIN = PATH + "sweep.buffer = 1bdp, 4bdp\nunknown = buffer\n"


def test_a_campaign_keeps_what_its_file_names_unknown(ccmix: Ccmix) -> None:
    outdirs = []
    for name, text, seed in (("path", PATH, 1), ("twin", TWIN, 2)):
        (ccmix.folder / f"{name}.ini").write_text(text)
        outdirs.append(ccmix.folder / name)
        done = ccmix(
            "run", ccmix.folder / f"{name}.ini", "--lab", "--seed", seed, "-o", outdirs[-1]
        )
        assert done.returncode == 0, done.stderr
    said = ccmix("report", outdirs[-1]).stderr
    assert "one: buffer is not known, so conditions that differ only in it are one range" in said
    found = json.loads(ccmix("compare", *outdirs, "--format", "json").stdout)
    [one] = found["ranges"]
    assert (one["unknown"], one["verdict"], found["conditions"]) == (["buffer"], "in the range", [])
