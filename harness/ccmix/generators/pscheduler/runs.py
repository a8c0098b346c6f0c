"""Posts the tasks of an entry at pScheduler, follows their runs, and cancels them on failures."""

import json
import secrets
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ccmix.agent.deadline import Deadline
from ccmix.failures import located
from ccmix.generators.pscheduler.ledger import (
    NOT_FOUND,
    TaskRecord,
    cancel_task,
    find_posted_task,
    path_of,
)
from ccmix.generators.pscheduler.rest import (
    AnswerNotUnderstood,
    Busy,
    Interrupted,
    Interruption,
    PschedulerError,
    PschedulerServer,
    RequestRefused,
    ServerFailed,
    Unreachable,
    back_off,
)
from ccmix.generators.pscheduler.task import (
    MERGED_WITHIN_S,
    participants,
    task_document,
    timestamp_s,
)
from ccmix.generators.results import sentence
from ccmix.hosts.caps import result_bytes
from ccmix.model import PschedulerTask, Run
from ccmix.units import format_time

SCHEMA = 1  # of the record of a run
ANSWERS_AGAIN_WITHIN_S = 60.0  # for a server that can't be reached, before a task is posted
LOOKS_EACH_S = 30.0  # interval of requests about a scheduled run
READY_BEFORE_S = 3.0  # the beginning of a run, to start the probes
# States of a run (pScheduler's run_state table): before it is over, and over without a result. One
# that is 'overdue' may still get one.
WAITING = ("pending", "on-deck")
WITHOUT_RESULT = ("missed", "preempted", "nonstart", "canceled")
Log = Callable[[str], None]


class PostUncertain(PschedulerError):
    """Reports that a task may have been posted, or could not be cancelled. `ccmix restore` looks
    for it.
    """


@dataclass
class Task:
    """Describes a task that was posted; `runs` has the paths of its runs that were already used.

    `key` allows us to cancel the task. If a task of several participants has no key, pScheduler
    invents one, which nobody else knows. The key is in the run's log and in the task's record, but
    in no result.
    """

    server: PschedulerServer
    path: str  # below /pscheduler/
    key: str
    document: Mapping[str, Any]
    ahead_s: float  # the lead's clock, of ours
    record: TaskRecord | None  # None if it could not be written
    runs: list[str] = field(default_factory=list)


@dataclass
class ScheduledRun:
    """Represents a run that pScheduler has scheduled; times are of this machine's wall clock. After
    finish(), `record` has the task and the run's result, to be archived.
    """

    task: Task
    path: str
    begins_s: float
    ends_s: float
    interruption: Interruption
    log: Log
    record: dict[str, Any] = field(default_factory=dict)

    def finish(self, timeout_s: float | None) -> None:
        """Waits for the run's result, and keeps it in `record`. The limit is `timeout_s` after the
        begin of the run. If timeout_s is None, the limit is a minute after the end of the run's
        slot (the time that pScheduler reserved for it).

        Raises PschedulerError if there is no result by then, or if the run failed.
        """
        until_s = (
            self.begins_s + timeout_s if timeout_s is not None else self.ends_s + MERGED_WITHIN_S
        )
        self.interruption.sleep(min(self.ends_s, until_s) - time.time())
        for wait_s in back_off():
            run = _run_state(self.task.server, self.path, until_s)
            self.record = {
                "schema": SCHEMA,
                "lead": self.task.server.address,
                "task": {"href": self.task.path, **self.task.document},
                "run": run,
            }
            if run["result-full"] is not None and run["state"] in ("finished", "failed"):
                break
            if run["state"] in WITHOUT_RESULT:
                raise PschedulerError(_failure_message(self.task.server, run))
            if time.time() + wait_s > until_s:
                late = (
                    f"it has no result {format_time(round(time.time() - self.begins_s))} "
                    "after its start"
                )
                raise PschedulerError(
                    f"{self.task.server.address}: the run is {run['state']}: {late}"
                )
            self.interruption.sleep(wait_s)
        self.log(f"the run is {run['state']}")
        merged = run["result-merged"]
        if run["state"] == "failed" or not (
            isinstance(merged, dict) and merged.get("succeeded") is True
        ):
            raise PschedulerError(_failure_message(self.task.server, run))


