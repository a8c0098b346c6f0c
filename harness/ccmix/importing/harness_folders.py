"""Reads the output folders of the ESnet testing harness: one for each job, a series of tests.

DATE/JOB/jobmeta.json                  the job: name, src_cmd, hostname, lat, loss, pacing, ...
DATE/JOB/DST-meta.json                 a destination: hostname, alias, rtt (of a ping, in whole
                                       milliseconds)
DATE/JOB/src-cmd:DST:N[:PARAMETER:VALUE][:RTTms|:LIMIT]    what src-cmd wrote in iteration N; so
                                       dst-cmd and ss

The folder of a job has the files of all of its runs.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from pydantic import Field

from ccmix.importing import iperf3_documents, iperf3_tests, pscheduler_results, ss_logs
from ccmix.importing.values import (
    JSON_DECODER,
    MOST_TIME_S,
    Document,
    ForeignObject,
    ForeignRun,
    Items,
    LeftOut,
    Maybe,
    Object,
    Seconds,
    SourceError,
    Text,
    numeric_order,
    read_documents,
    read_text,
    within,
)
from ccmix.model.results import ImportOverrides
from ccmix.units import parse_rate

JOB = "jobmeta.json"
_RESULT_NAME = re.compile(r"(src-cmd|dst-cmd|ss):(.+)")
_SUFFIX = re.compile(r":(?P<iteration>\d{1,6})(?P<more>:.*)?")
_OLD_SUFFIX = re.compile(r"(?P<more>:pacing:[^:]+):(?P<iteration>\d{1,6})")
_RTT = re.compile(r":(\d+(?:\.\d+)?)ms$")
_CCA = re.compile(r"(?:^|\s)(?:-C\s*|--congestion[= ])([a-z0-9_,:-]+)")
# A text or number in the job's description, read as a text
_Words = Maybe[Annotated[str, Field(min_length=1, coerce_numbers_to_str=True)]]
_BY_PING = "base RTT by a ping before the traffic, in whole milliseconds"


def is_job(files: list[str]) -> bool:
    """Returns whether a folder with these file names is the output of one job of the harness."""
    return any(
        name == JOB or (_RESULT_NAME.fullmatch(name) and not name.endswith(".json"))
        for name in files
    )


class HarnessHost(ForeignObject):
    """A destination, as its meta file or the job's list of hosts describes it. `rtt` is in
    milliseconds.
    """

    hostname: Text
    alias: Text
    rtt: Seconds


class HarnessJob(ForeignObject):
    """The job's description in jobmeta.json; its values are texts or numbers."""

    hosts: Items[HarnessHost]
    name: _Words
    src_cmd: _Words
    hostname: _Words
    src: _Words
    loss: _Words
    pacing: _Words


class _Job:
    """Reads the descriptions in a job's folder: the job itself, and its destinations."""

    def __init__(self, folder: Path, name: str) -> None:
        """Reads jobmeta.json and the files DST-meta.json; `name` is the folder's name for
        messages. Raises SourceError and OSError.
        """
        self.folder, self.name = folder, name
        self.details = _read_meta_file(folder / JOB, f"{name}/{JOB}")
        self.about = HarnessJob.model_validate(self.details)
        metas = (
            _read_meta_file(file, f"{name}/{file.name}")
            for file in sorted(folder.glob("*-meta.json"))
        )
        self.hosts = [*map(HarnessHost.model_validate, metas), *self.about.hosts]

    def runs(self) -> dict[str, dict[str, Path]]:
        """Returns the output files of the job's runs. The outer key names the run ('DST:N...', the
        part of the file name after the command), the inner one the command: src-cmd, dst-cmd or ss.
        """
        files_of_runs: dict[str, dict[str, Path]] = {}
        for file in sorted(self.folder.iterdir(), key=lambda file: numeric_order(file.name)):
            if (
                (result := _RESULT_NAME.fullmatch(file.name))
                and not file.name.endswith((".json", ".prom"))
                and _is_regular_file(file)
            ):
                files_of_runs.setdefault(result[2], {})[result[1]] = file
        return files_of_runs

    def host_of(self, run_name: str) -> tuple[str, str | None, str]:
        """Splits the name of a run, such as 'dtn2:3:pacing:1gbit', into the destination, the
        iteration, and the rest ':pacing:1gbit'. The iteration is None if the name has another form.

        Tries the job's host names first, because an IPv6 address has colons, too.
        """
        hostnames = sorted(
            {host.hostname for host in self.hosts if host.hostname}, key=len, reverse=True
        )
        for name in (*hostnames, run_name.partition(":")[0]):
            rest = run_name.removeprefix(name)
            if rest != run_name and (
                match := _SUFFIX.fullmatch(rest) or _OLD_SUFFIX.fullmatch(rest)
            ):
                return name, match["iteration"], match["more"] or ""
        return run_name, None, ""


