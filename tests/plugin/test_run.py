"""Tests runs whose participants start at the same time, as the runner starts them, in a pair of
namespaces.
"""

import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from support.commands import allowed_and_not, wait_for
from support.plugin_runner import IPERF3, Run, Tool, check, start_run, throughput

STOCK = "/usr/bin/iperf3"


def merged(ends: list[Tool], run: Run) -> dict[str, Any]:
    """Merges the results of the participants, each of which keeps to the schema, into that
    of the run.
    """
    results = run.results()
    for result in results:
        check(result, "result")
    together = ends[0].call("merged-results", {"test": run.test, "results": results})
    check(together, "result")
    for group in together["summary"].get("groups", []):
        assert group["receiver-throughput-bits"] > 0
        assert group["receiver-throughput-bytes"] > 0
    return dict(together)


def iperf3_of(result: dict[str, Any], participant: int) -> dict[str, Any]:
    """Returns iperf3's own JSON from the diagnostics of a merged result."""
    text = result["diags"].split("Participant ")[1 + participant]
    return dict(json.loads(next(line for line in text.splitlines() if line.startswith("{"))))


def test_groups_are_measured_in_both_directions_and_ip_versions(ends: list[Tool]) -> None:
    for source, dest, reverse in (
        ("10.99.7.1", "10.99.7.2", None),
        ("fd99:7::1", "fd99:7::2", True),
    ):
        test = throughput(
            source=source,
            dest=dest,
            reverse=reverse,
            congestion="reno:2@40M,bbr:1@20M",
            parallel=3,
            duration="PT2S",
        )
        got = merged(ends, start_run(ends, test))
        assert got["succeeded"], got
        groups = got["summary"]["groups"]
        assert [(group["group"], group["congestion"], group["streams"]) for group in groups] == [
            (1, "reno", 2),
            (2, "bbr", 1),
        ]
        # Pacing is a limit, which a busy machine may stay below; what is in flight at the ends is a
        # few percent
        for group, limit_bps in zip(groups, (80e6, 20e6), strict=True):
            assert limit_bps / 2 < group["receiver-throughput-bits"] < limit_bps * 1.1
            assert group["retransmits"] >= 0
            of_streams = [
                stream["receiver-throughput-bits"]
                for stream in got["summary"]["streams"]
                if stream["stream-id"].endswith(f":{group['group']}")
                and not stream["stream-id"].startswith("SUM")
            ]
            assert sum(of_streams) == pytest.approx(group["receiver-throughput-bits"], rel=0.01)
        *streams, of_reno, of_bbr = [stream["stream-id"] for stream in got["summary"]["streams"]]
        assert streams == ["1:reno:1", "2:bbr:2", "3:reno:1"]
        assert (of_reno, of_bbr) == ("SUM:reno:1", "SUM:bbr:2")
        assert got["summary"]["congestion"] == {name: name.split(":")[1] for name in streams}
        assert len(got["intervals"]) in (
            2,
            3,
        )  # a sending server may report what came after the last second
        # The sender's view, whichever side it is
        for stream in itertools.chain.from_iterable(
            interval["streams"] for interval in got["intervals"]
        ):
            assert stream["tcp-window-size"] > 0
            assert stream["retransmits"] >= 0
            assert stream["rtt"] > 0
        total = got["summary"]["summary"]
        of_groups = sum(group["receiver-throughput-bits"] for group in groups)
        assert total["receiver-throughput-bits"] == pytest.approx(of_groups, rel=0.01)
        assert total["throughput-bits"] == pytest.approx(
            sum(group["throughput-bits"] for group in groups), rel=0.01
        )
        connected = iperf3_of(got, 0)["start"]["connected"]
        assert {stream["remote_host"] for stream in connected} == {dest}
        assert {stream["local_host"] for stream in connected} == {source}
        assert "system_info" not in iperf3_of(got, 1)["start"]