class Tasks:
    """Posts and cancels the pScheduler tasks of one entry. One thread uses it; interrupt() may come
    from another.

    `tell` takes sentences for the user about tasks that could not be cancelled, because a run that
    was given up loses its log.
    """

    def __init__(self, tell: Log) -> None:
        """Prepares an entry without tasks yet. A repeated task is posted once for several runs."""
        self._tell = tell
        self._interruption = Interruption()
        self._repeated: dict[tuple[Any, ...], Task] = {}
        self._silent: dict[
            str, dict[str, Any]
        ] = {}  # participants without a readable clock, with the error

    def interrupt(self) -> None:
        """Ends the current wait or request, because the campaign is ending."""
        self._interruption.interrupt()

    def close(self) -> None:
        """Cancels repeated tasks, which would go on after the entry."""
        tasks = list(self._repeated.values())
        self._repeated.clear()
        for task in tasks:
            self._cancel(task)

    @contextmanager
    def slot(self, run: Run, latest_s: float | None, log: Log) -> Iterator[ScheduledRun]:
        """Posts a task for the run at pScheduler, or takes the next run of a repeated task. The
        context begins shortly before the reserved time slot, and cancels the task if it fails.

        latest_s: the slot must not begin later (seconds since the epoch, by this machine's clock);
            None: as late as the entry's keys for the task allow
        log: writes a line into the log of the run

        Raises PschedulerError.
        """
        task_keys = run.traffic.task
        assert task_keys
        task = self._repeated.get(run.repeated_key) or self._post(run, task_keys, latest_s, log)
        if task_keys.repeat_s is not None:
            self._repeated[run.repeated_key] = task
        try:
            yield self._await_slot(task, task_keys, log)
        except BaseException:
            self._repeated.pop(run.repeated_key, None)
            log(self._cancel(task) or "the task was cancelled")
            raise
        if task_keys.repeat_s is None and task.record:
            task.record.over()

    def clocks(self, slot: ScheduledRun) -> dict[str, dict[str, Any]]:
        """Returns pScheduler's reports on the clocks of the run's participants (the hosts that take
        part in the test), by host, so that their times can be compared. A host whose clock can't be
        read has the reason as `error`, and is not asked again for later runs.
        """
        server, test_spec = slot.task.server, slot.task.document["test"]["spec"]
        lead, *other_hosts = participants(test_spec, server.address)
        clocks = {lead: clock_of(server)}
        for name in other_hosts:
            clocks[name] = self._silent.get(name) or _clock_of_other(server, name)
            if "error" in clocks[name]:
                self._silent[name] = clocks[name]
        return clocks

    def _cancel(self, task: Task) -> str | None:
        """Cancels a task. If that fails, the task's record stays on disk, so that `ccmix restore`
        can cancel the task, and the user is told. Returns the reason of a failure, otherwise None.
        """
        failure = cancel_task(task.server, task.path, task.key)
        if failure:
            self._tell(f"pScheduler task {task.server.url(task.path)}: {failure}")
        if task.record:
            task.record.leave() if failure else task.record.over()
        return failure

    def _post(self, run: Run, task_keys: PschedulerTask, latest_s: float | None, log: Log) -> Task:
        """Posts a task for the run, and first writes a record to disk by which the task can be
        cancelled even if ccmix is killed.

        task_keys: the entry's keys for the task
        latest_s: the task's first run must not begin later (seconds since the epoch); None: no
            limit
        log: writes a line into the log of the run
        """
        most_bytes = result_bytes(run.traffic.streams, run.traffic.total_s, run.traffic.interval_s)
        server = PschedulerServer(
            task_keys.lead, task_keys.tls_ca, self._interruption, most_bytes=most_bytes
        )
        deadline = Deadline(task_keys.wait_s)
        server.get_patiently("", Deadline(min(task_keys.wait_s, ANSWERS_AGAIN_WITHIN_S)))
        clock = clock_of(server)
        if "error" in clock:
            log(
                f"the clock of {server.address} can't be read, so it is assumed to agree with "
                f"ours: {clock['error']}"
            )
        identity, key = str(uuid.uuid4()), secrets.token_hex(16)
        record = _write_record(server, identity, key, log)
        try:
            path, document = self._post_until_accepted(
                run, server, deadline, latest_s, identity, key, log
            )
        except PostUncertain:
            if record:
                record.leave()
            raise
        except BaseException:
            if record:
                record.over()
            raise
        if record:
            record.posted(path)
        url = server.url(path)
        log(f"posted {url} ('pscheduler cancel --key {key} {url}' ends it): {json.dumps(document)}")
        return Task(server, path, key, document, clock.get("ahead_s", 0.0), record)

    def _post_until_accepted(
        self,
        run: Run,
        server: PschedulerServer,
        deadline: Deadline,
        latest_s: float | None,
        identity: str,
        key: str,
        log: Log,
    ) -> tuple[str, Mapping[str, Any]]:
        """Posts the run's task until the server accepts it, and returns the task's path on the
        server and the task as it was posted.

        A busy server is tried again until the deadline. If the server fails, it is tried again as
        often as the entry's `retries` allows.

        latest_s: the task's first run must not begin later (seconds since the epoch); None: no
            limit
        identity: a UUID in the task, by which it can be found
        key: a secret in the task, with which it can be cancelled
        """
        task_keys = run.traffic.task
        assert task_keys
        failures = 0
        for wait_s in back_off():
            slip_s = (
                task_keys.slip_s
                if latest_s is None
                else max(0.0, min(task_keys.slip_s, latest_s - time.time()))
            )
            document = task_document(run, identity, slip_s)
            try:
                return self._post_once(server, document, identity, key), document
            except Busy as error:
                failures += isinstance(error, ServerFailed)
                after_s = error.after_s or wait_s
                log(str(error))
                if not deadline.allows(after_s) or failures > run.host_path.retries:
                    raise
            self._interruption.sleep(after_s)
        raise AssertionError("back_off() has no end")

    def _post_once(
        self, server: PschedulerServer, document: Mapping[str, Any], identity: str, key: str
    ) -> str:
        """Posts a task once, and returns its path on the server. If the answer does not say whether
        the server has created the task, it is looked for by its `identity`. A task that was created
        although the posting failed is cancelled with its `key`.

        Raises PostUncertain if the task may exist but could not be found or cancelled.
        """
        try:
            return path_of(server, server.post("tasks", {**document, "_key": key}))
        except (Unreachable, AnswerNotUnderstood, Interrupted, ServerFailed) as error:
            if isinstance(error, Unreachable) and not error.sent:
                raise
            try:
                path = find_posted_task(server, identity)
            except PschedulerError:
                raise PostUncertain(
                    f"{error}; it is not known whether the task was posted"
                ) from error
            if path is None:
                raise
            if isinstance(error, Unreachable | AnswerNotUnderstood):
                return path
            # The task is not wanted any more, or the server failed before all participants had it
            if failure := cancel_task(server, path, key):
                raise PostUncertain(f"{error}; {failure}") from error
            raise

    def _await_slot(self, task: Task, task_keys: PschedulerTask, log: Log) -> ScheduledRun:
        """Waits until shortly before the task's next run begins, and returns this run. pScheduler
        may move the run meanwhile.

        Raises PschedulerError if the run would begin later than the entry allows
        (`task_keys.wait_s`), or if no run is scheduled. `log` writes a line into the log of the
        run.
        """
        latest_begin_s = (
            time.time() + task_keys.wait_s + (task_keys.repeat_s or 0.0 if task.runs else 0.0)
        )
        path = self._next_run(task, latest_begin_s)
        task.runs.append(path)
        announced_s = None
        while True:
            run = _run_state(task.server, path, latest_begin_s)
            begins_s, ends_s = (
                timestamp_s(run[name]) - task.ahead_s for name in ("start-time", "end-time")
            )
            if run["state"] in WITHOUT_RESULT:
                raise PschedulerError(_failure_message(task.server, run))
            if begins_s > latest_begin_s:
                begins = f"it would begin at {run['start-time']}"
                raise PschedulerError(
                    f"{task.server.address}: {begins}, later than wait = "
                    f"{format_time(task_keys.wait_s)}"
                )
            if announced_s != begins_s:
                log(f"{path} begins at {run['start-time']}")
                announced_s = begins_s
            ahead_s = begins_s - READY_BEFORE_S - time.time()
            if ahead_s <= 0 or run["state"] not in WAITING:
                return ScheduledRun(task, path, begins_s, ends_s, self._interruption, log)
            self._interruption.sleep(min(ahead_s, LOOKS_EACH_S))

    def _next_run(self, task: Task, until_s: float) -> str:
        """Returns the path of the task's first run that was not used yet. If pScheduler has not
        scheduled one, waits for it until `until_s` (seconds since the epoch); then raises
        PschedulerError.
        """
        for wait_s in back_off():
            runs = task.server.get_patiently(f"{task.path}/runs", Deadline(until_s - time.time()))
            for run in runs:
                if (path := path_of(task.server, run)) not in task.runs:
                    return path
            if time.time() + wait_s > until_s:
                raise PschedulerError(f"{task.server.address}: no run was scheduled in time")
            self._interruption.sleep(wait_s)
        raise AssertionError("back_off() has no end")