def read_job(folder: Path, name: str, overrides: ImportOverrides) -> Iterator[ForeignRun | LeftOut]:
    """Yields the runs in a job's folder, and results that can't become runs. Raises SourceError and
    OSError.

    `name` is the folder's name for messages. A CCA in the job's command replaces the CCA that the
    user gives for all files (--cca). Both are only for results that name no CCA themselves.
    """
    job = _Job(folder, name)
    command = job.about.src_cmd or ""
    if cca := _CCA.search(command):
        overrides = replace(overrides, cca=cca[1])
    runs = job.runs()
    if not runs:
        yield LeftOut(name, "the job's folder has no result")
    for run_name, files in runs.items():
        yield from _runs_of_result(job, run_name, files, overrides)


def _runs_of_result(
    job: _Job, run_name: str, files: Mapping[str, Path], overrides: ImportOverrides
) -> Iterator[ForeignRun | LeftOut]:
    """Yields the runs of one iteration: those in the output of src-cmd, with the samples of their
    sockets if ss ran, too. If src-cmd printed no result, yields the tests that the samples of ss
    show.

    `run_name` is the part of the files' names that names the iteration; `files` are its output
    files by command: src-cmd, dst-cmd and ss.
    """
    results = list(_runs_of_command(job, files, overrides))
    if "ss" in files:
        source = f"{job.name}/{files['ss'].name}"
        samples = ss_logs.read_samples(files["ss"], source)
        has_runs = any(isinstance(result, ForeignRun) for result in results)
        if has_runs and not isinstance(samples, LeftOut):
            results = [
                ss_logs.with_sockets(result, samples) if isinstance(result, ForeignRun) else result
                for result in results
            ]
        else:
            results += ss_logs.tests_in(samples, source)
    for result in results:
        yield (
            _with_job_settings(job, run_name, result) if isinstance(result, ForeignRun) else result
        )


def _runs_of_command(
    job: _Job, files: Mapping[str, Path], overrides: ImportOverrides
) -> Iterator[ForeignRun | LeftOut]:
    """Yields the runs in the output of src-cmd, joined with the server's result from dst-cmd if
    both share an iperf3 cookie.
    """
    if "src-cmd" not in files:
        return
    source = f"{job.name}/{files['src-cmd'].name}"
    text = read_text(files["src-cmd"], source)
    servers = _server_documents(job, files)
    documents = list(_documents(text, source))
    for document in documents:
        if isinstance(document, LeftOut):
            yield document
            continue
        cookie = iperf3_tests.read_cookie(document.content)
        server = servers.get(cookie[0]) if cookie and cookie[1] == "client" else None
        result = pscheduler_results.read_test(document, overrides, server)
        yield (
            replace(result, raw={"src-cmd": text.encode()})
            if isinstance(result, ForeignRun)
            else result
        )
    if not documents:
        yield LeftOut(source, "is neither a result of iperf3 nor of pScheduler")


