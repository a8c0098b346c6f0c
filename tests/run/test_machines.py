"""What is said of a measuring process that failed."""

from pathlib import Path

import pytest

from ccmix.generators.results import GeneratorError
from ccmix.model import run_files
from ccmix.run.machines import _finish_job


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ("iperf3 ended with status 1\n", "iperf3 ended with status 1"),
        (None, "the measuring process ended with status 3"),
        ("", "the measuring process ended with status 3, and had no room to write why: is the disk full?"),
    ],
    ids=["reason", "no file", "empty file"],
)
def test_reason_of_a_failed_run(written: str | None, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / run_files.JOB).write_bytes(b"")
    if written is not None:
        (tmp_path / run_files.ERROR).write_text(written)
    with pytest.raises(GeneratorError) as error:
        _finish_job(tmp_path, 3)
    assert str(error.value) == sentence
    assert not (tmp_path / run_files.JOB).exists()
