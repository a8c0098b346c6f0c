"""Drives the core of cca/ by synthetic ACKs, and brings a connection into each state by the ACKs
that lead there.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from support.commands import REPOSITORY

DRIVER = REPOSITORY / "tests" / "cca" / "driver.c"
CORE = REPOSITORY / "cca" / "core"
STATES = ("startup", "drain", "down", "cruise", "refill", "up", "probe_rtt")
INFINITE = 0xFFFFFFFF
UNIT = 256
BW_UNIT = 1 << 24
MSS = 1448

State = dict[str, Any]


class Core:
    """A connection. It keeps the counters of a sender, so that a test says only what
    matters to it.
    """

    def __init__(self, driver: subprocess.Popen[str]) -> None:
        self._driver = driver
        self._round = 0
        self.now = self.delivered = self.lost = self.acked_bytes = self.delivered_ce = 0
        self.state: State = {}

    def ask(self, *words: object) -> State:
        assert self._driver.stdin
        assert self._driver.stdout
        self._driver.stdin.write(" ".join(str(word) for word in words) + "\n")
        self._driver.stdin.flush()
        answer = self._driver.stdout.readline()
        assert answer, f"the driver ended at {words}: a sanitizer's report is on standard error"
        found: State = json.loads(answer)
        return found

    def settings(self, which: str, **changes: int) -> State:
        return self.ask("settings", which, *_named(changes))

    def init(
        self,
        which: str = "v3",
        cwnd: int = 10,
        *,
        settings: dict[str, int] | None = None,
        **members: int,
    ) -> State:
        assert not self.settings(which, **(settings or {}))["wrong"]
        self.now = members.setdefault("now_us", 1_000_000)
        self.delivered = members.setdefault("delivered", 0)
        self.lost = members.setdefault("lost", 0)
        self.delivered_ce = 0
        self._round = self.delivered
        return self._keep("init", cwnd, *_named(members))

    def ack(
        self,
        *,
        rate_mbps: float | None = None,
        after_us: int = 1000,
        acked: int = 2,
        new_round: bool = False,
        lost: int = 0,
        ce: int = 0,
        **members: int,
    ) -> State:
        """Sends an ACK.

        `rate_mbps` is the delivery rate over 10 ms; None: the ACK has no rate sample. `new_round`
        says that the packet which it acknowledges was sent after the last ACK, and not before the
        last round.
        """
        self.now += after_us
        self.lost += lost
        self.delivered_ce += ce
        before = self.delivered
        self._round = before + 1 if new_round else self._round
        self.delivered = (self.delivered + acked) % (1 << 32)
        given = {
            "now_us": self.now,
            "delivered": self.delivered,
            "lost": self.lost % (1 << 32),
            "newly_acked": acked,
            "delivered_ce": self.delivered_ce,
            "prior_delivered": (self._round - 1) % (1 << 32),
            "rs_delivered": 0,
            "interval_us": 0,
            "rtt_us": -1,
            "inflight": 100,
            "prior_inflight": members.get("inflight", 100),
            "is_cwnd_limited": 0,
            "is_app_limited": 0,
            "pacing_queue_us": 0,
        }
        if rate_mbps is not None:
            given |= {
                "rs_delivered": max(1, round(rate_mbps * 1e6 / 8 / MSS * 0.01)),
                "interval_us": 10_000,
            }
        return self._keep("ack", *_named(given | members))

    def idle(self, **members: int) -> State:
        self.now = members.setdefault("now_us", self.now)
        return self._keep("idle", *_named(members))

    def event(self, name: str) -> State:
        return self._keep(name)

    def put(self, **members: int) -> State:
        """Writes into the state."""
        if "state" in members:
            members["state"] = int(members["state"])
        return self._keep("set", *_named(members))

    @property
    def phase(self) -> str:
        return STATES[self.state["state"]]

    def _keep(self, *words: object) -> State:
        self.state = self.ask(*words)
        return self.state


def _named(members: dict[str, int]) -> list[str]:
    return [f"{name}={int(value)}" for name, value in members.items()]


def compile_driver(folder: Path, *flags: str) -> Path:
    binary = folder / "driver"
    command: list[str | Path] = [
        "gcc",
        "-std=gnu11",
        "-Wall",
        "-Wextra",
        "-Werror",
        f"-I{CORE}",
        *flags,
        DRIVER,
        "-o",
        binary,
    ]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert not done.returncode, done.stderr
    return binary


# A path of 100 Mbit/s and 20 ms
RATE_MBPS = 100.0
RTT_US = 20_000
SAMPLE = 86  # packets that the path delivers in the 10 ms of a rate sample
BW = SAMPLE * BW_UNIT // 10_000
BDP = 172
FULL = 1000  # packets in flight: more than any target
WAIT_US = 3_000_001  # more than a flow ever waits between two probes


def a_round(core: Core, **members: int) -> State:
    """Sends the ACK that ends a round trip."""
    return core.ack(rate_mbps=RATE_MBPS, new_round=True, **({"rtt_us": RTT_US} | members))


def to_drain(core: Core, which: str = "v3", **settings: int) -> State:
    core.init(which, settings=settings)
    for _ in range(4):
        assert core.phase in ("startup", "down")
        a_round(core, inflight=FULL)
    assert core.phase == "drain"
    return core.state


def to_down(core: Core, which: str = "v3", **settings: int) -> State:
    to_drain(core, which, **settings)
    core.put(inflight_hi=10)  # else the ACK that ends DRAIN ends PROBE_BW down as well
    core.ack(inflight=BDP)
    assert core.phase == "down"
    return core.put(inflight_hi=INFINITE)


def to_cruise(core: Core, which: str = "v3", **settings: int) -> State:
    to_down(core, which, **settings)
    a_round(core, inflight=BDP)
    assert core.phase == "cruise"
    return core.state


def to_refill(core: Core, which: str = "v3", **settings: int) -> State:
    to_cruise(core, which, **settings)
    core.ack(after_us=WAIT_US, rtt_us=RTT_US - 1000)
    assert core.phase == "refill"
    return core.state


def to_up(core: Core, which: str = "v3", **settings: int) -> State:
    to_refill(core, which, **settings)
    a_round(core)
    assert core.phase == "up"
    return core.state
