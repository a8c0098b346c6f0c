"""Tests the reading of ping's output."""

import pytest

from ccmix.generators.results import GeneratorError
from ccmix.run.ping import rtts_s

ANSWER = "64 bytes from 10.0.0.2: icmp_seq=1 ttl=64 time={} ms\n"


def test_times_are_in_seconds() -> None:
    text = (
        ANSWER.format("0.045")
        + ANSWER.format("88")
        + "2 packets transmitted, 2 received, time 1001ms\n"
    )
    assert rtts_s(text, "dtn") == pytest.approx((45e-6, 0.088))


@pytest.mark.parametrize("time", ["nan", "inf", "-1", "", "1,5"])
def test_what_is_no_time_is_refused(time: str) -> None:
    with pytest.raises(
        GeneratorError, match=f"ping on dtn printed 'time={time}', which is not a time"
    ):
        rtts_s(ANSWER.format(time), "dtn")
