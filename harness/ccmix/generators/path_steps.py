"""Measures a path in steps: idle RTT, TCP, trains of packets, and UDP above and below its rate.

Most steps are tests with the patched iperf3 (docs/reference/path-steps.md). Later steps depend on
the results of earlier steps. ccmix.twin evaluates the results; here a result only determines the
rate of the next step. This module uses only the standard library, because it runs in guests.
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
USUAL_MSS_BYTES = 1448
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
    """Describes a step of the measurement as steps.json keeps it. Times are wall clock times.
    `offered_bps` includes Ethernet headers, and is None for TCP.

    `label` is in the names of the step's files in generators/; `failed` is the reason if it has no
    result.
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
class _StepResult:
    """Holds what the next steps need of a step's result. `received_bps` is the mean of the second
    half, without headers; `rtt_s` is TCP's smallest RTT.
    """

    received_bps: float
    rtt_s: float | None
    mss_bytes: int | None


class StartProbe(Protocol):
    """Starts ccmix-rtt (the RTT probe) on the sender, which probes the receiver until the context
    ends.
    """

    def __call__(
        self, options: Sequence[str], *, stdout: Path, stderr: Path
    ) -> AbstractContextManager[Process]: ...


class PathSteps:
    """Runs all steps of a path measurement, and leaves their results and steps.json in a folder.

    Has the methods of an iperf3 test, so that a run can start it among other traffic.
    """

    lead_s = 0.0

    def __init__(
        self,
        ends: iperf3.Iperf3Ends,
        ask: StartProbe,
        most_bps: float,
        total_s: float,
        folder: Path,
        label: str,
        pid_file: str,
    ) -> None:
        """Prepares the steps.

        ends: both ends of the path, with their iperf3
        ask: starts ccmix-rtt on the sender, which pings the receiver
        most_bps: maximum rate of a step
        total_s: time of all steps together
        folder: gets the results of all steps
        label: begins the names of the steps' files
        pid_file: a path on the sender for iperf3's process id
        """
        self._ends = ends
        self._ask = ask
        self._most_bps = most_bps
        self._total_s = total_s
        self._folder = folder
        self._label = label
        self._pid_file = pid_file
        # Until the TCP step has shown them
        self._rtt_s = UNKNOWN_RTT_S
        self._datagram_bytes = _datagram_bytes(USUAL_MSS_BYTES)
        self._end = Deadline(total_s)
        self._done: list[Step] = []
        self._commands: list[Command] = []

    def serve(self, started: ExitStack) -> None:
        """Does nothing, because each step starts its own server."""

    def start(self, started: ExitStack) -> None:
        """Does nothing: finish() makes the steps, when all other traffic has begun."""

    def finish(self, end: Deadline) -> None:
        """Runs all steps, until the deadline `end`. Raises GeneratorError or CommandError if not
        even TCP gets through.

        The TCP step comes early, because it shows roughly the path's rate and RTT. The loads of all
        later steps follow from these.
        """
        self._end = end
        self._idle(round(self._total_s * IDLE_SHARE))
        tcp_result = self._tcp(
            REACH, self._reaching_cca(), REACHING, round(self._total_s * REACH_SHARE)
        )
        if tcp_result is None:
            raise GeneratorError(f"no TCP test over the path: {self._done[-1].failed}")
        self._rtt_s = tcp_result.rtt_s or self._rtt_s
        self._datagram_bytes = _datagram_bytes(tcp_result.mss_bytes or USUAL_MSS_BYTES)
        trains_bps = min(tcp_result.received_bps, self._most_bps)
        self._trains(TRAINS, TRAIN_PACKETS, PART_IN_TRAINS * trains_bps, TRAINS_SHARE)
        self._trains(BURSTS, BURST_PACKETS, PART_IN_BURSTS * trains_bps, BURSTS_SHARE)
        rate_bps = self._above(tcp_result.received_bps)
        if end.allows(self._fill_s + LEAST_BELOW_S + 2 * ENDS_WITHIN_RTTS * self._rtt_s):
            self._tcp(FILL, "cubic", FILLING, self._fill_s)
        self._below(rate_bps)

    @property
    def _fill_s(self) -> int:
        """Returns the seconds of the step in which CUBIC flows fill the buffer."""
        return round(self._total_s * FILL_SHARE)

    @property
    def commands(self) -> tuple[Command, ...]:
        """Returns the command lines of both ends, for each step."""
        return tuple(self._commands)

    def _idle(self, seconds: int) -> None:
        """Sends nothing for this many seconds. Meanwhile the RTT probe, which runs during the whole
        measurement, measures the idle path.
        """
        began_s = time.time()
        time.sleep(seconds)
        self._record(Step(IDLE, "", seconds, began_s=began_s, ended_s=time.time()))

    def _trains(self, name: str, packets: int, load_bps: float, share: float) -> None:
        """Runs a step that sends trains: pings with the size of the other steps' datagrams, back to
        back. The gaps between their answers show the bottleneck's rate, and a long train overflows
        its queue.

        name: TRAINS, or BURSTS for long trains
        packets: number of packets of a train
        load_bps: maximum average rate of the trains
        share: share of the time of all steps that this step takes
        """
        label, seconds = self._label_of(name), round(self._total_s * share)
        train_bits = packets * on_wire_bytes(self._datagram_bytes) * 8
        rate_hz = min(MOST_TRAINS_A_SECOND, int(load_bps / train_bits))
        step = Step(
            name,
            label,
            seconds,
            offered_bps=rate_hz * train_bits,
            datagram_bytes=self._datagram_bytes,
        )
        answered_within_s = min(
            max(LEAST_ANSWERED_S, ANSWERED_WITHIN_RTTS * self._rtt_s), ANSWERED_WITHIN_S
        )
        options = [
            f"--rate={rate_hz}",
            f"--train={packets}",
            f"--size={self._datagram_bytes}",
            f"--duration={seconds}s",
            f"--timeout={answered_within_s * 1e3:.0f}ms",
        ]
        began_s = time.time()
        failed = (
            self._send_trains(label, options, seconds)
            if rate_hz
            else "the path is too slow for trains"
        )
        self._record(replace(step, began_s=began_s, ended_s=time.time(), failed=failed))

    def _send_trains(self, label: str, options: Sequence[str], seconds: int) -> str | None:
        """Lets ccmix-rtt send trains (pings sent back to back) for this many seconds. Returns the
        reason if it fails, otherwise None.
        """
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
        """Returns the CCA of the first TCP step, which is to reach the path's rate: BBR if the
        sender has it, because BBR fills a path even if packets are lost at random; otherwise CUBIC.
        """
        available = self._ends.sender.read(
            "/proc/sys/net/ipv4/tcp_available_congestion_control"
        ).split()
        return "bbr" if "bbr" in available else "cubic"

    def _above(self, tcp_bps: float) -> float:
        """Runs UDP steps above the path's rate. The first one offers 1.5 times the rate of TCP
        (`tcp_bps`), and further ones offer more until less arrives than is offered. Then a second
        such rate is offered (see _more_above()).

        Returns the path's rate: the rate that arrived of the first rate that was too high. If no
        rate was too high, returns the maximum that arrived.
        """
        offered_bps, highest_received_bps = min(FIRST_ABOVE * tcp_bps, self._most_bps), tcp_bps
        for number in range(1, MOST_TRIES + 1):
            if not self._end.allows(4 * self._above_s(offered_bps) + LEAST_BELOW_S):
                return highest_received_bps
            received_bps = self._received_bps_of_udp(f"{ABOVE}-{number}", offered_bps)
            if received_bps is None:
                continue
            highest_received_bps = max(highest_received_bps, received_bps)
            if received_bps < NOT_OVERLOADED * offered_bps:
                self._more_above(number + 1, offered_bps, received_bps, tcp_bps)
                return received_bps
            if offered_bps >= self._most_bps:
                return highest_received_bps
            offered_bps = min(MORE_ABOVE * offered_bps, self._most_bps)
        return highest_received_bps

    def _more_above(
        self, number: int, offered_bps: float, received_bps: float, tcp_bps: float
    ) -> None:
        """Offers a second UDP rate above the path's rate: a lower one than the first
        (`offered_bps`) if that was much too high, otherwise a much higher one.

        If one of the two rates got more packets through, it took them from cross traffic in the
        same queue: then the rate that cross traffic leaves is searched. If both got the same
        through, the lower rate is offered in many streams, which shows whether each flow has its
        own queue.

        number: number of the step
        received_bps: rate that arrived of the first rate
        tcp_bps: rate of the TCP step
        """
        much_too_high = offered_bps > STEEP * received_bps
        second_bps = min(
            (LESS_ABOVE if much_too_high else MOST_ABOVE) * received_bps, self._most_bps
        )
        second_received_bps = self._received_bps_of_udp(f"{ABOVE}-{number}", second_bps)
        if (
            second_received_bps is not None
            and abs(second_received_bps - received_bps) > OTHERS_LOST * received_bps
        ):
            self._available(tcp_bps, min(received_bps, second_received_bps))
            return
        lower_bps = min(offered_bps, second_bps)
        seconds = self._above_s(lower_bps)
        both_following_s = self._fill_s + LEAST_BELOW_S
        overhead_s = 3 * ENDS_WITHIN_RTTS * self._rtt_s
        if self._end.allows(seconds + both_following_s + overhead_s):
            self._udp(SHARE, lower_bps, SHARING, seconds)

    def _available(self, tcp_bps: float, most_bps: float) -> None:
        """Searches for a UDP rate of which only a little is lost (1.5% to 5%). The rate that cross
        traffic leaves is a little lower than this rate.

        The first rate is 1.1 times TCP's rate (`tcp_bps`), but at most `most_bps`. As long as every
        rate was too high, the next one is the rate that arrived of the last one. After that, the
        next one lies between the highest rate that was too low and the lowest rate that was too
        high.
        """
        offered_bps, low_bps, high_bps = min(FIRST_AVAILABLE * tcp_bps, most_bps), 0.0, math.inf
        for number in range(1, AVAILABLE_TRIES + 1):
            seconds = self._above_s(offered_bps, AVAILABLE_SHARE)
            if not self._end.allows(seconds + LEAST_BELOW_S + 2 * ENDS_WITHIN_RTTS * self._rtt_s):
                return
            received_bps = self._received_bps_of_udp(
                f"{AVAILABLE}-{number}", offered_bps, AVAILABLE_SHARE
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

    def _above_s(self, offered_bps: float, share: float = ABOVE_SHARE) -> int:
        """Returns how many seconds a UDP step with this rate lasts: until enough packets and RTTs
        have passed, but at most a `share` of the time of all steps.
        """
        packets_a_second = offered_bps / 8 / on_wire_bytes(self._datagram_bytes)
        return above_s(packets_a_second, self._rtt_s, self._total_s, share)

    def _received_bps_of_udp(
        self, name: str, offered_bps: float, share: float = ABOVE_SHARE
    ) -> float | None:
        """Runs a step that offers a UDP rate in one stream. Returns the rate that arrived in bit/s,
        with all headers; None if the step failed.

        name: name of the step
        share: maximum share of the time of all steps that this step takes
        """
        result = self._udp(name, offered_bps, 1, self._above_s(offered_bps, share))
        return None if result is None else result.received_bps * self._on_wire

    def _below(self, rate_bps: float) -> None:
        """Runs a step that sends UDP at a quarter of the path's rate (`rate_bps`) for all of the
        remaining time. It shows random loss and reordering. If the step fails, it is tried once
        more.
        """
        for name in (BELOW, f"{BELOW}-again"):
            overhead_s = 1 + ENDS_WITHIN_RTTS * self._rtt_s
            seconds = int(self._end.remaining_s - overhead_s)
            if seconds < 1:
                return
            packets_bps = MOST_BELOW_PACKETS / seconds * on_wire_bytes(self._datagram_bytes) * 8
            offered_bps = min(PART_BELOW * rate_bps, packets_bps, self._most_bps)
            if self._udp(name, offered_bps, 1, seconds, MOST_TOGETHER_BELOW):
                return

    def _tcp(self, name: str, cca: str, streams: int, seconds: int) -> _StepResult | None:
        """Runs a step of TCP streams with one CCA. Pacing limits all streams together to the
        maximum rate. Returns None if the step failed.
        """
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
        seconds: int,
        most_together: int = MOST_TOGETHER,
    ) -> _StepResult | None:
        """Runs a step of UDP streams that together offer a rate (in bit/s with Ethernet headers).
        The qdisc fq spaces their packets. Returns None if the step failed.

        name: name of the step
        most_together: maximum number of packets that iperf3 hands over before it sleeps
        """
        each_bps = offered_bps / self._on_wire / streams
        together = _burst_suffix(each_bps * streams / 8 / self._datagram_bytes, most_together)
        arguments = [
            "--udp",
            "--parallel",
            str(streams),
            "--bitrate",
            f"{each_bps:.0f}{together}",
            "--fq-rate",
            f"{each_bps * PACED_ABOVE:.0f}",
            "--length",
            str(self._datagram_bytes),
            "--time",
            str(seconds),
        ]
        step = Step(
            name,
            self._label_of(name),
            seconds,
            streams,
            offered_bps=offered_bps,
            datagram_bytes=self._datagram_bytes,
        )
        return self._test(step, arguments, UDP_INTERVAL_S if streams == 1 else TCP_INTERVAL_S)

    @property
    def _on_wire(self) -> float:
        """Returns how many bytes a packet has with all headers, for each byte of its datagram."""
        return on_wire_bytes(self._datagram_bytes) / self._datagram_bytes

    def _label_of(self, name: str) -> str:
        """Returns the label of a step, which is in its file names: 'h1-above-2'."""
        return f"{self._label}-{name}"

    def _test(self, step: Step, arguments: Sequence[str], interval_s: float) -> _StepResult | None:
        """Runs the iperf3 test of a step, and adds the step to steps.json. If the test failed,
        returns None, and the step in steps.json has the reason.

        arguments: arguments of iperf3's client
        interval_s: seconds between iperf3's reports
        """
        test = iperf3.Iperf3Test(
            self._ends, arguments, interval_s, self._folder, step.label, pid_file=self._pid_file
        )
        began_s = time.time()
        try:
            with ExitStack() as started:
                test.serve(started)
                self._commands += [
                    replace(command, role=f"{step.label} {command.role}")
                    for command in test.commands
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
        return _result_of_step(client, load_json(test.receiver_output), step.seconds)

    def _wait_for_traffic(self, test: iperf3.Iperf3Test, streams: int) -> None:
        """Waits until iperf3 has reported its first interval, but only for some seconds and RTTs:
        iperf3 itself would wait for half a minute if the first datagram was lost.

        Raises GeneratorError if no traffic begins in this time.
        """
        late = Deadline(STARTS_WITHIN_S + (STARTS_WITHIN_RTTS + streams) * self._rtt_s)
        while not _has_interval(test.client_output):
            if test.ends_within(LOOKS_EACH_S):
                return  # finish() gives the reason
            if late.expired:
                raise GeneratorError("no traffic began")

    def _record(self, step: Step) -> None:
        """Adds a step to the file steps.json, so that the file is complete even if a later step
        fails.
        """
        self._done.append(step)
        text = json.dumps([asdict(step) for step in self._done], indent=1)
        (self._folder / run_files.STEPS).write_text(text)


def _datagram_bytes(mss_bytes: int) -> int:
    """Returns the size of a UDP datagram in a packet as large as one of TCP with this MSS."""
    return mss_bytes + TIMESTAMPS_BYTES + TCP_HEADERS_BYTES - UDP_HEADERS_BYTES


def on_wire_bytes(datagram_bytes: int) -> int:
    """Returns the size of a packet with all headers, as tc counts it: the UDP datagram, and the
    headers of UDP, IP and Ethernet.
    """
    return datagram_bytes + UDP_HEADERS_BYTES + ETHERNET_BYTES


def above_s(
    packets_a_second: float, rtt_s: float, total_s: float, share: float = ABOVE_SHARE
) -> int:
    """Returns how many seconds a step offers a rate above the path's rate: until 100,000 packets
    and 20 RTTs have passed, but at most a `share` of `total_s`, the time of all steps.

    packets_a_second: the rate that the step offers
    """
    enough_s = max(ENOUGH_PACKETS / packets_a_second, ENOUGH_RTTS * rtt_s)
    return min(round(total_s * share), math.ceil(enough_s))


def _burst_suffix(packets_a_second: float, most: int) -> str:
    """Returns the part of iperf3's option --bitrate that says how many packets it sends before it
    sleeps, such as '/16'. It is '' for low rates, at which iperf3 sends one packet at a time.

    packets_a_second: the rate that iperf3 offers
    most: maximum number of packets
    """
    if packets_a_second < OFTEN_A_SECOND:
        return ""
    return f"/{min(round(packets_a_second / SLEEPS_A_SECOND), most)}"


def _has_interval(output: Path) -> bool:
    """Returns whether iperf3 has reported an interval in its output (the file `output`, written
    with --json-stream).
    """
    return output.exists() and b'"event":"interval"' in output.read_bytes().replace(
        b" ", b""
    ).replace(b"\t", b"")


def _result_of_step(client: dict[str, Any], server: dict[str, Any], seconds: float) -> _StepResult:
    """Returns the part of a step's result that later steps need: the rate that arrived in the
    second half of the step, TCP's smallest RTT, and its MSS.

    client, server: the JSON of iperf3's client and server
    seconds: planned duration of the step
    """
    interval_sums = [
        interval["sum"]
        for interval in server["intervals"]
        if seconds / 2 < interval["sum"]["end"] <= seconds
    ]
    received_bytes, counted_s = (
        sum(each[name] for each in interval_sums) for name in ("bytes", "seconds")
    )
    senders = [stream["sender"] for stream in client["end"]["streams"] if "sender" in stream]
    rtts_us = [sender["min_rtt"] for sender in senders if sender.get("min_rtt")]
    return _StepResult(
        received_bps=received_bytes * 8 / counted_s if counted_s else 0.0,
        rtt_s=min(rtts_us) / 1e6 if rtts_us else None,
        mss_bytes=client["start"].get("tcp_mss_default"),
    )