def test_what_iperf3_can_serve_reaches_it(ends: list[Tool]) -> None:
    """iperf3's own JSON has them, and the kernel reports the processors that the
    processes may use.
    """
    test = throughput(
        schema=7,
        dest="fd99:7::2",
        ip_version=6,
        local_address="fd99:7::1",
        omit="PT1S",
        interval="PT0.5S",
        bandwidth=30_000_000,
        fq_rate=100_000_000,
        window_size=600_000,
        mss=1000,
        buffer_length=20_000,
        ip_tos=32,
        flow_label=7,
        zero_copy=True,
        no_delay=True,
        client_cpu_affinity=0,
        server_cpu_affinity=max(os.sched_getaffinity(0)),
        congestion="reno,bbr+500ms",
    )
    assert ends[0].call("can-run", test) == {"can-run": True, "reasons": []}
    run = start_run(ends, test)
    processors: dict[str, list[int]] = {}

    def seen(end: Tool) -> list[int]:
        processors[end.namespace] = processors_of(end)
        return processors[end.namespace]

    for end in ends:
        wait_for(lambda end=end: seen(end), 30, "iperf3 runs")
    got = merged(ends, run)
    assert got["succeeded"], got
    assert list(processors.values()) == [[0], [max(os.sched_getaffinity(0))]]
    report = iperf3_of(got, 0)
    started = report["start"]["test_start"]
    expected = {
        "omit": 1,
        "duration": 1,
        "blksize": 20_000,
        "tos": 32,
        "target_bitrate": 30_000_000,
        "interval": 0.5,
    }
    assert started | expected == started
    assert started["fqrate"] == 100_000_000
    assert report["start"]["sock_bufsize"] == 600_000
    # With the room for options that are not used in every segment
    assert 900 <= report["start"]["tcp_mss"] <= 1000 if "tcp_mss" in report["start"] else True
    argv = got["diags"].splitlines()[1].split()
    assert {"-Z", "-N"} <= set(argv)
    assert argv[argv.index("-L") + 1] == "7"
    assert argv[argv.index("-M") + 1] == "1000"
    omitted = [interval["summary"]["omitted"] for interval in got["intervals"]]
    assert set(omitted) == {True, False}
    assert omitted == sorted(omitted, reverse=True), (
        "the omitted ones come first; a busy machine joins some"
    )
    assert 30e6 < got["summary"]["summary"]["throughput-bits"] < 1.15 * 60e6


def test_single_ended(ends: list[Tool]) -> None:
    """The server has no pScheduler: any iperf3 receives, and a patched one sends."""
    patched = str(ends[0].root / IPERF3)
    for server, options in (
        ([STOCK, "-s", "-1"], {}),
        ([patched, "-s", "-1", "-p", "5300"], {"reverse": True}),
    ):
        if not Path(server[0]).exists():
            pytest.skip("the stock iperf3 is not installed")
        test = throughput(single_ended=True, single_ended_port=5300 if options else None, **options)
        with subprocess.Popen(
            ["ip", "netns", "exec", ends[1].namespace, *server], stdout=subprocess.DEVNULL
        ) as process:
            got = merged(ends, start_run(ends, test))
            process.wait()
        assert got["succeeded"], got
        assert [group["congestion"] for group in got["summary"]["groups"]] == ["reno", "bbr"]
        assert all(group["receiver-throughput-bits"] > 1e6 for group in got["summary"]["groups"])


def test_a_stock_server_can_not_be_made_to_send_groups(ends: list[Tool]) -> None:
    if not Path(STOCK).exists():
        pytest.skip("the stock iperf3 is not installed")
    with subprocess.Popen(
        ["ip", "netns", "exec", ends[1].namespace, STOCK, "-s", "-1"], stdout=subprocess.DEVNULL
    ):
        got = merged(ends, start_run(ends, throughput(single_ended=True, reverse=True)))
    assert not got["succeeded"]
    assert "did not confirm the list" in got["error"]


@pytest.mark.parametrize("late", [0, 1], ids=["client", "server"])
def test_one_side_is_late(ends: list[Tool], late: int) -> None:
    """It starts later than the three seconds that the stock tool waits, which the slot allows."""
    late_s = (4.0, 0.0) if late == 0 else (0.0, 4.0)
    run = start_run(ends, throughput(reverse=True), seconds=9, late_s=late_s)
    got = merged(ends, run)
    assert got["succeeded"], got


