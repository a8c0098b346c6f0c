"""Tests ccmix's client of pScheduler's REST interface against a stand-in for a server, over TLS,
with faults.
"""

import re
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ccmix.generators.pscheduler import ledger, rest, runs, task
from ccmix.generators.pscheduler.rest import (
    Interrupted,
    Interruption,
    PschedulerError,
    PschedulerServer,
)
from ccmix.generators.pscheduler.runs import ScheduledRun, Tasks
from ccmix.generators.pscheduler.task import split
from ccmix.generators.results import GeneratorError
from ccmix.model import Destination, Group, HostPath, PschedulerSource, PschedulerTask, Run, Traffic
from support.commands import wait_for
from support.pscheduler_stand_in import (
    Certificate,
    Fault,
    StandIn,
    certificate,
    fails,
    serving,
    succeeds,
)

CLOCK_READ_S = (
    20.0  # a starved machine reads the server's clock that long, and knows it to half of that
)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch, state: Path) -> None:
    """Makes the client less patient, and gives it its own state folder."""
    monkeypatch.setenv("CCMIX_STATE", str(state))
    monkeypatch.setattr(rest, "BACK_OFF_S", (0.05, 0.2))
    monkeypatch.setattr(runs, "LOOKS_EACH_S", 0.2)
    monkeypatch.setattr(runs, "READY_BEFORE_S", 0.2)
    monkeypatch.setattr(runs, "ANSWERS_AGAIN_WITHIN_S", 2.0)


@pytest.fixture
def stand_in(shown: Certificate) -> Iterator[StandIn]:
    server = StandIn(succeeds, starts_after_s=0.3)
    server.slot_s = 0.2
    with serving(server, shown):
        yield server


Asked = Callable[..., Run]


@pytest.fixture
def asked(stand_in: StandIn, shown: Certificate) -> Asked:
    """Returns a run of 1 s by the stand-in, with further settings of its task."""

    def make(iteration: int = 1, **task: Any) -> Run:
        usual = PschedulerTask(
            stand_in.address, None, True, None, 300.0, 5.0, tls_ca=str(shown.certificate)
        )
        path = HostPath("localhost", Destination("b", "10.0.0.2", "b"), "perfSONAR")
        source = PschedulerSource("", "src", (Group("bbr"),), 1, replace(usual, **task))
        return Run("mesh", {}, "b", iteration, 7, Traffic((source,), 1.0, 0.0, 0.5), path)

    return make


class Said(list[str]):
    """Keeps a log."""

    def __call__(self, text: str) -> None:
        self.append(text)


def carried_out(run: Run, tasks: Tasks | None = None, log: runs.Log | None = None) -> ScheduledRun:
    with (tasks or Tasks(Said())).slot(run, None, log if log is not None else Said()) as slot:
        slot.finish(run.host_path.timeout_s)
    return slot


def once_scheduled(act: Callable[[], None]) -> runs.Log:
    """Returns a log that acts on the message that the run's slot is known."""

    def log(text: str) -> None:
        if " begins at " in text:
            act()

    return log


def failure(run: Run, tasks: Tasks | None = None, log: runs.Log | None = None) -> str:
    with pytest.raises(PschedulerError) as caught:
        carried_out(run, tasks, log)
    assert isinstance(caught.value, GeneratorError)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_run_of_a_stand_in(stand_in: StandIn, asked: Asked) -> None:
    log = Said()
    slot = carried_out(asked(), log=log)
    [run] = stand_in.only_task.runs
    assert slot.record["run"]["result-merged"]["succeeded"] is True
    assert len(slot.record["run"]["result-full"]) == 2
    assert slot.record["task"]["test"]["spec"]["dest"] == "10.0.0.2"
    assert stand_in.only_task.document["_key"] not in str(slot.record)
    assert slot.begins_s == pytest.approx(run.begins_s, abs=CLOCK_READ_S)
    assert not stand_in.only_task.cancelled
    url = f"https://{stand_in.address}/pscheduler/{slot.task.path}"
    by_hand = f"pscheduler cancel --key {stand_in.only_task.document['_key']} {url}"
    assert any(by_hand in line for line in log), "the log says how the task is cancelled from here"


