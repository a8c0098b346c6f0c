"""Measures a path in steps, most of them tests with the patched iperf3
(docs/reference/path-steps.md).

Later steps depend on the results of earlier steps. ccmix.twin evaluates the results; here a result
only determines the rate of the next step. This module uses only the standard library, because it
runs in guests.
"""

import json
import math
import shlex
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from ccmix.agent.deadline import Deadline
from ccmix.generators import iperf3
from ccmix.generators.results import GeneratorError, load_json
from ccmix.hosts import Process
from ccmix.hosts.errors import CommandError, HostLost
from ccmix.hosts.output_text import last_line
from ccmix.model import Command, run_files

IDLE, REACH, TRAINS, BURSTS, ABOVE = "idle", "reach", "trains", "bursts", "above"
AVAILABLE, SHARE, FILL, BELOW = "available", "share", "fill", "below"
# Shares of the whole time; the last step takes what is left
IDLE_SHARE, REACH_SHARE, TRAINS_SHARE, BURSTS_SHARE = 1 / 10, 1 / 9, 1 / 30, 1 / 30
ABOVE_SHARE, AVAILABLE_SHARE, FILL_SHARE = 1 / 15, 1 / 30, 1 / 6
LEAST_BELOW_S = 8  # other steps are left out if less time is left for this step
REACHING, FILLING = 4, 8  # streams
FIRST_ABOVE, MORE_ABOVE, LESS_ABOVE, MOST_ABOVE, STEEP = (
    1.5,
    2.2,
    1.3,
    4.0,
    1.8,
)  # offered rate, relative to the arriving rate
OTHERS_LOST = 0.01  # share by which less arrives at one rate than at the other
FIRST_AVAILABLE, MORE_AVAILABLE = (
    1.1,
    1.12,
)  # offered rate, relative to TCP's rate, and to a rate that arrived without loss
LEAST_LOST, MOST_LOST = (
    0.015,
    0.05,
)  # of a rate a little above the available rate; less loss may be random
AVAILABLE_TRIES = 3
NOT_OVERLOADED = 0.93  # of the offered rate arrives: a usable path loses less
MOST_TRIES = 5  # to find a rate above the path's rate
SHARING = 16  # streams above the rate: with a queue for each flow they leave little to others
PART_BELOW = 0.25  # of the rate
UDP_HEADERS_BYTES, ETHERNET_BYTES = 28, 14
TCP_HEADERS_BYTES = 40  # of IPv4 and TCP, without options
TIMESTAMPS_BYTES = 12
ENOUGH_PACKETS, ENOUGH_RTTS = 100_000, 20  # of a step above the rate: a faster path needs less time
MOST_BELOW_PACKETS = 250_000
OFTEN_A_SECOND, SLEEPS_A_SECOND = (
    10_000,
    2_000,
)  # packets per second from which on iperf3 sends several before it sleeps; its sleeps then
MOST_TOGETHER, MOST_TOGETHER_BELOW = 64, 4
TRAIN_PACKETS, BURST_PACKETS, MOST_TRAINS_A_SECOND = 8, 64, 50
PART_IN_TRAINS, PART_IN_BURSTS = 0.1, 0.2  # of what reached
LEAST_ANSWERED_S, ANSWERED_WITHIN_RTTS, ANSWERED_WITHIN_S = 0.25, 16, 2.0
PACED_ABOVE = 1.1  # the bit rate: room for the headers, which fq counts too
UDP_INTERVAL_S, TCP_INTERVAL_S = 0.01, 0.1
STARTS_WITHIN_S, STARTS_WITHIN_RTTS = 4.0, 20
LOOKS_EACH_S = 0.05
UNKNOWN_RTT_S = 0.5
ENDS_WITHIN_RTTS = 16  # of the control connection
ENDS_WITHIN_S = 20.0


@dataclass(frozen=True)
class Step:
    """Describes a step. Times are wall clock times. `offered_bps` includes Ethernet headers, and is
    None for TCP.

    `label` names the step's files in generators/; `failed` is the reason if it has no result.
    """

    name: str
    label: str
    seconds: int
    streams: int = 0
    cca: str | None = None
    offered_bps: float | None = None
    datagram_bytes: int | None = None
    began_s: float = 0.0
    ended_s: float = 0.0
    failed: str | None = None


