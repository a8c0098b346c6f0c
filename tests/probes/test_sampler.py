"""Tests when and how often commands are repeated, and how a probe that can't keep up or fails
reports it.
"""

import json
import time
from pathlib import Path

import pytest

from ccmix.hosts import LocalHost
from ccmix.probes.sampler import PART_CHARACTERS, Sample, read_samples, sample_parts, sampling
from support.commands import wait_for

HOST = LocalHost()
CLOCKS_DIFFER_S = 0.01  # of the wall, which somebody may be setting, and of deadlines


def test_samples_at_the_interval_and_a_last_one_at_the_end(tmp_path: Path) -> None:
    file, text = tmp_path / "samples.jsonl", tmp_path / "text"
    text.write_text("during")
    begin = time.time()
    with sampling(HOST, ["cat", str(text)], 0.1, file) as report:
        wait_for(lambda: report.samples >= 6, 60, "samples")
        text.write_text("after")
        end = time.time()
    samples = read_samples(file)
    assert len(samples) == report.samples
    assert report.failed is None
    outputs = [sample.output for sample in samples]
    during = outputs.count("during")
    assert during >= 6
    assert outputs == ["during"] * during + ["after"] * (len(outputs) - during)
    assert samples[-1].time_s >= end
    assert all(begin <= sample.time_s and sample.seconds > 0 for sample in samples)
    # each deadline but the first, until the last but one sample was taken, was kept or counted as
    # missed
    deadlines = report.samples + report.missed - 2
    last_due = samples[-2]
    assert (
        last_due.time_s + last_due.seconds - samples[0].time_s
        < 0.1 * (deadlines + 1) + CLOCKS_DIFFER_S
    )
    assert samples[-1].time_s - begin > 0.1 * deadlines - CLOCKS_DIFFER_S


def test_deadlines_that_a_slow_command_lets_pass_are_missed(tmp_path: Path) -> None:
    with sampling(HOST, ["sleep", "0.25"], 0.1, tmp_path / "samples.jsonl") as report:
        # deadlines 0 (until .25), 0.1 and 0.2 missed, 0.3 (until .55), 0.4 and 0.5 missed
        wait_for(lambda: report.samples == 2, 60, "samples")
    assert report.failed is None
    assert report.missed >= 2 * (
        report.samples - 1
    )  # two after each but the last; more on a busy machine


def test_a_command_that_fails_ends_the_probe_and_not_the_run(tmp_path: Path) -> None:
    file, switch = tmp_path / "samples.jsonl", tmp_path / "switch"
    switch.touch()
    with sampling(HOST, ["cat", str(switch)], 0.05, file) as report:
        time.sleep(0.15)
        switch.unlink()
        time.sleep(0.2)
        taken = report.samples
        time.sleep(0.1)
    assert report.samples == taken == len(read_samples(file)) > 0
    assert (
        report.failed
        == f"localhost: cat {switch}: exit status 1: cat: {switch}: No such file or directory"
    )


def test_a_file_that_cannot_be_written_is_a_failure_too(tmp_path: Path) -> None:
    with sampling(HOST, ["true"], 0.05, tmp_path / "missing" / "samples.jsonl") as report:
        pass
    assert report.failed is not None
    assert "No such file" in report.failed


def test_the_probe_ends_when_the_run_fails(tmp_path: Path) -> None:
    file = tmp_path / "samples.jsonl"

    def fail() -> None:
        with sampling(HOST, ["true"], 0.05, file):
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    size = file.stat().st_size
    time.sleep(0.15)
    assert file.stat().st_size == size > 0


def test_a_sample_cut_short_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "samples.jsonl"
    whole = '{"time_s": 1.5, "seconds": 0.25, "output": "a\\nb"}\n'
    file.write_text(whole + whole[:-1])
    assert read_samples(file) == [Sample(1.5, 0.25, "a\nb")]
    file.write_text(whole + '{"time_s": 1')
    assert read_samples(file) == [Sample(1.5, 0.25, "a\nb")]


def test_a_file_of_samples_has_a_cap(tmp_path: Path) -> None:
    file = tmp_path / "samples.jsonl"
    with sampling(HOST, ["echo", "x" * 1000], 0.01, file, most_bytes=5000) as report:
        time.sleep(0.5)
    assert file.stat().st_size <= 5000
    assert report.samples == len(read_samples(file)) == 4
    assert report.failed == f"localhost: echo {'x' * 1000} printed more than 5 kB in a run"


def test_samples_come_in_parts_of_bounded_size(tmp_path: Path) -> None:
    """By lines and by characters: a host may print much without a newline. Another end of a
    line is none.
    """
    file = tmp_path / "samples.jsonl"
    outputs = ["a\n" * 5, "b" * PART_CHARACTERS, "c\f" * 9, "", "d\n"]
    file.write_text(
        "".join(
            json.dumps({"time_s": 1, "seconds": 0, "output": output}) + "\n" for output in outputs
        )
    )
    parts = [[sample.output for sample in part] for part in sample_parts(file, 3)]
    assert ["".join(part) for part in parts] == [
        "a\n" * 3,
        "a\n" * 2,
        "b" * PART_CHARACTERS,
        "c\f" * 9 + "d\n",
    ]
