"""Tests entries of type perfSONAR without a src-cmd: the task for pScheduler, and the messages
about mistakes.
"""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ccmix.archive.codec import Codec
from ccmix.config import Config, Problem
from ccmix.generators.pscheduler.task import SLOT_S, STARTS_AFTER_S, task_document, throughput_spec
from ccmix.model import PschedulerTask, Run
from ccmix.plan import make_plan
from support.pscheduler_stand_in import certificate

Files = Callable[..., Config]
Told = Callable[..., tuple[Problem, ...]]
BARE = "[one]\ntype = perfSONAR\ndst = 10.1.2.3\n"
FAR = BARE + "src = ps1.example.org\n"


def first(read: Files, text: str) -> Run:
    return make_plan(read(text).entries, 1)[0]


def asked(read: Files, text: str) -> PschedulerTask:
    task = first(read, text).traffic.task
    assert task
    return task


def test_from_this_machine(read: Files) -> None:
    run = first(read, BARE)
    assert asked(read, BARE) == PschedulerTask(
        lead="localhost", source=None, observed=True, tool=None, slip_s=300.0, wait_s=337.0
    )
    assert run.has_shell
    assert not run.needs_dst_host
    assert throughput_spec(run.host_path, run.traffic) == {
        "schema": 4,
        "dest": "10.1.2.3",
        "duration": "PT10S",
        "interval": "PT1S",
        "parallel": 1,
        "congestion": "cubic",
    }


def test_from_a_host_without_a_shell(read: Files) -> None:
    run = first(read, FAR + "user = dtn\n")
    assert (run.host_path.src, run.has_shell) == ("ps1.example.org", False)
    assert asked(read, FAR).lead == "ps1.example.org"
    assert throughput_spec(run.host_path, run.traffic)["source"] == "ps1.example.org"
    assert asked(read, BARE + "src = 2001:db8::1\n").lead == "[2001:db8::1]"


def test_from_a_host_with_a_shell(read: Files) -> None:
    run = first(read, FAR + "src-host = localhost\npacing = 1gbit\npre-src-cmd = true\n")
    assert (run.host_path.src, run.has_shell) == ("localhost", True)
    assert first(read, FAR + "src-host = ps1\nuser = dtn\n").host_path.src == "dtn@ps1"


def test_a_slot_that_pscheduler_may_choose_is_waited_for(read: Files, told: Told) -> None:
    text = FAR + "slip = 20m\nduration = 60s\nomit = 3s\n"
    assert asked(read, text).wait_s == 20 * 60 + 63 + SLOT_S + STARTS_AFTER_S
    assert asked(read, text + "wait = 20m\n").wait_s == 20 * 60
    [problem] = told(text + "wait = 15m\n")
    assert problem.key == "wait"
    assert "900 s is less than the slip of 1200 s" in str(problem)


def test_the_whole_task(read: Files) -> None:
    run = first(
        read,
        FAR
        + "cca = cubic:8@1G,bbr:8\nstreams = 16\nduration = 1m\nomit = 3s\ninterval = 2s\ntool = "
        "iperf3mix\n"
        "slip = 20m\npriority = 10\nlead = psl:8443\nspec.link-rtt = PT0.3S\nspec.fq-rate = "
        "1000000\n",
    )
    document = task_document(run, "x", 60.5)
    assert json.loads(json.dumps(document)) == {
        "schema": 3,
        "test": {
            "type": "throughput",
            "spec": {
                "schema": 7,
                "source": "ps1.example.org",
                "dest": "10.1.2.3",
                "duration": "PT60S",
                "omit": "PT3S",
                "interval": "PT2S",
                "parallel": 16,
                "congestion": "cubic:8@1000000000,bbr:8",
                "link-rtt": "PT0.3S",
                "fq-rate": 1000000,
            },
        },
        "schedule": {"slip": "PT60.5S"},
        "tools": ["iperf3mix"],
        "priority": 10,
        "reference": {"ccmix": {"id": "x", "entry": "one", "condition": {}, "iteration": 1}},
    }


