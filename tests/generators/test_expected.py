"""Tests the expected time of commands, read only from the command."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccmix.generators.expected import expected_seconds, other_duration_s, prints_a_result


@pytest.mark.parametrize(
    ("command", "seconds"),
    [
        ("iperf3 -c 10.0.0.1", 10),
        ("iperf3 -c a -t 60 -J", 60),
        ("iperf3 -c a -t60 -O 5", 65),
        ("iperf3 -ca -Jt 7", 7),
        ("/usr/local/bin/iperf3 --client a --time=30 --omit 3", 33),
        ("iperf3 -c a -t 5 -t 6", 6),
        (
            "iperf3 -c a -t 60 -C cubic -p 5205 -J -P 8 --fq-rate 20g --zerocopy=z --skip-rx-copy",
            60,
        ),
        ("iperf3 -c a -n 10G", None),
        ("iperf3 -c a --bytes 5", None),
        ("iperf3 -c a -t 0", None),
        ("iperf3 -s -t 60", None),
        ("numactl -N 6-7 /usr/bin/iperf3 -c a -t 60 -4 -P 4", 60),
        ("taskset -c 3 iperf3 -c a -t 9", 9),
        ("sudo -u op iperf3 -c a -t 9", 9),
        ("timeout 20 iperf3 -c a -t 60", 20),
        ("timeout 2m sleep 60", 60),
        ("sudo timeout -k 5 20s iperf3 -c a -t 3", 3),
        ("A=b iperf3 -c a -t 4", 4),
        ("ip netns exec h1 iperf3 -c a", 10),
        ("pscheduler task --format json throughput --parallel 16 --duration PT5M --dest a", 325),
        ("pscheduler task throughput --duration=PT1M30S --dest a", 115),
        ("pscheduler task throughput --dest a", 35),
        ("pscheduler task throughput -t P1DT1S --dest a", 86426),
        ("pscheduler task throughput --duration soon", None),
        ("pscheduler ping a", None),
        ("sleep 3", 3),
        ("sleep 1m 2s", 62),
        ("sleep 0.5", 0.5),
        ("sleep forever", None),
        ("sleep 3; sleep 4 && sleep 5", 12),
        ("sleep 3 | sleep 5", 5),
        ("iperf3 -c a -t 5 -J | tee out", 5),
        ("iperf3 -c a -t 5 > out 2>&1", 5),
        ("cd /tmp && iperf3 -c a -t 5", 5),
        ("for i in 1 2; do sleep 3; done", None),
        ("echo 'sleep 5'", None),
        ("grep iperf3 -t 5", None),
        ("./mine", None),
        ("", None),
        ("iperf3 -c 'a", None),
        ("iperf3", 10),
        ("sleep 2\nsleep 3", 5),
        ("iperf3 -c a -t", None),
    ],
)
def test_how_long_a_command_takes(command: str, seconds: float | None) -> None:
    assert expected_seconds(command) == seconds


WORDS = st.sampled_from(
    [
        "iperf3",
        "pscheduler",
        "task",
        "sleep",
        "timeout",
        "numactl",
        "-t",
        "-c",
        "--time",
        "--duration",
        "PT5M",
        "-O",
        "60",
        "9" * 400,
        "1e9",
        "٣",
        "-",
        "--",
        "=",
        "'",
        '"',
        "\\",
        ";",
        "|",
        "&&",
        "&",
        "\n",
        "$(",
        ")",
        "#",
        "s",
        "nan",
    ]
)


@given(st.text(max_size=60) | st.lists(WORDS, max_size=12).map(" ".join))
def test_any_command(command: str) -> None:
    seconds = expected_seconds(command)
    assert seconds is None or 0 < seconds < 1e20


@pytest.mark.parametrize(
    ("line", "prints"),
    [
        ("pscheduler task --format json throughput --dest b", True),
        ("sudo pscheduler task --format=json throughput --dest b | tee x", True),
        ("true; /usr/bin/pscheduler task --format json throughput", True),
        ("pscheduler task --format json throughput > x", False),
        ("pscheduler task --format none throughput", False),
        ("pscheduler task throughput", False),
        ("iperf3 --format json", False),
        ("pscheduler task --format", False),
    ],
)
def test_whether_pscheduler_prints_a_result(line: str, prints: bool) -> None:
    assert prints_a_result(line) == prints


@pytest.mark.parametrize(
    ("command", "duration_s", "other_s"),
    [
        ("iperf3 -c a -J -t 300", 10, 300),
        ("iperf3 -c a -J --time=300", 300, None),
        ("iperf3 -c a", 60, 10),
        ("iperf3 -c a -t 30 -O 5", 30, None),
        ("iperf3 -c a -t 30 -O 5", 35, None),
        ("iperf3 -c a -t 30 -O 5", 36, 30),
        ("sleep 2; iperf3 -c a -t 30 | tee log", 30, None),
        ("sleep 2; iperf3 -c a -t 30 | tee log", 20, 30),
        ("iperf3 -c a -n 1G", 20, None),
        ("iperf3 -c a -t 30 & iperf3 -c b -t 60", 10, None),
        ("pscheduler task throughput --dest a --duration PT60S", 60, None),
        ("pscheduler task throughput --dest a -t PT5M", 60, 300),
        ("./mine -t 300", 10, None),
    ],
)
def test_a_duration_that_the_command_contradicts(
    command: str, duration_s: float, other_s: float | None
) -> None:
    assert other_duration_s(command, duration_s) == other_s
