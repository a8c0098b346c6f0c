"""Tests how trains of packets are read from ccmix-rtt's output: gaps, and the results of long
trains.
"""

from pathlib import Path

import pytest

from ccmix.analysis.step_tables import StepResult, bursts_of, gaps_of, step_rows
from ccmix.generators.path_steps import BURST_PACKETS, BURSTS, TRAIN_PACKETS, TRAINS, Step
from ccmix.generators.results import GeneratorError

SENT_NS, RTT_NS, GAP_NS = 1_795_709_177_538_706_487, 20_000_123, 7_211


def lines(*arrivals: tuple[int, int | None], packets: int = TRAIN_PACKETS) -> str:
    """Returns the output for questions by number, each sent when its train begins and answered
    after these nanoseconds.
    """
    rows = ["time_s,sequence,rtt_s"]
    for number, rtt_ns in arrivals:
        sent_ns = SENT_NS + number // packets * 10**8
        answered = "" if rtt_ns is None else f"{rtt_ns // 10**9}.{rtt_ns % 10**9:09}"
        rows.append(f"{sent_ns // 10**9}.{sent_ns % 10**9:09},{number},{answered}")
    return "\n".join(rows) + "\n"


def test_gaps_are_exact_and_begin_behind_the_second_packet(tmp_path: Path) -> None:
    """A bucket of two packets lets the first two pass at once. A float since 1970 would lose 0.2
    us.
    """
    output = tmp_path / "trains.csv"
    arrivals = [
        (n, RTT_NS + max(n % TRAIN_PACKETS - 1, 0) * GAP_NS) for n in range(2 * TRAIN_PACKETS)
    ]
    output.write_text(lines(*arrivals))
    gaps = gaps_of(output)
    assert gaps.height == 2 * (TRAIN_PACKETS - 2)
    assert gaps["gap_s"].to_list() == pytest.approx([GAP_NS / 1e9] * gaps.height, rel=1e-9)


def test_a_packet_without_an_answer_leaves_no_gap(tmp_path: Path) -> None:
    output = tmp_path / "trains.csv"
    output.write_text(
        lines(*((n, None if n == 4 else RTT_NS + n * GAP_NS) for n in range(TRAIN_PACKETS)))
    )
    assert gaps_of(output).height == TRAIN_PACKETS - 2 - 2


def test_missed_trains_leave_no_gap(tmp_path: Path) -> None:
    output = tmp_path / "trains.csv"
    output.write_text(lines((1, RTT_NS), (5 * TRAIN_PACKETS + 2, RTT_NS)))
    assert gaps_of(output).height == 0


@pytest.mark.parametrize(
    "text", ["", "rtt: no way\n", "time_s,sequence,rtt_s\nx,y,z\n", "time_s,sequence\n1.0,1\n"]
)
def test_what_is_no_output_is_an_error(text: str, tmp_path: Path) -> None:
    (tmp_path / "trains.csv").write_text(text)
    with pytest.raises(GeneratorError, match=r"trains\.csv"):
        gaps_of(tmp_path / "trains.csv")
    with pytest.raises(GeneratorError, match=r"trains\.csv"):
        bursts_of(tmp_path / "trains.csv")


def test_rows_of_a_step_are_its_gaps(tmp_path: Path) -> None:
    output = tmp_path / "trains.csv"
    output.write_text(lines(*((n, RTT_NS + n * GAP_NS) for n in range(TRAIN_PACKETS))))
    step = Step(
        TRAINS,
        "path-trains",
        3,
        datagram_bytes=1472,
        began_s=SENT_NS / 1e9,
        ended_s=SENT_NS / 1e9 + 3,
    )
    rows = step_rows([StepResult(step, gaps=gaps_of(output))], SENT_NS / 1e9 - 5)
    assert rows["step"].unique().to_list() == ["trains"]
    assert rows["packet_bytes"].unique().to_list() == [1514]
    assert rows["time_s"].to_list() == pytest.approx([5.02] * rows.height, abs=1e-3)
    assert rows["seconds"].to_list() == pytest.approx([GAP_NS / 1e9] * rows.height, rel=1e-9)


def long_trains(folder: Path, *lost: set[int]) -> Path:
    """Writes long trains, each with some lost packets; the other packets leave one after
    the other.
    """
    output, arrivals = folder / "bursts.csv", []
    for number, of_train in enumerate(lost):
        came = [position for position in range(BURST_PACKETS) if position not in of_train]
        at = {position: RTT_NS + max(rank - 1, 0) * GAP_NS for rank, position in enumerate(came)}
        arrivals += [
            (number * BURST_PACKETS + position, at.get(position))
            for position in range(BURST_PACKETS)
        ]
    output.write_text(lines(*arrivals, packets=BURST_PACKETS))
    return output


def test_of_long_trains_it_counts_what_came_before_and_after_losses(tmp_path: Path) -> None:
    every = set(range(BURST_PACKETS))
    rows = bursts_of(
        long_trains(tmp_path, every - {0, 1, 2}, every - {0, 1, 62, 63}, {5, 20}, set(), every)
    )
    found = rows.select("lost", "before_loss", "after_loss").rows()
    assert found == [(61, 3, 0), (60, 2, 2), (2, 5, 43), (0, 64, 64), (64, 0, 0)]
    apart_s = [count * GAP_NS / 1e9 for count in (1, 2, 60, 62, 0)]
    assert rows["seconds"].to_list() == pytest.approx(apart_s, rel=1e-9)


def test_rows_of_long_trains_have_their_losses(tmp_path: Path) -> None:
    output = long_trains(tmp_path, set(range(10, BURST_PACKETS)))
    step = Step(
        BURSTS,
        "path-bursts",
        3,
        datagram_bytes=1472,
        began_s=SENT_NS / 1e9,
        ended_s=SENT_NS / 1e9 + 3,
    )
    [row] = step_rows([StepResult(step, bursts=bursts_of(output))], SENT_NS / 1e9 - 5).to_dicts()
    counted = {
        name: row[name]
        for name in ("received_bytes", "packets", "lost_packets", "before_loss", "after_loss")
    }
    assert counted == {
        "received_bytes": 14_720,
        "packets": 64,
        "lost_packets": 54,
        "before_loss": 10,
        "after_loss": 0,
    }
    assert row["time_s"] == pytest.approx(5.0, abs=1e-3)


def test_what_a_step_offered_is_what_its_sender_counted() -> None:
    """If a sender is slow, the rate that was asked for would show loss. If the sender counted
    nothing, that rate counts.
    """
    step = Step(
        "available-1", "path-available-1", 2, 1, offered_bps=10e6, datagram_bytes=1472, ended_s=2.0
    )
    sent = {"end": {"sum_sent": {"bytes": 2_300_000, "seconds": 2.0}}}
    slow, unknown = (
        step_rows([StepResult(step, client, {})], 0.0)["offered_bps"][0] for client in (sent, {})
    )
    assert slow == pytest.approx(9.2e6 * 1514 / 1472)
    assert unknown == 10e6