def test_times_are_of_our_clock(stand_in: StandIn, asked: Asked) -> None:
    stand_in.ahead_s = 3600.0
    slot = carried_out(asked())
    assert slot.begins_s == pytest.approx(stand_in.only_task.runs[0].begins_s, abs=CLOCK_READ_S)
    assert Tasks(Said()).clocks(slot)[stand_in.address]["ahead_s"] == pytest.approx(
        3600.0, abs=CLOCK_READ_S
    )


def test_a_clock_that_nobody_knows(stand_in: StandIn, asked: Asked) -> None:
    stand_in.faults = [Fault("/clock$", times=9, status=500, body="Unable to fetch clock state")]
    slot = carried_out(asked())
    tasks = Tasks(Said())
    clocks = tasks.clocks(slot)
    assert "Unable to fetch clock state" in clocks[stand_in.address]["error"]
    assert "error" in clocks["10.0.0.2"]
    assert tasks.clocks(slot)["10.0.0.2"] is clocks["10.0.0.2"], "nobody waits for it twice"


# TLS


def test_a_certificate_of_nobody_whom_we_trust(stand_in: StandIn, asked: Asked) -> None:
    assert "give the file of that certificate, or of its issuer's, with tls-ca" in failure(
        asked(tls_ca=None)
    )
    assert stand_in.asked == []


def test_another_s_certificate(stand_in: StandIn, asked: Asked, tmp_path: Path) -> None:
    other = certificate(tmp_path / "other")
    assert f"is not one of {other.certificate}" in failure(asked(tls_ca=str(other.certificate)))
    assert stand_in.asked == []


@pytest.mark.parametrize(
    ("names", "days", "sentence"),
    [
        ("DNS:ps1.example.org", 2, "Hostname mismatch"),
        ("DNS:localhost", -1, "its certificate has expired"),
    ],
)
def test_a_trusted_certificate_that_is_wrong(
    names: str, days: int, sentence: str, asked: Asked, tmp_path: Path
) -> None:
    wrong = certificate(tmp_path / "wrong", names, days)
    server = StandIn(succeeds)
    with serving(server, wrong):
        assert sentence in failure(asked(lead=server.address, tls_ca=str(wrong.certificate)))
    assert server.asked == []


def test_nothing_is_ever_sent_without_verification() -> None:
    context = task.trusting(None)
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)


def test_a_server_without_tls(asked: Asked) -> None:
    import http.server  # noqa: PLC0415

    server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
    threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
    ).start()
    try:
        assert "no TLS connection" in failure(asked(lead=f"localhost:{server.server_address[1]}"))
    finally:
        server.shutdown()
        server.server_close()


# Servers in trouble


def test_a_server_that_is_busy_says_when_to_come_back(stand_in: StandIn, asked: Asked) -> None:
    stand_in.faults = [
        Fault("POST", status=429, headers={"Retry-After": "1"}),
        Fault("runs", 3, status=503),
    ]
    begin = time.monotonic()
    carried_out(asked())
    assert time.monotonic() - begin > 1 + stand_in.starts_after_s + 1
    assert [what for what in stand_in.asked if what.startswith("POST")] == [
        "POST /pscheduler/tasks"
    ] * 2
    assert len(stand_in.tasks) == 1


def test_a_server_that_stays_busy(stand_in: StandIn, asked: Asked) -> None:
    stand_in.faults = [Fault("POST", times=999, status=429)]
    assert "it is busy (429 Too Many Requests)" in failure(asked(wait_s=0.5))
    assert stand_in.tasks == {}


