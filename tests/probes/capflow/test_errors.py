"""Tests that wrong options, files that are not captures, and damaged captures give a line on
standard error, and no crash.
"""

import random
import subprocess
from pathlib import Path

import pytest

from probes.capflow import frames
from probes.capflow.frames import Talk, pcap, pcapng
from probes.capflow.tool import Capflow


def a_talk() -> Talk:
    talk = Talk()
    talk.handshake(options=frames.mss(1460) + frames.window_scale(7))
    for place in (0, 1, 2, 1):
        talk.a(1 + place * 10, 1, 10, options=frames.timestamps(place, place))
    talk.b(1, 11, options=frames.sack((21, 31)))
    return talk


def line(done: subprocess.CompletedProcess[bytes]) -> str:
    text = done.stderr.decode()
    assert text.startswith("ccmix-capflow: ")
    assert text.count("\n") == 1
    return text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "give one capture"),
        (["a", "b"], "give one capture"),
        (["--interval", "0.9ms", "-"], "from 1ms to 1d"),
        (["--interval", "2d", "-"], "from 1ms to 1d"),
        (["--interval", "10", "-"], "from 1ms to 1d"),
        (["--interval", "ms", "-"], "from 1ms to 1d"),
        (["--interval", "nans", "-"], "from 1ms to 1d"),
        (["--interval"], "--interval needs a value"),
        (["--port", "0", "-"], "1 to 65535"),
        (["--port", "65536", "-"], "1 to 65535"),
        (["--port", "x", "-"], "1 to 65535"),
        (["--host", "example.org", "-"], "IPv4 or IPv6"),
        (["--nothing", "-"], "no option --nothing"),
        (["-x", "-"], "no option -x"),
        (["--series", "--summary", "-"], "only one result"),
        (["--series=/nowhere/at/all", "-"], "/nowhere/at/all: No such file"),
    ],
)
def test_wrong_options(arguments: list[str], words: str, capflow: Capflow) -> None:
    done = capflow.run(*arguments, stdin=pcap([]))
    assert done.returncode == 2
    assert done.stdout == b""
    assert words in line(done)


def test_what_is_no_capture(capflow: Capflow, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("this is not a capture, but has enough letters for one\n")
    (tmp_path / "empty").touch()
    for file, words in (
        ("missing", "No such file"),
        ("text", "unknown file format"),
        ("empty", "truncated"),
        (".", ""),
    ):
        done = capflow.run(tmp_path / file)
        assert done.returncode == 2, file
        assert str(tmp_path / file) in line(done) or not words
        assert words in line(done)
    done = capflow.run("-", stdin=pcap([], link=105))
    assert done.returncode == 2
    assert "standard input: packets of the link type 802.11 can't be read" in line(done)


def test_a_name_cannot_write_to_the_terminal(capflow: Capflow) -> None:
    assert "?[31m" in line(capflow.run("\x1b[31m"))


def test_results_that_cannot_be_written(capflow: Capflow) -> None:
    done = capflow.run("--series=/dev/full", "-", stdin=pcap(a_talk().frames))
    assert done.returncode == 3
    assert "/dev/full: not all could be written" in line(done)


def test_a_reader_that_has_gone(capflow: Capflow) -> None:
    talk = Talk()
    for place in range(3000):
        talk.a(1 + place, 1, 1)
        talk.wait(10)
    process = subprocess.Popen(
        [capflow.binary, "--series", "--interval=10ms", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.close()
    process.stdout = None
    errors = process.communicate(pcap(talk.frames))[1]
    assert process.returncode == 3
    assert b"standard output: not all could be written" in errors


@pytest.mark.parametrize("write", [pcap, pcapng])
def test_a_capture_cut_anywhere_gives_what_stands_before(write: object, capflow: Capflow) -> None:
    assert callable(write)
    talk = a_talk()
    whole = write(talk.frames)
    ends = {len(write(talk.frames[:count])): count for count in range(len(talk.frames) + 1)}
    first = min(ends)
    around = {end + off for end in ends for off in (-1, 0, 1)}
    for length in sorted({*range(0, len(whole), 4), *around} & {*range(len(whole) + 1)}):
        done = capflow.run("--summary-json", "-", stdin=whole[:length])
        if length in ends:
            assert done.returncode == 0
        elif length < first:
            assert done.returncode == 2
        else:
            count = max(number for end, number in ends.items() if end < length)
            assert done.returncode == 1
            assert f"cut or damaged after {count} packets" in line(done)
            assert f'"capture": {{"packets": {count},'.encode() in done.stdout
        if done.returncode:
            line(done)


def test_damaged_captures(capflow: Capflow) -> None:
    """Changes bytes at random in captures of several kinds."""
    random_ = random.Random(7)
    sources = [pcap(a_talk().frames), pcapng(a_talk().frames), pcap(a_talk().frames, snap=70)]
    for _ in range(300):
        capture = bytearray(random_.choice(sources))
        for _ in range(random_.choice((1, 1, 2, 5, 50))):
            at = random_.randrange(len(capture))
            capture[at] = random_.choice(
                (0, 255, 127, 128, random_.randrange(256), capture[at] ^ 1 << random_.randrange(8))
            )
        done = capflow.run("--summary", "-", stdin=bytes(capture))
        assert done.returncode in {0, 1, 2}
        if done.returncode:
            line(done)


@pytest.mark.parametrize("time_ns", [0, 2**63 - 1, 2**63, 2**64 - 1])
def test_times_beyond_all_measure(time_ns: int, capflow: Capflow) -> None:
    talk = a_talk()
    talk.frames[3].time_ns = time_ns
    connection = capflow.connection(pcapng(talk.frames))
    assert connection["a2b"]["payload_bytes"] == 40
    assert connection["a2b"]["ack_rtt_min_s"] >= 0
    assert len(capflow.series(pcapng(talk.frames), "--interval=1d")) >= 4


def test_a_signal_ends_the_reading_and_what_was_read_counts(capflow: Capflow) -> None:
    process = subprocess.Popen(
        [capflow.binary, "--summary-json", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    process.stdin.write(pcap(a_talk().frames))
    process.stdin.flush()
    # It has read all when it sleeps in read(2), with nothing left in the pipe
    while "pipe_read" not in Path(f"/proc/{process.pid}/wchan").read_text():
        assert process.poll() is None
    process.terminate()
    output, errors = process.communicate(timeout=10)
    assert (process.returncode, errors) == (0, b"")
    assert b'"capture": {"packets": 8,' in output


def test_help_and_version(capflow: Capflow) -> None:
    text = capflow.run("--help").stdout.decode()
    assert text.startswith("Usage: ccmix-capflow [OPTION]... FILE|-\n")
    assert (
        "--interval=TIME           length of an interval of the series (1ms to 1d) [default: "
        "100ms]\n" in text
    )
    assert capflow.run("--version").stdout == b"ccmix-capflow 1\n"


def test_text_summary(capflow: Capflow) -> None:
    done = capflow.run("-", stdin=pcap(a_talk().frames))
    lines = [" ".join(text.split()) for text in done.stdout.decode().splitlines()]
    assert lines[0] == "connection 1, not all of it captured"
    assert "a: 10.0.0.1 port 40000" in lines
    assert "unique_bytes 30 0" in lines
    assert "stream_length_bytes - -" in lines
    assert "sack_permitted no no" in lines
    assert lines[-1] == "1 connections in 8 packets, tcp_packets 8"