def processors_of(end: Tool) -> list[int]:
    """Returns the processor that each iperf3 may use."""
    processors = []
    for pid in iperf3_in(end):
        with contextlib.suppress(OSError):
            status = Path(f"/proc/{pid}/status").read_text()
            processors.append(int(status.split("Cpus_allowed_list:")[1].split()[0]))
    return processors


def iperf3_in(end: Tool) -> list[int]:
    pids = subprocess.run(
        ["ip", "netns", "pids", end.namespace], capture_output=True, text=True, check=True
    ).stdout
    return [pid for pid in map(int, pids.split()) if name_of(pid) == "iperf3"]


def name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def test_nobody_comes(ends: list[Tool]) -> None:
    """A side without the other reports that before its slot ends, but waits as long as the other
    could still come.
    """
    for alone in (0, 1):
        run = start_run(ends, throughput(), seconds=3, only=(alone,))
        result = run.participants[0].result()
        check(result, "result")
        assert not result["succeeded"]
        refused = "Connection refused"
        nobody = "no test of this run began before its slot ended: nobody connected to port 5201"
        assert (refused if alone == 0 else nobody) in result["error"]
        if alone == 0:
            assert "10.99.7.2 answers, and no server listens there" in result["error"]
        # The client tries as long as a test of 1 s still fits
        assert run.participants[0].ended_at > run.end - 2.0
        assert not run.participants[0].killed


def test_strangers_do_not_take_the_place_of_the_client(ends: list[Tool]) -> None:
    """A scanner connects and leaves, and a foreign client makes a test; the right client connects
    meanwhile and after them.
    """
    near, patched = ["ip", "netns", "exec", ends[0].namespace], str(ends[0].root / IPERF3)
    data = [
        end.call("participant-data", {"participant": at, "test": throughput()})
        for at, end in enumerate(ends)
    ]
    server = start_run(ends, throughput(), seconds=9, data=data, only=(1,))
    wait_for(lambda: iperf3_in(ends[1]), 30, "the server runs")
    time.sleep(0.1)
    scan = "import socket; socket.create_connection(('10.99.7.2', 5201)).close()"
    subprocess.run([*near, "/usr/bin/python3", "-c", scan], check=True)
    time.sleep(0.5)
    stranger = subprocess.Popen(
        [*near, patched, "-c", "10.99.7.2", "-t", "1", "-J"], stdout=subprocess.PIPE, text=True
    )
    time.sleep(0.3)
    client = start_run(ends, throughput(), seconds=7, data=data, only=(0,))
    assert "error" not in json.loads(stranger.communicate()[0])
    run = Run(
        server.test, server.start, server.seconds, data, client.participants + server.participants
    )
    got = merged(ends, run)
    assert got["succeeded"], got
    assert "again: a test from 10.99.7.1, which does not belong to this run" in got["diags"]
    assert "unable to receive cookie" in got["diags"]


def test_the_port_is_taken_for_a_while(ends: list[Tool]) -> None:
    holder = "import socket; s = socket.create_server(('', 5201)); print(); input()"
    argv = ["ip", "netns", "exec", ends[1].namespace, "/usr/bin/python3", "-c", holder]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        run = start_run(ends, throughput(), seconds=10)
        time.sleep(max(0.0, run.start + 1.5 - time.time()))
        process.kill()
        got = merged(ends, run)
    assert got["succeeded"], got
    assert "Address already in use" in got["diags"]