@pytest.mark.parametrize("after", ["3600", "Fri, 01 Jan 2100 00:00:00 GMT"])
def test_a_server_that_wants_to_be_asked_after_the_limit_is_not(
    after: str, stand_in: StandIn, asked: Asked
) -> None:
    stand_in.faults = [Fault("POST", times=9, status=503, headers={"Retry-After": after})]
    assert "it is busy" in failure(asked())
    assert stand_in.asked.count("POST /pscheduler/tasks") == 1


@pytest.mark.parametrize(
    ("lead", "sentence"),
    [
        ("localhost:1", "Connection refused"),
        ("ps1.example.invalid", "ps1.example.invalid"),
    ],
)
def test_nobody_there(lead: str, sentence: str, asked: Asked) -> None:
    assert sentence in failure(asked(lead=lead))


@pytest.mark.parametrize(
    "fault",
    [Fault("/runs", times=2, hang_up=True), Fault("GET", times=4, delay_s=0.5, right=True)],
    ids=["hangs up", "slow"],
)
def test_a_server_that_is_slow_or_hangs_up(fault: Fault, stand_in: StandIn, asked: Asked) -> None:
    stand_in.faults = [fault, Fault("/pscheduler/$", hang_up=True)]
    carried_out(asked())


@pytest.mark.parametrize(
    "fault",
    [
        Fault(
            "/pscheduler/$", times=99, endless=(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), every_s=0.01
        ),
        Fault("/pscheduler/$", times=99, endless=(b"HTTP/1.1 200 OK\r\nX: ", b"x"), every_s=0.2),
        Fault(
            "/pscheduler/$",
            times=99,
            endless=(
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n1\r\n0\r\n",
                b"X: y\r\n",
            ),
            every_s=0.2,
        ),
        Fault("/pscheduler/$", times=99, delay_s=0.9, right=True),
    ],
    ids=["continue", "header", "trailers", "no answer"],
)
def test_an_answer_that_goes_on_ends_at_the_time_limit(
    fault: Fault, asked: Asked, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also outside the body, where each byte would restart a socket's own time limit."""
    monkeypatch.setattr(rest, "ANSWERS_WITHIN_S", 0.5)
    stand_in.faults = [fault]
    reasons: list[str] = []
    threading.Thread(target=lambda: reasons.append(failure(asked())), daemon=True).start()
    wait_for(lambda: reasons, 60, "the request is given up")
    assert "no answer in time" in reasons[0]


@pytest.mark.parametrize("body", ["", "{", "<html>no</html>", "[" * 100_000])
@pytest.mark.parametrize("what", ["POST", "/runs$", "/runs/"])
def test_an_answer_that_is_not_json(what: str, body: str, stand_in: StandIn, asked: Asked) -> None:
    stand_in.faults = [Fault(what, body=body)]
    assert "is not JSON" in failure(asked())
    assert all(task.cancelled for task in stand_in.tasks.values())


@pytest.mark.parametrize(
    ("what", "body"),
    [
        ("POST", '{"a": 1}'),
        ("POST", '"https://x/pscheduler/clock"'),
        ("/runs$", '["x"]'),
        ("/runs$", "17"),
        ("/runs/", "[]"),
        ("/runs/", '{"state": "pending"}'),
        ("/runs/", '{"state": 1}'),
        ("/runs/", '{"state": "finished", "start-time": "x", "end-time": "y"}'),
        (
            "/runs/",
            '{"state": "finished", "start-time": "2026-11-21T00:00:00", "end-time": '
            '"2026-11-21T00:00:00"}',
        ),
    ],
)
def test_json_that_is_not_what_it_should_be(
    what: str, body: str, stand_in: StandIn, asked: Asked
) -> None:
    """Reports errors other than PschedulerError as for other tools."""
    stand_in.faults = [Fault(what, times=99, body=body)]
    with pytest.raises((PschedulerError, ValueError, LookupError, TypeError)):
        carried_out(asked())
    assert all(task.cancelled for task in stand_in.tasks.values())


@pytest.mark.parametrize("status", [400, 403, 409, 422])
def test_a_task_that_is_refused(status: int, stand_in: StandIn, asked: Asked) -> None:
    reason = "Task forbidden by limits:\nHints:\n  requester: 10.0.0.1\n"
    stand_in.faults = [Fault("POST", times=99, status=status, body=reason)]
    assert failure(asked()).endswith(
        f"POST tasks: {status} Task forbidden by limits: Hints: requester: 10.0.0.1"
    )
    assert stand_in.asked.count("POST /pscheduler/tasks") == 1


@pytest.mark.parametrize("acts", [False, True])
def test_a_server_that_fails_now_and_then_is_asked_again(
    acts: bool, stand_in: StandIn, asked: Asked
) -> None:
    """Posts again as often as `retries` allows, and cancels the task of a failed posting."""
    stand_in.faults = [
        Fault("POST", times=2, status=500, body="Error getting tools", acts=acts),
        Fault("/runs/", times=2, status=500, body="Out of memory"),
    ]
    run = asked()
    carried_out(replace(run, path=replace(run.host_path, retries=2)))
    assert stand_in.asked.count("POST /pscheduler/tasks") == 3
    assert [task.cancelled for task in stand_in.tasks.values()] == (
        [True, True, False] if acts else [False]
    )


def test_a_server_that_goes_on_failing(
    stand_in: StandIn, asked: Asked, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in.faults = [Fault("POST", times=99, status=500, body="Error getting tools")]
    assert failure(asked()).endswith("POST tasks: 500 Error getting tools")
    assert stand_in.asked.count("POST /pscheduler/tasks") == 1
    assert list(state.glob("*")) == []
    monkeypatch.setattr(rest, "FAILS_FOR_S", 0.5)
    stand_in.faults = [Fault("GET /pscheduler/$", times=99, status=500, body="Out of memory")]
    assert "500 Out of memory" in failure(asked())


LOST = Fault("POST", hang_up=True, acts=True)
UNUSABLE = [
    Fault("POST", body=answer, acts=True)
    for answer in ("5", '"no address"', "[", '"https://x/pscheduler/tasks/a?b"')
]


@pytest.mark.parametrize("fault", [LOST, *UNUSABLE], ids=lambda fault: str(fault.body))
def test_a_post_whose_answer_is_lost_or_unusable_is_found_again(
    fault: Fault, stand_in: StandIn, asked: Asked
) -> None:
    stand_in.faults = [replace(fault)]
    carried_out(asked())
    assert len(stand_in.tasks) == 1


def test_a_post_that_never_came(stand_in: StandIn, asked: Asked) -> None:
    stand_in.faults = [Fault("POST", hang_up=True)]
    assert "its answer is not HTTP" in failure(asked())
    assert stand_in.tasks == {}


# Runs that come to nothing


def test_a_run_that_failed(stand_in: StandIn, asked: Asked) -> None:
    stand_in.carry = fails
    stand_in.errors = "what the scheduler says"
    reason = failure(asked())
    assert (
        "the run failed: what the scheduler says; iperf3 returned an error: unable to connect"
        in reason
    )
    assert stand_in.only_task.cancelled


@pytest.mark.parametrize("ended_as", ["missed", "preempted", "nonstart", "canceled"])
def test_a_run_without_a_result(ended_as: str, stand_in: StandIn, asked: Asked) -> None:
    stand_in.end_in, stand_in.errors = ended_as, "Run was late:\n2 s"
    assert f"the run was {ended_as}: Run was late: 2 s" in failure(asked())
    assert stand_in.only_task.cancelled


@pytest.mark.parametrize(
    ("ended_as", "merged"),
    [
        ("finished", None),
        ("finished", {"succeeded": False}),
        ("finished", "x"),
        ("failed", {"succeeded": True}),
    ],
)
def test_a_run_is_good_by_its_state_and_its_merged_result(
    ended_as: str, merged: Any, stand_in: StandIn, asked: Asked
) -> None:
    stand_in.carry = lambda _: [{"succeeded": True, "diags": ""}, None]

    def other(task: str, run: Any) -> dict[str, Any]:
        return real(task, run) | (
            {"result-merged": merged, "state": ended_as} if run.results else {}
        )

    real = stand_in._run_document
    stand_in._run_document = other  # type: ignore[method-assign]
    assert "the run failed: it gives no reason" in failure(asked())


def test_a_result_that_does_not_come(
    stand_in: StandIn, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "MERGED_WITHIN_S", 0.5)
    stand_in.merging_s = 60.0
    assert re.search("the run is running: it has no result . s after its start", failure(asked()))
    assert stand_in.only_task.cancelled


def test_a_run_that_never_gets_scheduled(stand_in: StandIn, asked: Asked) -> None:
    stand_in.faults = [Fault("/runs$", times=999, body="[]")]
    assert "no run was scheduled in time" in failure(asked(wait_s=0.6))
    assert stand_in.only_task.cancelled


def test_a_slot_that_is_too_late_is_not_waited_for(stand_in: StandIn, asked: Asked) -> None:
    """Otherwise the client would wait until the test's time is over."""
    stand_in.starts_after_s = 7200.0
    assert "later than wait = 3600 s" in failure(asked(wait_s=3600.0))
    assert stand_in.only_task.cancelled


def test_somebody_else_cancels_before_the_run_begins(stand_in: StandIn, asked: Asked) -> None:
    stand_in.starts_after_s = 600.0
    assert "the run is gone" in failure(
        asked(wait_s=1200.0), log=once_scheduled(stand_in.cancel_only_task)
    )


def test_somebody_else_cancels_in_the_middle_of_the_run(stand_in: StandIn, asked: Asked) -> None:
    """Real servers let it go on."""

    def cancelled_meanwhile(spec: dict[str, Any]) -> list[dict[str, Any] | None]:
        stand_in.cancel_only_task()
        return succeeds(spec)

    stand_in.carry = cancelled_meanwhile
    assert "the run was canceled" in failure(asked())


def test_a_task_that_can_not_be_cancelled_is_reported(
    stand_in: StandIn, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "CANCELS_WITHIN_S", 0.5)
    stand_in.starts_after_s = 3600.0
    stand_in.faults = [Fault("DELETE", times=99, hang_up=True)]
    log = Said()
    with pytest.raises(PschedulerError):
        carried_out(asked(), log=log)
    [name] = stand_in.tasks
    assert f"give pscheduler cancel https://localhost/pscheduler/tasks/{name}" in log[-1]
    assert "'ccmix restore' tries again" in log[-1]
    stand_in.faults = []
    url = f"https://{stand_in.address}/pscheduler/tasks/{name}"
    assert list(ledger.cancel_left()) == [(f"pScheduler task {url}", None)]
    assert stand_in.only_task.cancelled
    assert list(ledger.cancel_left()) == []


@pytest.mark.parametrize("fault", [LOST, UNUSABLE[0]], ids=["lost", "unusable"])
def test_a_posting_that_nobody_knows_of_is_left_to_restore(
    fault: Fault, stand_in: StandIn, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "CANCELS_WITHIN_S", 0.3)
    stand_in.starts_after_s = 3600.0
    stand_in.faults = [
        replace(fault),
        Fault("GET /pscheduler/tasks$", times=99, hang_up=True),
    ]
    assert "it is not known whether the task was posted" in failure(asked())
    [(what, reason)] = ledger.cancel_left()
    assert what == f"a pScheduler task that may have been posted to {stand_in.address}"
    assert reason
    stand_in.faults = []
    [(what, reason)] = ledger.cancel_left()
    url = f"pScheduler task https://{stand_in.address}/pscheduler/"
    assert (what.partition("tasks/")[0], reason) == (url, None)
    assert stand_in.only_task.cancelled


def test_records_of_tasks_that_are_over_or_of_living_campaigns_are_left_alone(
    stand_in: StandIn, asked: Asked, state: Path
) -> None:
    carried_out(asked())
    assert list(state.glob("*")) == []
    with Tasks(Said()).slot(asked(), None, Said()) as slot:
        [record] = state.glob("*")
        assert record.stat().st_mode & 0o777 == 0o600
        assert list(ledger.cancel_left()) == []
        slot.finish(None)
    assert not any(task.cancelled for task in stand_in.tasks.values())


# Slips, repeats, interruptions


def test_a_slip_ends_where_the_latest_start_is(stand_in: StandIn, asked: Asked) -> None:
    with Tasks(Said()).slot(asked(), time.time() + 60, Said()) as slot:
        slot.finish(None)
    slip = stand_in.only_task.document["schedule"]["slip"]
    assert 50 < float(slip.removeprefix("PT").removesuffix("S")) <= 60


def test_the_runs_of_a_repeated_task_are_the_iterations(stand_in: StandIn, asked: Asked) -> None:
    told = Said()
    tasks = Tasks(told)
    slots = [carried_out(asked(number, repeat_s=1.5, most_runs=3), tasks) for number in (1, 2)]
    task = stand_in.only_task
    assert (task.document["schedule"]["repeat"], task.document["schedule"]["max-runs"]) == (
        "PT1.5S",
        3,
    )
    assert [slot.path.rpartition("/")[2] for slot in slots] == [
        run.identity for run in task.runs[:2]
    ]
    assert not task.cancelled
    tasks.close()
    assert told == []
    assert task.cancelled


def test_a_repeated_task_one_of_whose_runs_failed_is_posted_anew(
    stand_in: StandIn, asked: Asked
) -> None:
    tasks = Tasks(Said())
    stand_in.carry = fails
    failure(asked(1, repeat_s=2, most_runs=3), tasks)
    stand_in.carry = succeeds
    carried_out(asked(2, repeat_s=2, most_runs=3), tasks)
    first, second = stand_in.tasks.values()
    assert (first.cancelled, second.cancelled) == (True, False)
    assert second.document["schedule"]["max-runs"] == 2


@pytest.mark.parametrize("where", ["POST", "/runs$", "/runs/", "nowhere"])
def test_an_interruption_cancels_at_once(where: str, stand_in: StandIn, asked: Asked) -> None:
    """Interrupts in the middle of any request, or while it waits for the slot."""
    stand_in.starts_after_s = 600.0
    fault = Fault(where, times=99, delay_s=600.0, acts=True)
    stand_in.faults = [fault]
    tasks = Tasks(Said())
    errors: list[BaseException] = []

    def work() -> None:
        try:
            carried_out(asked(wait_s=1200.0), tasks, once_scheduled(fault.begun.set))
        except PschedulerError as error:
            errors.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert fault.begun.wait(60)
    tasks.interrupt()
    thread.join(60)
    assert not thread.is_alive(), "it waits for the answer, or for the slot"
    assert isinstance(errors[0], Interrupted)
    assert stand_in.only_task.cancelled


def test_an_interruption_before_anything(asked: Asked) -> None:
    tasks = Tasks(Said())
    tasks.interrupt()
    with pytest.raises(Interrupted):
        carried_out(asked(), tasks)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("ps1", ("ps1", 443)),
        ("ps1:8443", ("ps1", 8443)),
        ("2001:db8::1", ("2001:db8::1", 443)),
        ("[2001:db8::1]", ("2001:db8::1", 443)),
        ("[2001:db8::1]:8443", ("2001:db8::1", 8443)),
    ],
)
def test_addresses(text: str, parts: tuple[str, int]) -> None:
    assert split(text) == parts
    assert (
        PschedulerServer(text, None, Interruption()).another("2001:db8::2").address
        == "[2001:db8::2]"
    )
