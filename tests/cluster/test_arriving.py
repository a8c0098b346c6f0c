"""Tests the handling of replies from a worker: they are checked like third-party archives."""

import hashlib
import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ccmix.archive import ArchiveError, RunFolder
from ccmix.cluster import messages
from ccmix.cluster.messages import KERNEL, USERLAND, Reply, decoded, encoded
from ccmix.cluster.worker import WrongReplyError, store_reply
from ccmix.generators.results import GeneratorError
from ccmix.model import Group, GuestRoot, LabKernel, Run
from ccmix.run.campaign import Attempt
from support.arriving_runs import made_with, packed
from support.model import TOPOLOGY, iperf3_traffic

MADE_WITH = made_with("k" * 64, "u" * 64)
NEEDED = {KERNEL: "k" * 64, USERLAND: "u" * 64, **(MADE_WITH.lab_programs or {})}


@pytest.fixture
def attempt(tmp_path: Path) -> Attempt:
    run = Run(
        "e", {}, "receiver", 1, 7, iperf3_traffic((Group("cubic"),), 1, 1.0, 0.0, 0.1), TOPOLOGY
    )
    return Attempt(run, run, RunFolder.of(tmp_path / "out", run), (), lambda: None)


def zipped(**members: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        for name, text in members.items():
            file.writestr(name, text)
    return out.getvalue()


def test_a_finished_run_is_put_in_its_place(attempt: Attempt, tmp_path: Path) -> None:
    reply = decoded(
        encoded(Reply("finished", files=packed(tmp_path / "made", attempt.run, MADE_WITH)))
    )
    finished = store_reply(replace(attempt, failures=("once",)), NEEDED, reply, None)
    assert finished.execution.retries == ("once",)
    assert attempt.folder.read() == finished
    assert (attempt.folder.path / "logs" / "guest.log").read_text() == "boots\n"


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (lambda whole: whole[:-100], "damaged"),
        (lambda whole: whole.replace(b"guest.log", b"guest.lag", 1), "damaged"),
        (lambda _: b"", "run.json"),
        (lambda _: zipped(**{"../run.json": "{}"}), "is not a path within a folder"),
        (lambda _: zipped(**{"run.json": "{}"}), "has no schema number"),
        (lambda _: zipped(**{"run.json": json.dumps({"schema": 4})}), "Field required"),
    ],
)
def test_what_is_no_finished_run_is_refused(
    files: Callable[[bytes], bytes], said: str, attempt: Attempt, tmp_path: Path
) -> None:
    reply = Reply("finished", files=files(packed(tmp_path / "made", attempt.run, MADE_WITH)))
    with pytest.raises(WrongReplyError, match=f"its reply is not a finished run: .*{said}"):
        store_reply(attempt, NEEDED, reply, None)
    assert not attempt.folder.finished
    assert not (tmp_path / "run.json").exists()


def test_another_run_is_refused(attempt: Attempt, tmp_path: Path) -> None:
    files = packed(tmp_path / "made", replace(attempt.run, seed=8), MADE_WITH)
    with pytest.raises(WrongReplyError, match="sent another run than e all #1"):
        store_reply(attempt, NEEDED, Reply("finished", files=files), None)
    assert not attempt.folder.finished


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"lab_kernel": LabKernel("stock", "o" * 64, "7.2")}, "another kernel: o{64}, not k{64}"),
        ({"lab_kernel": None}, "another kernel: None"),
        ({"guest_root": GuestRoot("o" * 64, True)}, "another root of the guest: o{64}, not u{64}"),
        ({"guest_root": GuestRoot(None, False)}, "another root of the guest: None"),
        ({"guest_root": None}, "another root of the guest"),
        ({"lab_programs": {"iperf3": "o" * 64}}, "another iperf3: o{64}, not i{64}"),
    ],
)
def test_a_run_that_was_made_with_other_files_is_refused(
    change: dict[str, Any], said: str, attempt: Attempt, tmp_path: Path
) -> None:
    files = packed(tmp_path / "made", attempt.run, replace(MADE_WITH, **change))
    with pytest.raises(WrongReplyError, match=f"it made the run with {said}"):
        store_reply(attempt, NEEDED, Reply("finished", files=files), None)
    assert not attempt.folder.finished


@pytest.mark.deep
def test_a_shared_file_of_more_than_2_gib_is_read_whole(attempt: Attempt, tmp_path: Path) -> None:
    """Gives a file of zeros the expected hash, so that only its content is refused."""
    file = tmp_path / "large.zip"
    with file.open("wb") as content:
        content.truncate(2**31 + 1)
    with file.open("rb") as content:
        sha256 = hashlib.file_digest(content, "sha256").hexdigest()
    with pytest.raises(WrongReplyError, match="damaged"):
        store_reply(attempt, NEEDED, Reply("finished", shared=file.name, sha256=sha256), tmp_path)


def test_the_shared_folder_is_read_by_the_hash(attempt: Attempt, tmp_path: Path) -> None:
    files, shared = packed(tmp_path / "made", attempt.run, MADE_WITH), tmp_path / "shared"
    shared.mkdir()
    (shared / "run.zip").write_bytes(files)
    there = Reply("finished", shared="run.zip", sha256=hashlib.sha256(files).hexdigest())
    for wrong in (replace(there, sha256="0" * 64), replace(there, shared="../shared/run.zip")):
        with pytest.raises(WrongReplyError, match="not a finished run"):
            store_reply(attempt, NEEDED, wrong, shared)
    assert store_reply(attempt, NEEDED, there, shared).run == attempt.run
    assert not list(shared.iterdir())


def test_a_failed_run_names_its_folder_here(attempt: Attempt) -> None:
    reply = Reply(
        "failed",
        reason="/w/run.partial/x: broken",
        folder="/w/run.partial",
        files=zipped(x="1"),
    )
    with pytest.raises(GeneratorError, match=f"^{attempt.folder.partial}/x: broken$"):
        store_reply(attempt, NEEDED, reply, None)
    assert (attempt.folder.partial / "x").read_text() == "1"


@pytest.mark.parametrize(
    "content", [b"", b"{}\n", b"[]\n", b'{"outcome": "other"}\n', "text", 7, None]
)
def test_what_is_no_reply_is_refused(content: object) -> None:
    with pytest.raises(ArchiveError, match="the answer of a worker"):
        decoded(content)


def test_a_reply_says_no_more_than_it_may() -> None:
    said = json.loads(encoded(Reply("unfit", reason="a")).partition(b"\n")[0])
    assert decoded(json.dumps(said).encode() + b"\n").reason == "a"
    with pytest.raises(ArchiveError):
        decoded(json.dumps(said | {"outcome": "done"}).encode() + b"\n")
    assert messages.MOST_THROUGH_DASK_BYTES == 64 * 2**20