def _write_record(server: PschedulerServer, identity: str, key: str, log: Log) -> TaskRecord | None:
    """Writes a record of a task to disk, by which `ccmix restore` can cancel the task. If that
    fails, returns None, and the log has the reason; the task is posted nevertheless.
    """
    try:
        return TaskRecord(server, identity, key)
    except OSError as error:
        log(f"the task is not recorded, so 'ccmix restore' would not cancel it: {located(error)}")
        return None


def clock_of(server: PschedulerServer) -> dict[str, Any]:
    """Returns pScheduler's report on the clock of its host, with two additions in seconds:
    `ahead_s`, by which the clock is ahead of ours, and `within_s`, the time of the request. The
    error of ahead_s is at most half of within_s.

    If the clock can't be read, the result only has `error`, the reason. Raises Interrupted.
    """
    try:
        sent_s = time.time()
        clock = server.get("clock")
        answered_s = time.time()
        ahead_s = timestamp_s(clock["time"]) - (sent_s + answered_s) / 2
    except Interrupted:
        raise
    except (PschedulerError, ValueError, LookupError, TypeError) as error:
        return {"error": str(error)}
    return dict(clock) | {"ahead_s": ahead_s, "within_s": answered_s - sent_s}


def _clock_of_other(server: PschedulerServer, name: str) -> dict[str, Any]:
    """Asks the pScheduler of the host `name`, another participant of the task, about its clock.

    `server` is the pScheduler at which the task was posted. The result has the form that
    clock_of() describes. If the name is not valid, the result only has `error`, the reason.
    """
    try:
        return clock_of(server.another(name))
    except ValueError as error:
        return {"error": str(error)}


