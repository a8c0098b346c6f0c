"""Tests changes of an emulated path: failures are reported, and counters come from tc's output."""

import json
import time
from typing import Any, cast

import pytest

from ccmix.conditions.dumbbell import Dumbbell
from ccmix.conditions.tc import qdisc_counters
from ccmix.conditions.timeline import Timeline
from ccmix.hosts import Host
from ccmix.model import Buffer, RateChange
from support.model import one_sender

PATH = one_sender(
    1e8, 0.005, None, Buffer(1.0, "bdp"), 1500, offloads=False, changes=(RateChange(0.001, 5e7),)
)
QDISC = {
    "kind": "tbf",
    "handle": "1:",
    "root": True,
    "options": {"rate": 12500000, "limit": 50},
    "bytes": 5,
    "packets": 1,
    "drops": 0,
    "backlog": 0,
    "qlen": 0,
}


class PretendedTc:
    """A host whose tc reports one queue discipline."""

    name = "h1"

    def __init__(self, qdisc: dict[str, Any]) -> None:
        self._qdisc = qdisc

    def run(self, argv: list[str]) -> str:
        return json.dumps([self._qdisc])


@pytest.mark.parametrize(("device", "reported"), [("east", {}), (None, {"dev": "east"})])
def test_tc_leaves_out_the_device_that_it_is_asked_for(
    device: str | None, reported: dict[str, str]
) -> None:
    [counters] = qdisc_counters(cast("Host", PretendedTc(QDISC | reported)), device)
    assert (counters.device, counters.rate_bytes_per_s, counters.limit) == ("east", 12500000, 50)


def test_what_only_one_kind_counts_is_kept() -> None:
    marking = QDISC | {"kind": "codel", "overlimits": 3, "ce_mark": 7, "drop_overlimit": 0}
    [counters] = qdisc_counters(cast("Host", PretendedTc(marking)), "east")
    assert json.loads(counters.statistics) == {"overlimits": 3, "ce_mark": 7, "drop_overlimit": 0}


def test_an_error_of_any_kind_is_reported_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def make(*_: object) -> None:
        raise KeyError("dev")

    monkeypatch.setattr(Timeline, "_make", make)
    with pytest.raises(KeyError, match="dev"), Timeline(PATH, cast("Dumbbell", None)).running(0.0):
        time.sleep(0.2)
