"""Tests that mutated archives, replies of workers and job folders are refused with a sentence, or
read: no other exception, no hang, no memory, nothing outside the folder.
"""

import io
import json
import random
import resource
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ccmix.archive import ArchiveError, Campaign, RunFolder
from ccmix.archive.codec import MEASUREMENT
from ccmix.archive.packed import opened, pack_folder
from ccmix.cluster.messages import KERNEL, USERLAND, Reply, decoded, encoded
from ccmix.cluster.worker import WrongReplyError, store_reply
from ccmix.generators.results import GeneratorError
from ccmix.lab import GuestError
from ccmix.model import (
    Counters,
    Facts,
    Group,
    Measurement,
    QdiscCounters,
    Run,
    run_files,
)
from ccmix.run.campaign import Attempt
from ccmix.run.machines import _files_checked, _measurement
from support.arriving_runs import made_with, packed
from support.finished_runs import campaign_plan, finished_run
from support.model import TOPOLOGY, iperf3_traffic

pytestmark = pytest.mark.long

MUTATIONS = 250  # of each kind
MOST_MEMORY_BYTES, LONGEST_S = 2**30, 60.0
RUN = Run("e", {}, "receiver", 1, 7, iperf3_traffic((Group("cubic"),), 1, 1.0, 0.0, 0.1), TOPOLOGY)
FACTS = made_with("k" * 64, "u" * 64)
NEEDED = {KERNEL: "k" * 64, USERLAND: "u" * 64, **(FACTS.lab_programs or {})}
INSERTED = (
    b"[" * 5000,
    b"\xff\xfe",
    b"\0" * 100,
    b"1e999",
    b'"\\ud800"',
    b"../",
    b"{}" * 50,
    b"-1",
)


def mutated(content: bytes, dice: random.Random) -> bytes:
    """Returns the content with some bytes changed, removed, repeated or inserted."""
    changed = bytearray(content)
    for _ in range(dice.randint(1, 4)):
        place = dice.randrange(len(changed) + 1)
        match dice.randrange(5):
            case 0:
                changed[place : place + 1] = dice.randbytes(1)
            case 1:
                del changed[place : place + dice.randint(1, 200)]
            case 2:
                changed[place:place] = changed[: dice.randint(1, 2000)]
            case 3:
                changed[place:place] = dice.choice(INSERTED)
            case 4:
                del changed[place:]
    return bytes(changed)


def read_archive(content: bytes, folder: Path) -> None:
    file = folder / "a.zip"
    file.write_bytes(content)
    with opened([file]) as archives:
        for _ in Campaign.load(archives.folders[0]).finished():
            pass


def read_reply(content: bytes, folder: Path) -> None:
    attempt = Attempt(RUN, RUN, RunFolder.of(folder / "out", RUN), (), lambda: None)
    store_reply(attempt, NEEDED, decoded(content), None)


def read_job(content: bytes, folder: Path) -> None:
    (folder / run_files.FACTS).write_bytes(content)
    with _files_checked(folder, 10**8):
        pass
    _measurement(folder)


def archive(folder: Path) -> bytes:
    campaign = Campaign.create(folder / "campaign", campaign_plan((RUN,)))
    made = RunFolder.of(campaign.outdir, RUN)
    made.begin()
    made.finish(finished_run(RUN))
    out = io.BytesIO()
    pack_folder(campaign.outdir, out)
    return out.getvalue()


def reply(folder: Path) -> bytes:
    return encoded(
        replace(Reply("finished", "a reason"), files=packed(folder / "made", RUN, FACTS))
    )


def job(_: Path) -> bytes:
    counters = Counters(
        qdiscs={"data-delay": (QdiscCounters("eth0", "fq", "8001:", None, 0, 1, 0, 0, 0),)},
        netstat={"h1": "TcpExt: TCPMemoryPressures\nTcpExt: 0\n"},
        softnet={"localhost": "00000001 00000000\n"},
    )
    facts = Facts("7", kernel_version="7", iperf3="3", sysctls={}, offloads={})
    measured = Measurement(
        facts=facts,
        started_s=1000.0,
        ended_s=1002.0,
        ping_rtt_s={},
        before=counters,
        after=counters,
    )
    return json.dumps(MEASUREMENT.encode(measured)).encode()


@pytest.mark.parametrize(
    ("original", "read"),
    [(archive, read_archive), (reply, read_reply), (job, read_job)],
    ids=["archives", "replies", "job folders"],
)
def test_mutations(
    original: Callable[[Path], bytes], read: Callable[[bytes, Path], None], tmp_path: Path
) -> None:
    content, outcomes = original(tmp_path), Counter[str]()
    read(content, inner(tmp_path, "whole"))
    before_bytes = most_memory_bytes()
    for number in range(MUTATIONS):
        begin = time.monotonic()
        try:
            read(mutated(content, random.Random(number)), inner(tmp_path, str(number)))
            outcomes["read"] += 1
        except (ArchiveError, GeneratorError, GuestError, WrongReplyError):
            outcomes["refused"] += 1
        assert time.monotonic() - begin < LONGEST_S
    assert most_memory_bytes() - before_bytes < MOST_MEMORY_BYTES
    assert outcomes["refused"] > MUTATIONS / 4
    print(f"{MUTATIONS} mutations of {original.__name__}: {dict(outcomes)}")


def inner(folder: Path, name: str) -> Path:
    made = folder / name
    made.mkdir()
    return made


def most_memory_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