@pytest.mark.parametrize(
    ("by", "victim"),
    [
        pytest.param(signal.SIGTERM, 0, id="SIGTERM-client"),
        pytest.param(signal.SIGTERM, 1, id="SIGTERM-server", marks=pytest.mark.deep),
        pytest.param(signal.SIGKILL, 0, id="SIGKILL-client", marks=pytest.mark.deep),
        pytest.param(signal.SIGKILL, 1, id="SIGKILL-server"),
    ],
)
def test_a_participant_is_killed_during_the_test(
    ends: list[Tool], victim: int, by: signal.Signals
) -> None:
    """Its iperf3 ends with it; the other side reports what happened, in time."""
    run = start_run(ends, throughput(duration="PT30S"), seconds=34)
    wait_for(lambda: all(iperf3_in(end) for end in ends), 30, "iperf3 runs at both ends")
    time.sleep(0.7)  # of traffic
    runner = run_processes(ends[victim])
    os.kill(runner, by)
    results = run.results()
    assert run.participants[victim].ended_at < run.end - 10
    if by == signal.SIGTERM:
        check(results[victim], "result")
        assert results[victim]["error"] == "the run was ended by SIGTERM"
    else:
        assert results[victim] is None
    assert run.participants[1 - victim].ended_at < run.end - 10
    check(results[1 - victim], "result")
    assert not results[1 - victim]["succeeded"]
    got = ends[0].call("merged-results", {"test": run.test, "results": results})
    check(got, "result")
    assert not got["succeeded"]
    assert f"participant {victim}" in got["error"] or victim == 1


@pytest.mark.deep
def test_a_server_whose_iperf3_is_killed_during_the_test(ends: list[Tool]) -> None:
    """Its participant doesn't claim that no test began."""
    run = start_run(ends, throughput(duration="PT3S"), seconds=6)
    wait_for(lambda: all(iperf3_in(end) for end in ends), 30, "iperf3 runs at both ends")
    time.sleep(1.0)  # of traffic
    [server] = [int(pid) for pid in pids_of(ends[1]) if "iperf3\0-s" in cmdline(int(pid))]
    os.kill(server, signal.SIGKILL)
    _, dest = run.results()
    check(dest, "result")
    assert "SIGKILL ended iperf3" in dest["error"]
    assert "perhaps in the middle of the test, and none began after that" in dest["error"]
    assert "no test of this run" not in dest["error"]


def set_link(end: Tool, state: str) -> None:
    """Sets the state of the far end's device, whose addresses stay."""
    keep = [
        "ip",
        "netns",
        "exec",
        end.namespace,
        "sysctl",
        "-qw",
        "net.ipv6.conf.plugin-b.keep_addr_on_down=1",
    ]
    for argv in (keep, ["ip", "-n", end.namespace, "link", "set", "plugin-b", state]):
        subprocess.run(argv, check=True)


@pytest.mark.deep
def test_a_link_that_is_down_is_hinted_at(ends: list[Tool]) -> None:
    """From the start, and from the middle of the test."""
    set_link(ends[1], "down")
    try:
        source, dest = start_run(ends, throughput(), seconds=6).results()
        assert (
            "10.99.7.2 doesn't answer: is the path up (ping), and port 5201 open in its firewall?"
            in source["error"]
        )
        assert (
            "nobody connected to port 5201. If the source reports that it tried, look at the path"
            in dest["error"]
        )
    finally:
        set_link(ends[1], "up")
    run = start_run(ends, throughput(duration="PT4S"), seconds=8)
    wait_for(lambda: all(iperf3_in(end) for end in ends), 30, "iperf3 runs at both ends")
    time.sleep(2.0)  # of traffic
    set_link(ends[1], "down")
    try:
        errors = [result["error"] for result in run.results()]
    finally:
        set_link(ends[1], "up")
    assert any(
        "no byte got through after its first" in error and "look at the path" in error
        for error in errors
    ), errors


def run_processes(end: Tool) -> int:
    """Returns the process of `run` itself."""
    (pid,) = (
        pid
        for pid in map(int, pids_of(end))
        if f"{end.root}" in cmdline(pid) and cmdline(pid).endswith("run\0")
    )
    return pid


def pids_of(end: Tool) -> list[str]:
    return subprocess.run(
        ["ip", "netns", "pids", end.namespace], capture_output=True, text=True, check=True
    ).stdout.split()