def _run_state(server: PschedulerServer, path: str, until_s: float) -> dict[str, Any]:
    """Asks pScheduler for the state of a run, and for its results if it has any. A busy server is
    asked again until `until_s` (seconds since the epoch). Raises PschedulerError, also if the run
    is gone because somebody has cancelled its task.
    """
    try:
        run = server.get_patiently(path, Deadline(until_s - time.time()))
    except RequestRefused as error:
        if error.status != NOT_FOUND:
            raise
        raise PschedulerError(
            f"{server.address}: the run is gone: somebody has cancelled its task"
        ) from error
    if not isinstance(run, dict) or not isinstance(run.get("state"), str):
        raise PschedulerError(f"{server.address}: {path} is not a run")
    return {"result-full": None, "result-merged": None, "errors": None} | run


def _failure_message(server: PschedulerServer, run: Mapping[str, Any]) -> str:
    """Returns the message on a run that failed or never began. It has the reasons of the scheduler
    and of the merged result (of the whole test); if the merged result has no reason, those of the
    participants.
    """
    merged = _problem_of_result(run["result-merged"])
    problems = (
        [merged] if merged else [_problem_of_result(result) for result in run["result-full"] or ()]
    )
    reasons = [sentence(reason) for reason in (run["errors"], *problems) if reason]
    why = "; ".join(dict.fromkeys(reasons)) or "it gives no reason"
    state = run["state"] if run["state"] in WITHOUT_RESULT else "failed"
    return f"{server.address}: the run {'was ' if state != 'failed' else ''}{state}: {why}"


def _problem_of_result(result: object) -> Any:
    """Returns the error of a participant's or the merged result; None if it has none."""
    return result.get("error") or result.get("diags") if isinstance(result, dict) else None