@dataclass(frozen=True)
class _Seen:
    """Holds the result of a step for the next steps; `received_bps` is the mean of the second half,
    without headers.
    """

    received_bps: float
    rtt_s: float | None
    mss_bytes: int | None


class Asking(Protocol):
    """Starts ccmix-rtt on the sender, which probes the receiver until the context ends."""

    def __call__(
        self, options: Sequence[str], *, stdout: Path, stderr: Path
    ) -> AbstractContextManager[Process]: ...


class PathSteps:
    """Runs the steps, and leaves their results and steps.json in a folder."""

    lead_s = 0.0

    def __init__(
        self,
        ends: iperf3.Iperf3Ends,
        ask: Asking,
        most_bps: float,
        total_s: float,
        folder: Path,
        label: str,
        pid_file: str,
    ) -> None:
        """Prepares the steps. `ask` starts ccmix-rtt on the sender, `most_bps` is the maximum rate
        of a step, `pid_file` is a path on the sender.
        """
        self._ends = ends
        self._ask = ask
        self._most_bps = most_bps
        self._total_s = total_s
        self._folder = folder
        self._label = label
        self._pid_file = pid_file
        self._rtt_s = UNKNOWN_RTT_S
        self._done: list[Step] = []
        self._commands: list[Command] = []

    def serve(self, started: ExitStack) -> None:
        """Does nothing, because each step starts its own server."""

    def start(self, started: ExitStack) -> None:
        """Does nothing: finish() makes the steps, when all other traffic has begun."""

    def finish(self, end: Deadline) -> None:
        """Makes all steps, until `end`. Raises GeneratorError or CommandError if not even TCP gets
        through.
        """
        self._idle(round(self._total_s * IDLE_SHARE))
        reached = self._tcp(
            REACH, self._reaching_cca(), REACHING, round(self._total_s * REACH_SHARE)
        )
        if reached is None:
            raise GeneratorError(f"no TCP test over the path: {self._done[-1].failed}")
        self._rtt_s = reached.rtt_s or self._rtt_s
        datagram_bytes = (
            (reached.mss_bytes or 1448) + TIMESTAMPS_BYTES + TCP_HEADERS_BYTES - UDP_HEADERS_BYTES
        )
        trains_bps = min(reached.received_bps, self._most_bps)
        self._trains(
            TRAINS, TRAIN_PACKETS, PART_IN_TRAINS * trains_bps, datagram_bytes, TRAINS_SHARE
        )
        self._trains(
            BURSTS, BURST_PACKETS, PART_IN_BURSTS * trains_bps, datagram_bytes, BURSTS_SHARE
        )
        rate_bps = self._above(reached.received_bps, datagram_bytes, end)
        if end.allows(self._fill_s + LEAST_BELOW_S + 2 * ENDS_WITHIN_RTTS * self._rtt_s):
            self._tcp(FILL, "cubic", FILLING, self._fill_s)
        self._below(rate_bps, datagram_bytes, end)

    @property
    def _fill_s(self) -> int:
        return round(self._total_s * FILL_SHARE)

    @property
    def commands(self) -> tuple[Command, ...]:
        """Returns the command lines of both ends, for each step."""
        return tuple(self._commands)

    def _idle(self, seconds: int) -> None:
        began_s = time.time()
        time.sleep(seconds)
        self._record(Step(IDLE, "", seconds, began_s=began_s, ended_s=time.time()))

    def _trains(
        self, name: str, packets: int, load_bps: float, datagram_bytes: int, share: float
    ) -> None:
        """Sends trains of ICMP echos as large as the datagrams, back to back: the bottleneck
        spaces or drops them.
        """
        label, seconds = self._label_of(name), round(self._total_s * share)
        train_bits = packets * on_wire_bytes(datagram_bytes) * 8
        rate_hz = min(MOST_TRAINS_A_SECOND, int(load_bps / train_bits))
        step = Step(
            name, label, seconds, offered_bps=rate_hz * train_bits, datagram_bytes=datagram_bytes
        )
        answered_within_s = min(
            max(LEAST_ANSWERED_S, ANSWERED_WITHIN_RTTS * self._rtt_s), ANSWERED_WITHIN_S
        )
        options = [
            f"--rate={rate_hz}",
            f"--train={packets}",
            f"--size={datagram_bytes}",
            f"--duration={seconds}s",
            f"--timeout={answered_within_s * 1e3:.0f}ms",
        ]
        began_s = time.time()
        failed = (
            self._asked(label, options, seconds) if rate_hz else "the path is too slow for trains"
        )
        self._record(replace(step, began_s=began_s, ended_s=time.time(), failed=failed))

    def _asked(self, label: str, options: Sequence[str], seconds: int) -> str | None:
        """Lets ccmix-rtt send trains; returns the reason of a failure."""
        self._commands.append(
            Command(f"{label} sender", shlex.join(["ccmix-rtt", *options, self._ends.address]))
        )
        output, errors = (
            self._folder / name
            for name in (run_files.trains(label), run_files.trains_errors(label))
        )
        try:
            with self._ask(options, stdout=output, stderr=errors) as process:
                status = process.wait(seconds + ANSWERED_WITHIN_S + ENDS_WITHIN_S)
        except HostLost:
            raise
        except CommandError as error:
            return str(error)
        return f"ccmix-rtt's exit status {status}: {last_line(errors)}" if status else None

    def _reaching_cca(self) -> str:
        """Returns a CCA that fills a path although it loses packets, if the sender has one."""
        available = self._ends.sender.read(
            "/proc/sys/net/ipv4/tcp_available_congestion_control"
        ).split()
        return "bbr" if "bbr" in available else "cubic"

    def _above(self, reached_bps: float, datagram_bytes: int, end: Deadline) -> float:
        """Offers two rates above the path's rate. Returns the rate of the path, or the maximum that
        went through.
        """
        offered_bps, best_bps = min(FIRST_ABOVE * reached_bps, self._most_bps), reached_bps
        for number in range(1, MOST_TRIES + 1):
            if not end.allows(4 * self._above_s(offered_bps, datagram_bytes) + LEAST_BELOW_S):
                return best_bps
            received_bps = self._received_of(f"{ABOVE}-{number}", offered_bps, datagram_bytes)
            if received_bps is None:
                continue
            best_bps = max(best_bps, received_bps)
            if received_bps < NOT_OVERLOADED * offered_bps:
                self._more_above(
                    number + 1, offered_bps, received_bps, reached_bps, datagram_bytes, end
                )
                return received_bps
            if offered_bps >= self._most_bps:
                return best_bps
            offered_bps = min(MORE_ABOVE * offered_bps, self._most_bps)
        return best_bps

    def _more_above(
        self,
        number: int,
        offered_bps: float,
        received_bps: float,
        reached_bps: float,
        datagram_bytes: int,
        end: Deadline,
    ) -> None:
        """Offers a much higher rate, or a lower rate if this rate was much too high. If more of the
        higher rate came through, at the expense of other traffic in the same queue, looks for the
        available rate. Otherwise offers the lower rate in many streams.
        """
        steep = offered_bps > STEEP * received_bps
        second_bps = min((LESS_ABOVE if steep else MOST_ABOVE) * received_bps, self._most_bps)
        again_bps = self._received_of(f"{ABOVE}-{number}", second_bps, datagram_bytes)
        if again_bps is not None and abs(again_bps - received_bps) > OTHERS_LOST * received_bps:
            self._available(reached_bps, min(received_bps, again_bps), datagram_bytes, end)
            return
        lower_bps = min(offered_bps, second_bps)
        seconds, around_s = (
            self._above_s(lower_bps, datagram_bytes),
            3 * ENDS_WITHIN_RTTS * self._rtt_s,
        )
        if end.allows(
            seconds + self._fill_s + LEAST_BELOW_S + around_s
        ):  # for this step and the two that follow
            self._udp(SHARE, lower_bps, SHARING, datagram_bytes, seconds)

    def _available(
        self, reached_bps: float, most_bps: float, datagram_bytes: int, end: Deadline
    ) -> None:
        """Looks for a rate of which a little is lost: the available rate is a little less. Begins
        with at most `most_bps`. While all rates are too high, offers the rate that arrived of the
        last one; later, a rate between the bounds.
        """
        offered_bps, low_bps, high_bps = min(FIRST_AVAILABLE * reached_bps, most_bps), 0.0, math.inf
        for number in range(1, AVAILABLE_TRIES + 1):
            seconds = self._above_s(offered_bps, datagram_bytes, AVAILABLE_SHARE)
            if not end.allows(seconds + LEAST_BELOW_S + 2 * ENDS_WITHIN_RTTS * self._rtt_s):
                return
            received_bps = self._received_of(
                f"{AVAILABLE}-{number}", offered_bps, datagram_bytes, AVAILABLE_SHARE
            )
            if received_bps is None:
                return
            lost_bps = offered_bps - received_bps
            if LEAST_LOST < lost_bps / offered_bps < MOST_LOST:
                return
            if lost_bps < MOST_LOST * offered_bps:
                low_bps = offered_bps
            else:
                high_bps = offered_bps
            higher_bps = min(MORE_AVAILABLE * low_bps, (low_bps + high_bps) / 2, self._most_bps)
            offered_bps = higher_bps if low_bps else received_bps
            if offered_bps <= low_bps:
                return

    def _above_s(self, offered_bps: float, datagram_bytes: int, share: float = ABOVE_SHARE) -> int:
        packets_a_second = offered_bps / 8 / on_wire_bytes(datagram_bytes)
        return above_s(packets_a_second, self._rtt_s, self._total_s, share)

    def _received_of(
        self, name: str, offered_bps: float, datagram_bytes: int, share: float = ABOVE_SHARE
    ) -> float | None:
        """Makes a step of one stream above the rate; returns the rate that came through, with all
        headers.
        """
        seen = self._udp(
            name, offered_bps, 1, datagram_bytes, self._above_s(offered_bps, datagram_bytes, share)
        )
        on_wire = on_wire_bytes(datagram_bytes) / datagram_bytes
        return None if seen is None else seen.received_bps * on_wire

    def _below(self, rate_bps: float, datagram_bytes: int, end: Deadline) -> None:
        """Sends much less than the rate for the remaining time. Tries again if the first try fails
        at once.
        """
        for name in (BELOW, f"{BELOW}-again"):
            around_s = 1 + ENDS_WITHIN_RTTS * self._rtt_s
            seconds = int(end.remaining_s - around_s)
            if seconds < 1:
                return
            packets_bps = MOST_BELOW_PACKETS / seconds * on_wire_bytes(datagram_bytes) * 8
            offered_bps = min(PART_BELOW * rate_bps, packets_bps, self._most_bps)
            if self._udp(name, offered_bps, 1, datagram_bytes, seconds, MOST_TOGETHER_BELOW):
                return

    def _tcp(self, name: str, cca: str, streams: int, seconds: int) -> _Seen | None:
        arguments = [
            "--parallel",
            str(streams),
            "--congestion",
            f"{cca}@{self._most_bps / streams:.0f}",
            "--time",
            str(seconds),
            "--zerocopy",
            "--skip-rx-copy",
        ]
        return self._test(
            Step(name, self._label_of(name), seconds, streams, cca), arguments, TCP_INTERVAL_S
        )

    def _udp(
        self,
        name: str,
        offered_bps: float,
        streams: int,
        datagram_bytes: int,
        seconds: int,
        most_together: int = MOST_TOGETHER,
    ) -> _Seen | None:
        on_wire = on_wire_bytes(datagram_bytes) / datagram_bytes
        each_bps = offered_bps / on_wire / streams
        together = _together(each_bps * streams / 8 / datagram_bytes, most_together)
        arguments = [
            "--udp",
            "--parallel",
            str(streams),
            "--bitrate",
            f"{each_bps:.0f}{together}",
            "--fq-rate",
            f"{each_bps * PACED_ABOVE:.0f}",
            "--length",
            str(datagram_bytes),
            "--time",
            str(seconds),
        ]
        step = Step(
            name,
            self._label_of(name),
            seconds,
            streams,
            offered_bps=offered_bps,
            datagram_bytes=datagram_bytes,
        )
        return self._test(step, arguments, UDP_INTERVAL_S if streams == 1 else TCP_INTERVAL_S)

    def _label_of(self, name: str) -> str:
        return f"{self._label}-{name}"

    def _test(self, step: Step, arguments: Sequence[str], interval_s: float) -> _Seen | None:
        """Makes a test. Returns None if it failed; the failure is recorded."""
        test = iperf3.Iperf3Test(
            self._ends, arguments, interval_s, self._folder, step.label, pid_file=self._pid_file
        )
        began_s = time.time()
        try:
            with ExitStack() as started:
                test.serve(started)
                self._commands += [
                    replace(made, role=f"{step.label} {made.role}") for made in test.commands
                ]
                test.start(started)
                self._wait_for_traffic(test, step.streams)
                began_s = time.time() - interval_s
                test.finish(Deadline(step.seconds + ENDS_WITHIN_S + ENDS_WITHIN_RTTS * self._rtt_s))
        except HostLost:
            raise
        except (GeneratorError, CommandError) as error:
            self._record(replace(step, began_s=began_s, ended_s=time.time(), failed=str(error)))
            return None
        self._record(replace(step, began_s=began_s, ended_s=time.time()))
        client = load_json(test.client_output)
        return _seen(client, load_json(test.receiver_output), step.seconds)

    def _wait_for_traffic(self, test: iperf3.Iperf3Test, streams: int) -> None:
        """Waits for the first interval: iperf3 waits for half a minute where the first datagram was
        lost.

        Raises GeneratorError.
        """
        late = Deadline(STARTS_WITHIN_S + (STARTS_WITHIN_RTTS + streams) * self._rtt_s)
        while not _has_interval(test.client_output):
            if test.ends_within(LOOKS_EACH_S):
                return  # finish() gives the reason
            if late.expired:
                raise GeneratorError("no traffic began")

    def _record(self, step: Step) -> None:
        self._done.append(step)
        text = json.dumps([asdict(made) for made in self._done], indent=1)
        (self._folder / run_files.STEPS).write_text(text)