def cmdline(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def test_a_test_that_does_not_fit_is_ended_within_its_slot(ends: list[Tool]) -> None:
    run = start_run(ends, throughput(duration="PT5S"), seconds=4, late_s=(1.0, 0.0))
    results = run.results()
    late = (
        "the test didn't end before its slot: if the path has a longer round-trip time than "
        "link-rtt, give that"
    )
    assert late in [result["error"] for result in results]
    for result, participant in zip(results, run.participants, strict=True):
        check(result, "result")
        assert not result["succeeded"]
        assert "no test of this run" not in result["error"]
        assert not participant.killed


def nothing_was_started(result: dict[str, Any]) -> None:
    """The diagnostics would have the command of iperf3."""
    assert result["diags"] == ""


@pytest.mark.parametrize("reverse", [None, True], ids=["forward", "reverse"])
def test_a_cca_that_is_missing_on_the_sending_end_fails_before_any_traffic(
    ends: list[Tool], reverse: bool | None
) -> None:
    test = throughput(source="10.99.7.1", congestion="reno,nosuch", reverse=reverse)
    assert ends[0].call("can-run", test)["can-run"]
    run = start_run(ends, test)
    results = run.results()
    sender = "10.99.7.2 (dest" if reverse else "10.99.7.1 (source"
    for result in results:
        check(result, "result")
        assert f"CCA nosuch is not available on {sender}" in result["error"]
        nothing_was_started(result)
    got = ends[0].call("merged-results", {"test": test, "results": results})
    assert got["error"] == f"both participants: {results[0]['error']}"


def test_a_cca_that_is_not_allowed_fails_before_any_traffic(ends: list[Tool]) -> None:
    allowed, forbidden = allowed_and_not()
    if forbidden is None:
        pytest.skip("this kernel allows every CCA that it has")
    run = start_run(ends, throughput(congestion=f"{allowed},{forbidden}"))
    for result in run.results():
        assert f"CCA {forbidden} is not allowed on" in result["error"]
        assert "tcp_allowed_congestion_control is" in result["error"]
        nothing_was_started(result)


def test_a_cca_is_asked_of_the_sender_alone(ends: list[Tool]) -> None:
    """The CCAs of the receiving end don't matter."""
    test = throughput()
    data = [
        end.call("participant-data", {"participant": at, "test": test})
        for at, end in enumerate(ends)
    ]
    data[1]["congestion"] = {"available": ["reno"], "allowed": ["reno"], "default": ["reno"]}
    data[1]["features"] = []
    got = merged(ends, start_run(ends, test, data=data))
    assert got["succeeded"], got


@pytest.fixture
def able(ends: list[Tool]) -> list[Tool]:
    """Yields the ends with a binary that may use every CCA, as an administrator can make it."""
    if not shutil.which("setcap"):
        pytest.skip("there is no setcap: install libcap2-bin")
    binary = ends[0].root / "iperf3-with-capability"
    binary.write_bytes((ends[0].root / IPERF3).read_bytes())
    binary.chmod(0o755)
    subprocess.run(["setcap", "cap_net_admin+ep", binary], check=True)
    conf = ends[0].root / "capability.conf"
    conf.write_text(f"[iperf3mix]\niperf3 = {binary}\n")
    return [Tool(end.root, end.namespace, {"IPERF3MIX_CONF": str(conf)}) for end in ends]


def test_with_a_file_capability_every_cca_may_be_used(able: list[Tool]) -> None:
    allowed, forbidden = allowed_and_not()
    if forbidden is None:
        pytest.skip("this kernel allows every CCA that it has")
    run = start_run(able, throughput(congestion=f"{allowed},{forbidden}"))
    assert run.data is not None
    assert all(data["net-admin"] for data in run.data)
    got = merged(able, run)
    assert got["succeeded"], got
    assert [group["congestion"] for group in got["summary"]["groups"]] == [allowed, forbidden]


def test_a_binary_with_a_file_capability_is_ended_too(able: list[Tool]) -> None:
    """The kernel doesn't end such an iperf3 with the tool, so the tool must end it. No process may
    be left.
    """
    run = start_run(able, throughput(duration="PT30S"), seconds=34)
    for end in able:
        wait_for(
            lambda end=end: [pid for pid in map(int, pids_of(end)) if "iperf3" in name_of(pid)],
            30,
            "iperf3 runs",
        )
    time.sleep(0.5)  # of traffic
    for pid in [run_processes(end) for end in able]:
        os.kill(pid, signal.SIGTERM)
    assert "the run was ended by SIGTERM" in [result["error"] for result in run.results()]


def test_ends_that_do_not_agree_both_fail_before_any_traffic(ends: list[Tool]) -> None:
    test = throughput()
    data = [
        end.call("participant-data", {"participant": at, "test": test})
        for at, end in enumerate(ends)
    ]
    data[0] |= {"schema": 2, "tool-version": "9.9"}
    for result in start_run(ends, test, data=data).results():
        check(result, "result")
        assert "has a newer iperf3mix (9.9" in result["error"]
        nothing_was_started(result)


def test_a_processor_that_is_not_there_is_a_failure(ends: list[Tool]) -> None:
    run = start_run(ends, throughput(client_cpu_affinity=1000), seconds=3)
    assert "CPU 1000 is not one that iperf3 may use here" in run.results()[0]["error"]


def test_runs_end_before_they_begin_when_they_are_cancelled(ends: list[Tool]) -> None:
    run = start_run(ends, throughput(), early_s=20)
    for end in ends:
        wait_for(
            lambda end=end: pids_of(end) and catches_sigterm(run_processes(end)), 30, "it runs"
        )
        os.kill(run_processes(end), signal.SIGTERM)
    assert [result["error"] for result in run.results()] == ["the run was ended by SIGTERM"] * 2


def catches_sigterm(pid: int) -> bool:
    caught = Path(f"/proc/{pid}/status").read_text().split("SigCgt:")[1].split()[0]
    return bool(int(caught, 16) & 1 << (signal.SIGTERM - 1))


def wrong_inputs() -> list[tuple[object, str]]:
    good = {
        "schema": 1,
        "task-uuid": "one",
        "schedule": {"start": "2026-11-21T00:00:00Z", "duration": "PT6S"},
        "test": throughput(),
        "participant": 0,
        "participant-data": [{}, {}],
    }
    return [
        ("", "not JSON"),
        ("[]", "not a JSON object"),
        ("{" * 100_000, "not JSON"),
        ({}, "the test is not an object"),
        (good | {"schema": 2}, "the run's schema is 2"),
        (good | {"participant": 2}, "participant is 2"),
        (good | {"schedule": None}, "the run's schedule can't be read"),
        (good | {"schedule": {"start": "2026-11-21T00:00:00", "duration": "PT6S"}}, "no time zone"),
        (
            good | {"schedule": {"start": "2026-11-21T00:00:00Z", "duration": 6}},
            "the run's schedule can't be read",
        ),
        (good | {"test": throughput(schema=8)}, "the spec's schema is 8"),
        (good | {"participant-data": [{}]}, "did not give the data of 2 participants"),
        (good, "of another tool"),
    ]


@pytest.mark.parametrize(("given", "reason"), wrong_inputs())
def test_wrong_input_is_a_failure_as_data(tool: Tool, given: object, reason: str) -> None:
    result = tool.call("run", given)
    check(result, "result")
    assert not result["succeeded"]
    assert reason in result["error"]


def test_names_that_are_not_known_are_a_failure(tool: Tool) -> None:
    test = throughput(dest="nowhere.invalid", single_ended=True)
    data = [tool.call("participant-data", {"participant": 0, "test": test})]
    run = start_run([tool], test, data=data, seconds=3)
    (result,) = run.results()
    assert "nowhere.invalid has no address" in result["error"]


def test_nobody_reads_the_result(ends: list[Tool]) -> None:
    """The runner has died: the method neither writes a traceback nor hangs."""
    process = subprocess.Popen(
        ends[0].command("run"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    process.stdin.write("{}")
    process.stdin.close()
    assert process.wait(timeout=30) == 0
    assert process.stderr.read() == ""