def test_the_system_s_default_cca_is_not_named(read: Files) -> None:
    run = first(read, FAR + "cca = -\n")
    assert "congestion" not in throughput_spec(run.host_path, run.traffic)


def test_a_repeated_task_is_for_the_iterations_that_are_left(read: Files) -> None:
    runs = make_plan(read(FAR + "repeat = 1h\niterations = 5\n").entries, 1)
    assert task_document(runs[0], "x", 300)["schedule"] == {
        "slip": "PT300S",
        "repeat": "PT3600S",
        "max-runs": 5,
    }
    assert task_document(runs[3], "x", 300)["schedule"]["max-runs"] == 2


@pytest.mark.parametrize(
    "bound",
    [
        "spec.bandwidth = 1000000000\n",
        "spec.fq-rate = 20M\n",
        "cca = cubic@1G\n",
        "src-host = a\npacing = 1gbit\n",
    ],
)
def test_a_budget_is_held_where_the_task_is_bounded(read: Files, bound: str) -> None:
    assert first(read, FAR + "rate-budget = 1TB/day\n" + bound).host_path.rate_budget == (
        1e12,
        86400.0,
    )


def test_sweeps(read: Files) -> None:
    runs = make_plan(
        read(FAR + "sweep.tool = iperf3,nuttcp\nsweep.spec.mss = 1400,8900\n").entries, 1
    )
    said = [(run.traffic.task.tool, run.traffic.task.spec) for run in runs if run.traffic.task]
    assert said == [
        (tool, (("mss", mss),)) for tool in ("iperf3", "nuttcp") for mss in ("1400", "8900")
    ]


def test_a_run_survives_json(read: Files) -> None:
    run = first(read, FAR + "tool = iperf3mix\nspec.mss = 1400\n")
    assert Codec(Run).decode(json.dumps(Codec(Run).encode(run)).encode()) == run


def test_an_original_entry_keeps_its_command(read: Files) -> None:
    run = first(read, BARE + "src-cmd = pscheduler task --format json throughput --dest {dst}\n")
    assert run.traffic.task is None


def test_whom_to_trust(read: Files, tmp_path: Path) -> None:
    made = certificate(tmp_path / "tls")
    assert asked(read, FAR + "tls-ca = tls/certificate.pem\n").tls_ca == str(made.certificate)


@pytest.mark.parametrize(
    ("file", "sentence"),
    [("x.pem", "can't be read: No such file"), ("test.ini", "has no certificate in PEM form")],
)
def test_certificates_that_cannot_be_trusted(told: Told, file: str, sentence: str) -> None:
    [problem] = told(FAR + f"tls-ca = {file}\n")
    assert (problem.line, problem.key) == (5, "tls-ca")
    assert sentence in str(problem)


@pytest.mark.parametrize(
    ("field", "number"),
    [
        ("bandwidth = 1G", 1_000_000_000),
        ("bandwidth = 1.5gbit", 1_500_000_000),
        ("bandwidth = 100 Mbit/s", 100_000_000),
        ("bandwidth = 20Mbps", 20_000_000),
        ("bandwidth = 1e9", 1_000_000_000),
        ("bandwidth = 1000000000", 1_000_000_000),
        ("fq-rate = 2G", 2_000_000_000),
        ("window-size = 64KiB", 65536),
        ("window-size = 2MB", 2_000_000),
        ("buffer-length = 128Ki", 131072),
        ('burst-size = "10"', 10),
    ],
)
def test_numbers_of_a_task_may_have_units(field: str, number: int, read: Files) -> None:
    run = first(read, FAR + f"spec.{field}\n")
    name = field.partition(" ")[0]
    assert throughput_spec(run.host_path, run.traffic)[name] == number


@pytest.mark.parametrize("field", ["bandwidth = fast", "bandwidth = 1GB", "window-size = 2mbit"])
def test_other_words_are_refused_with_a_number_to_write(field: str, told: Told) -> None:
    [problem] = told(FAR + f"spec.{field}\n")
    assert problem.key == f"spec.{field.partition(' ')[0]}"
    assert "write for instance 1000000000 or 1G" in problem.message
