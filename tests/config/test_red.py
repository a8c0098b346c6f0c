"""Tests against tc itself which parameters of Random Early Detection are refused."""

import itertools
import shutil
import subprocess

import pytest

from ccmix.config.queues import read_queue, read_sender_queue, red_refusal

GIVEN = (
    "",
    "burst 1",
    "burst 20",
    "burst 10000",
    "min 100b",
    "min 30kb max 90kb",
    "max 2kb",
    "probability 100%",
    "min 30kb",
)
RED = [
    f"red limit {limit} avpkt {packet} {given}"
    for limit, packet, given in itertools.product(
        ("1kb", "4kb", "100kb", "4gb"), ("64b", "1kb", "1500b"), GIVEN
    )
]
CHOKE = [
    f"choke limit {limit} bandwidth 10mbit {given}"
    for limit, given in itertools.product(
        (3, 10, 100, 1000, 100000, 900000000),
        (
            "",
            "burst 1",
            "burst 50",
            "min 10 max 20",
            "min 10 max 20 burst 100",
            "min 300",
            "max 2000",
            "max 30",
        ),
    )
]
SFQ = [
    f"sfq {given}"
    for given in (
        "perturb 10",
        "ecn",
        "harddrop",
        "max 3kb",
        "burst 3",
        "redflowlimit 1kb",
        "redflowlimit 100kb",
        "redflowlimit 100kb burst 1",
        "redflowlimit 100kb min 3kb",
        "redflowlimit 100kb max 3kb",
        "redflowlimit 4gb",
    )
]
NO_DEVICE = "Cannot find device"  # tc's message if it accepted all parameters


def refused_by_tc(words: str) -> bool:
    argv = ["tc", "qdisc", "add", "dev", "none0", "root", *words.split()]
    said = subprocess.run(argv, capture_output=True, text=True, check=False).stderr
    return NO_DEVICE not in said


@pytest.mark.skipif(
    not shutil.which("tc"), reason="tc is missing: install the Debian package iproute2"
)
@pytest.mark.parametrize("kind", ["red", "choke", "sfq"])
def test_what_tc_refuses_is_refused_and_nothing_else(kind: str) -> None:
    """Except averages that only the kernel refuses, because it can't count them in 32 bits."""
    seen = set()
    for text in {"red": RED, "choke": CHOKE, "sfq": SFQ}[kind]:
        try:
            queue = read_sender_queue(text)
        except ValueError as error:
            message = str(error)
            if "the kernel can't count" in message or "not less than its max" in message:
                continue
            assert refused_by_tc(tc_words(text)), f"{text}: {message}"
            seen.add(True)
        else:
            assert not refused_by_tc(f"{queue.kind} {' '.join(queue.parameters)}"), text
            seen.add(False)
    assert seen == {True, False}


@pytest.mark.parametrize(
    ("limit", "takes"),
    [(12_500_000, False), (6_000_000, True)],
    ids=["10 Gbit/s and 10 ms", "half of it"],
)
def test_averages_that_the_kernel_cannot_count(limit: int, takes: bool) -> None:
    """The lab's kernel 7.2 accepted and refused these with avpkt 1514; tc accepts both."""
    refusal = red_refusal(read_queue("red"), limit, 1514) or ""
    assert ("which the kernel can't count" in refusal) != takes


def tc_words(text: str) -> str:
    """Returns the words in tc's form: a size in bytes has no unit, and a probability is a share."""
    for unit, factor in (("gb", 10**9), ("kb", 1000), ("b", 1)):
        text = " ".join(
            str(int(word.removesuffix(unit)) * factor)
            if word.endswith(unit) and word[0].isdigit()
            else word
            for word in text.split()
        )
    return text.replace("100%", "1")


def test_a_bottleneck_has_the_buffer_and_packets_of_its_path() -> None:
    queue = read_queue("red burst 5")
    assert "burst 6 or more" in (red_refusal(queue, limit=100_000, packet_bytes=1514) or "")
    assert red_refusal(queue, limit=30_000, packet_bytes=1514) is None
    with pytest.raises(ValueError, match="has burst without redflowlimit"):
        read_queue("sfq burst 5")
