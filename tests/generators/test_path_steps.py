"""Tests which steps measure a path, and for how long: later steps depend on earlier results."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ccmix.agent.deadline import Deadline
from ccmix.generators.iperf3 import Iperf3Ends
from ccmix.generators.path_steps import PathSteps, _burst_suffix, _StepResult, above_s
from ccmix.model import run_files

DATAGRAM_BYTES, WIRE_BYTES = 1472, 1514


@dataclass
class Faked:
    """Stands for the path and its steps: one queue, in which other flows lose packets in
    proportion.
    """

    steps: PathSteps
    rate_bps: float
    cross_bps: float
    made: list[tuple[str, float, int]] = field(default_factory=list)

    def udp(
        self,
        name: str,
        offered_bps: float,
        streams: int,
        seconds: int,
        *_: int,
    ) -> _StepResult:
        self.made.append((name, offered_bps, seconds))
        share = min(1.0, self.rate_bps / (offered_bps + self.cross_bps))
        return _StepResult(offered_bps * share * DATAGRAM_BYTES / WIRE_BYTES, 0.02, None)


def faked(
    monkeypatch: pytest.MonkeyPatch, rate_bps: float = 100e6, cross_bps: float = 0.0
) -> Faked:
    ends = Iperf3Ends(None, "", None, "", "")  # type: ignore[arg-type]
    fake = Faked(
        PathSteps(ends, None, 10 * rate_bps, 60.0, Path(), "path", ""), rate_bps, cross_bps
    )  # type: ignore[arg-type]
    monkeypatch.setattr(fake.steps, "_udp", fake.udp)
    monkeypatch.setattr(fake.steps, "_rtt_s", 0.02)
    return fake


def test_many_streams_look_for_others_where_two_rates_get_as_much_through(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake = faked(monkeypatch)
    fake.steps._above(100e6)
    assert [name for name, *_ in fake.made] == ["above-1", "above-2", "share"]


def test_a_rate_that_others_leave_is_looked_for_where_more_gets_through_of_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake = faked(monkeypatch, cross_bps=20e6)
    fake.steps._above(80e6)
    assert [name for name, *_ in fake.made] == [
        "above-1",
        "above-2",
        *(f"available-{number}" for number in (1, 2, 3)),
    ]
    assert fake.made[1][1] > 3 * 100e6
    came_of_the_first = 100e6 * 120 / 140
    assert fake.made[2] == ("available-1", pytest.approx(came_of_the_first), 2)


@pytest.mark.parametrize("reached_bps", [60e6, 79e6, 92e6])
def test_what_others_leave_is_found_by_a_rate_of_which_a_little_is_lost(
    monkeypatch: pytest.MonkeyPatch, reached_bps: float
) -> None:
    fake = faked(monkeypatch, cross_bps=20e6)
    fake.steps._available(reached_bps, 95e6)
    assert len(fake.made) <= 3
    assert 80e6 < fake.made[-1][1] < 86e6


def test_the_search_for_what_others_leave_offers_no_rate_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake = faked(monkeypatch, cross_bps=20e6)
    monkeypatch.setattr(fake.steps, "_most_bps", 60e6)
    fake.steps._available(50e6, 60e6)
    assert [offered_bps for _, offered_bps, _ in fake.made] == [pytest.approx(55e6), 60e6]


def test_the_search_for_what_others_leave_leaves_time_for_the_last_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake = faked(monkeypatch, cross_bps=20e6)
    monkeypatch.setattr(fake.steps, "_end", Deadline(9))
    fake.steps._available(79e6, 95e6)
    assert fake.made == []


def test_the_step_below_sends_so_many_packets_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = faked(monkeypatch, rate_bps=10e9)
    monkeypatch.setattr(fake.steps, "_end", Deadline(30))
    fake.steps._below(10e9)
    [(name, offered_bps, seconds)] = fake.made
    assert name == "below"
    assert offered_bps * seconds / 8 / WIRE_BYTES == pytest.approx(250_000)


@dataclass
class Asked:
    """Stands for ccmix-rtt on the sender: keeps its options, and ends with a status."""

    status: int = 0
    options: Sequence[str] = ()

    @contextmanager
    def __call__(self, options: Sequence[str], *, stdout: Path, stderr: Path) -> Iterator["Asked"]:
        self.options = options
        stderr.write_text("rtt: no ICMP for this user\n")
        yield self

    def wait(self, timeout_s: float) -> int:
        return self.status

    @property
    def bps(self) -> float:
        """Returns the bytes that the trains send, with all headers."""
        rate, train, size = (int(option.partition("=")[2]) for option in self.options[:3])
        return rate * train * (size + 28 + 14) * 8


def trains(asked: Asked, reached_bps: float, folder: Path) -> dict[str, object]:
    """Makes the step, and returns its part of steps.json."""
    ends = Iperf3Ends(None, "", None, "", "")  # type: ignore[arg-type]
    steps = PathSteps(ends, asked, 1e9, 60.0, folder, "path", "")  # type: ignore[arg-type]
    steps._trains("trains", 8, 0.1 * reached_bps, 0.05)
    [step] = json.loads((folder / run_files.STEPS).read_text())
    return dict(step)


@pytest.mark.parametrize(("reached_bps", "share"), [(10e6, 0.1), (30e6, 0.1), (1e9, 0.005)])
def test_trains_take_a_tenth_of_the_rate_at_most(
    reached_bps: float, share: float, tmp_path: Path
) -> None:
    asked = Asked()
    assert trains(asked, reached_bps, tmp_path)["failed"] is None
    assert 0.8 * share * reached_bps < asked.bps <= share * reached_bps


def test_trains_that_fail_are_recorded_and_end_nothing(tmp_path: Path) -> None:
    assert (
        trains(Asked(status=1), 10e6, tmp_path)["failed"]
        == "ccmix-rtt's exit status 1: rtt: no ICMP for this user"
    )


def test_a_path_is_too_slow_for_trains_that_would_take_more(tmp_path: Path) -> None:
    asked = Asked()
    assert trains(asked, 500e3, tmp_path)["failed"] == "the path is too slow for trains"
    assert asked.options == ()


@pytest.mark.parametrize(
    ("packets_a_second", "rtt_s", "seconds"),
    [(8000, 0.02, 4), (25_000, 0.02, 4), (200_000, 0.02, 1), (200_000, 0.1, 2)],
)
def test_a_step_above_the_rate_takes_less_time_where_many_packets_are_seen_soon(
    packets_a_second: float, rtt_s: float, seconds: int
) -> None:
    assert above_s(packets_a_second, rtt_s, 60.0) == seconds


@pytest.mark.parametrize(
    ("packets_a_second", "most", "words"),
    [(9999, 64, ""), (10_000, 64, "/5"), (300_000, 64, "/64"), (20_000, 4, "/4")],
)
def test_iperf3_hands_packets_over_together_only_where_they_are_many(
    packets_a_second: float, most: int, words: str
) -> None:
    assert _burst_suffix(packets_a_second, most) == words