def _documents(text: str, source: str) -> Iterator[Document | LeftOut]:
    """Yields the results in the output of a command: from the text of iperf3, otherwise from JSON.
    Yields LeftOut for JSON that is broken or is not a result.
    """
    tests = (
        list(iperf3_documents.read_tests(text, source)) if iperf3_documents.is_text(text) else []
    )
    yield from tests or read_documents(text, source, pscheduler_results.is_known)


def _server_documents(job: _Job, files: Mapping[str, Path]) -> dict[str, Object]:
    """Returns the iperf3 servers' results in the output of dst-cmd, by cookie. Ignores output that
    is not JSON, because dst-cmd can be any command.
    """
    if "dst-cmd" not in files:
        return {}
    source = f"{job.name}/{files['dst-cmd'].name}"
    servers: dict[str, Object] = {}
    try:
        for document in _documents(read_text(files["dst-cmd"], source), source):
            if isinstance(document, LeftOut):
                continue
            cookie = iperf3_tests.read_cookie(document.content)
            if cookie and cookie[1] == "server":
                servers[cookie[0]] = document.content
    except SourceError:
        return servers
    return servers


def _with_job_settings(job: _Job, run_name: str, run: ForeignRun) -> ForeignRun:
    """Adds the settings from the job's description and from the file name: names of the hosts,
    netem, pacing, base RTT and iteration.

    `run_name` is split by _Job.host_of(). Its end has pairs ':PARAMETER:VALUE', then the RTT that
    netem adds, or netem's packet limit.
    """
    name, iteration, parameters = job.host_of(run_name)
    hosts = [host for host in job.hosts if host.hostname == name]
    aliases = {host.alias for host in hosts} - {None}
    settings = dict(run.settings)
    netem_s = 0.0
    if rtt := _RTT.search(parameters):
        netem_s = (within(float(rtt[1]), MOST_TIME_S) or 0.0) / 1e3
        settings["netem-lat"] = f"{netem_s / 2 * 1e3:g}ms"
        parameters = parameters[: rtt.start()]
    parts = parameters.split(":")[1:]
    if len(parts) % 2:
        settings["netem-limit"] = parts.pop()
    settings |= dict(zip(parts[::2], parts[1::2], strict=True))
    for setting, value in (("netem-loss", job.about.loss), ("pacing", job.about.pacing)):
        if value:
            settings.setdefault(setting, value)
    ping_s = (hosts[0].rtt or 0.0) / 1e3 if hosts else None
    return replace(
        run,
        entry=job.about.name or run.entry,
        src=job.about.hostname or job.about.src or run.src,
        dst=aliases.pop() if len(aliases) == 1 else name,
        dst_address=name,
        settings=settings,
        pacing_bps=_rate_or_none(settings.get("pacing")) or run.pacing_bps,
        pings_s=(ping_s,) if ping_s and not netem_s else (),
        base_rtt_s=ping_s + netem_s if ping_s else run.base_rtt_s,
        options={**run.options, **({"src-cmd": command} if (command := job.about.src_cmd) else {})},
        details={
            **run.details,
            "job": {
                key: value
                for key, value in job.details.items()
                if isinstance(value, str | int | float)
            },
            **({"iteration": int(iteration)} if iteration else {}),
        },
        estimated=(*run.estimated, *((_BY_PING,) if ping_s else ())),
        document=None,
    )


def _rate_or_none(text: str | None) -> float | None:
    """Returns a rate in bits per second; None for a text that is not a rate."""
    try:
        return parse_rate(text) if text else None
    except ValueError:
        return None


def _read_meta_file(file: Path, name: str) -> Object:
    """Returns the JSON object in a description file; empty if there is no such file. Raises
    SourceError if it is not valid JSON.
    """
    if not _is_regular_file(file):
        return {}
    try:
        content = JSON_DECODER.decode(read_text(file, name))
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{name}: is not valid JSON: {error}: fix it, or remove it") from error
    return content if isinstance(content, dict) else {}


def _is_regular_file(file: Path) -> bool:
    """Returns whether this is a file and not a link: links are never followed."""
    return file.is_file() and not file.is_symlink()