def on_wire_bytes(datagram_bytes: int) -> int:
    """Returns the size of a datagram's packet with all headers, Ethernet's included, as tc
    counts them.
    """
    return datagram_bytes + UDP_HEADERS_BYTES + ETHERNET_BYTES


def above_s(
    packets_a_second: float, rtt_s: float, total_s: float, share: float = ABOVE_SHARE
) -> int:
    """Returns how long a step offers a rate above the path's rate: at most a `share` of `total_s`,
    the time of all steps.
    """
    enough_s = max(ENOUGH_PACKETS / packets_a_second, ENOUGH_RTTS * rtt_s)
    return min(round(total_s * share), math.ceil(enough_s))


def _together(packets_a_second: float, most: int) -> str:
    """Returns the number of packets that iperf3 sends before it sleeps, in the form that follows
    its rate; fq spaces these packets.
    """
    if packets_a_second < OFTEN_A_SECOND:
        return ""
    return f"/{min(round(packets_a_second / SLEEPS_A_SECOND), most)}"


def _has_interval(output: Path) -> bool:
    return output.exists() and b'"event":"interval"' in output.read_bytes().replace(
        b" ", b""
    ).replace(b"\t", b"")


def _seen(client: dict[str, Any], server: dict[str, Any], seconds: float) -> _Seen:
    """Reads the results of a test of this nominal duration."""
    sums = [
        interval["sum"]
        for interval in server["intervals"]
        if seconds / 2 < interval["sum"]["end"] <= seconds
    ]
    received_bytes, counted_s = (sum(each[name] for each in sums) for name in ("bytes", "seconds"))
    senders = [stream["sender"] for stream in client["end"]["streams"] if "sender" in stream]
    rtts_us = [sender["min_rtt"] for sender in senders if sender.get("min_rtt")]
    return _Seen(
        received_bps=received_bytes * 8 / counted_s if counted_s else 0.0,
        rtt_s=min(rtts_us) / 1e6 if rtts_us else None,
        mss_bytes=client["start"].get("tcp_mss_default"),
    )
