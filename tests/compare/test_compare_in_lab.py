"""Compares campaigns that the lab really ran: another seed makes no difference, twice the loss does."""

import json
from pathlib import Path
from typing import Any

import pytest

from support.commands import Ccmix

pytestmark = [pytest.mark.lab, pytest.mark.deep]

CAMPAIGN = """
[DEFAULT]
type = iperf3
duration = 6s

[topology path]
rate = 20mbit
delay = 10ms
spread = off

[topology lossy-path]
rate = 20mbit
delay = 10ms
loss = {loss}

[full]
topology = path
omit = 1s
iterations = 3

[lossy]
topology = lossy-path
iterations = 6
"""


@pytest.fixture(scope="module")
def campaigns(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Makes campaigns by name: the first, the same with another seed, the same with
    twice the loss.
    """
    folder = tmp_path_factory.mktemp("campaigns")
    ccmix = Ccmix(folder)
    made = {}
    for name, loss, seed in (("first", "0.4%", 1), ("again", "0.4%", 2), ("doubled", "0.8%", 3)):
        config, made[name] = folder / f"{name}.ini", folder / name
        config.write_text(CAMPAIGN.format(loss=loss))
        done = ccmix("run", config, "--lab", "--seed", seed, "-o", made[name])
        assert done.returncode == 0, done.stderr
    return made


def compared(ccmix: Ccmix, a: Path, b: Path) -> dict[str, Any]:
    done = ccmix("compare", a, b, "--format", "json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def verdicts(found: dict[str, Any]) -> dict[str, str]:
    return {one["a"]["entry"]: one["verdict"] for one in found["conditions"]}


def test_another_seed_is_no_difference(campaigns: dict[str, Path], ccmix: Ccmix) -> None:
    found = compared(ccmix, campaigns["first"], campaigns["again"])
    assert found["differences"] == []
    assert (
        verdicts(found)["full"] == "can't tell"
    )  # nothing random happens: of each there is one observation
    assert verdicts(found)["lossy"] != "different"
    [full, _] = found["conditions"]
    assert full["matched_by"] == "same entry, condition, CCAs, streams and destination"
    assert (full["metrics"][0]["a_alike"], full["metrics"][0]["b_alike"]) == (True, True)
    assert full["metrics"][0]["found"]["ratio"] == pytest.approx(1, abs=0.01)


def test_twice_the_loss_is_different_by_about_the_root_of_two(
    campaigns: dict[str, Path], ccmix: Ccmix
) -> None:
    """CUBIC behaves like Reno if the BDP is small: its rate is proportional to 1 / sqrt(p)."""
    found = compared(ccmix, campaigns["first"], campaigns["doubled"])
    assert [one["what"] for one in found["differences"]] == ["loss"]
    assert verdicts(found) == {"full": "can't tell", "lossy": "different"}
    [_, lossy] = found["conditions"]
    low, high = lossy["metrics"][0]["found"]["interval"]
    assert low < 0.5**0.5 < high < 1
