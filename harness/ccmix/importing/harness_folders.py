"""Reads the output folders of the ESnet testing harness. The folder of a job has the files of all
of its runs.

DATE/JOB/jobmeta.json                  the job: name, src_cmd, hostname, lat, loss, pacing, ...
DATE/JOB/DST-meta.json                 a destination: hostname, alias, rtt (of a ping, in whole
milliseconds) DATE/JOB/src-cmd:DST:N[:PARAMETER:VALUE][:RTTms|:LIMIT]    what src-cmd wrote in
iteration N; so dst-cmd and ss
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
    read_documents,
    read_text,
    within,
)
from ccmix.model.results import ImportOverrides
from ccmix.units import parse_rate

JOB = "jobmeta.json"
_RESULT = re.compile(r"(src-cmd|dst-cmd|ss):(.+)")
_SUFFIX = re.compile(r":(?P<iteration>\d{1,6})(?P<more>:.*)?")
_OLD_SUFFIX = re.compile(r"(?P<more>:pacing:[^:]+):(?P<iteration>\d{1,6})")
_RTT = re.compile(r":(\d+(?:\.\d+)?)ms$")
_CCA = re.compile(r"(?:^|\s)(?:-C\s*|--congestion[= ])([a-z0-9_,:-]+)")
MOST_DIGITS = 15
_Words = Maybe[Annotated[str, Field(min_length=1, coerce_numbers_to_str=True)]]
_BY_PING = "base RTT by a ping before the traffic, in whole milliseconds"


def is_job(files: list[str]) -> bool:
    """Returns whether a folder with these file names belongs to a job."""
    return any(
        name == JOB or (_RESULT.fullmatch(name) and not name.endswith(".json")) for name in files
    )


class HarnessHost(ForeignObject):
    """A destination, as its meta file or the job's list of hosts describes it; `rtt` in
    milliseconds.
    """

    hostname: Text
    alias: Text
    rtt: Seconds


class HarnessJob(ForeignObject):
    """The job; its values are text or numbers."""

    hosts: Items[HarnessHost]
    name: _Words
    src_cmd: _Words
    hostname: _Words
    src: _Words
    loss: _Words
    pacing: _Words


class _Job:
    """Reads a job's folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name
        self.details = _meta(folder / JOB, f"{name}/{JOB}")
        self.about = HarnessJob.model_validate(self.details)
        metas = (_meta(file, f"{name}/{file.name}") for file in sorted(folder.glob("*-meta.json")))
        self.hosts = [*map(HarnessHost.model_validate, metas), *self.about.hosts]

    def runs(self) -> dict[str, dict[str, Path]]:
        """Returns the files by command, and by the part of their names after 'src-cmd:' or a
        similar prefix.
        """
        files_of_runs: dict[str, dict[str, Path]] = {}
        for file in sorted(self.folder.iterdir(), key=_in_order):
            if (
                (result := _RESULT.fullmatch(file.name))
                and not file.name.endswith((".json", ".prom"))
                and _regular(file)
            ):
                files_of_runs.setdefault(result[2], {})[result[1]] = file
        return files_of_runs

    def host_of(self, suffix: str) -> tuple[str, str | None, str]:
        """Returns the destination, the iteration, and the rest of a file's name:
        ':PARAMETER:VALUE'.
        """
        known = sorted(
            {host.hostname for host in self.hosts if host.hostname}, key=len, reverse=True
        )
        for name in (*known, suffix.partition(":")[0]):
            rest = suffix.removeprefix(name)
            if rest != suffix and (match := _SUFFIX.fullmatch(rest) or _OLD_SUFFIX.fullmatch(rest)):
                return name, match["iteration"], match["more"] or ""
        return suffix, None, ""


def read_job(folder: Path, name: str, overrides: ImportOverrides) -> Iterator[ForeignRun | LeftOut]:
    """Yields the runs of a job. Raises SourceError and OSError."""
    job = _Job(folder, name)
    command = job.about.src_cmd or ""
    if cca := _CCA.search(command):
        overrides = replace(overrides, cca=cca[1])
    runs = job.runs()
    if not runs:
        yield LeftOut(name, "the job's folder has no result")
    for suffix, files in runs.items():
        yield from _run(job, suffix, files, overrides)


def _run(
    job: _Job, suffix: str, files: Mapping[str, Path], overrides: ImportOverrides
) -> Iterator[ForeignRun | LeftOut]:
    """Yields the runs from the output of src-cmd, with the sockets that ss saw. Without output of
    src-cmd, yields the runs that ss saw.
    """
    results = list(_of_command(job, files, overrides))
    if "ss" in files:
        source = f"{job.name}/{files['ss'].name}"
        samples = ss_logs.read_samples(files["ss"], source)
        runs = any(isinstance(result, ForeignRun) for result in results)
        if runs and not isinstance(samples, LeftOut):
            results = [
                ss_logs.with_sockets(result, samples) if isinstance(result, ForeignRun) else result
                for result in results
            ]
        else:
            results += ss_logs.tests_in(samples, source)
    for result in results:
        yield _described(job, suffix, result) if isinstance(result, ForeignRun) else result


def _of_command(
    job: _Job, files: Mapping[str, Path], overrides: ImportOverrides
) -> Iterator[ForeignRun | LeftOut]:
    if "src-cmd" not in files:
        return
    source = f"{job.name}/{files['src-cmd'].name}"
    text = read_text(files["src-cmd"], source)
    servers = _servers(job, files)
    documents = list(_documents(text, source))
    for document in documents:
        cookie = iperf3_tests.cookie_of(document.content)
        server = servers.get(cookie[0]) if cookie and cookie[1] == "client" else None
        result = pscheduler_results.read_test(document, overrides, server)
        yield (
            replace(result, raw={"src-cmd": text.encode()})
            if isinstance(result, ForeignRun)
            else result
        )
    if not documents:
        yield LeftOut(source, "is neither a result of iperf3 nor of pScheduler")


def _documents(text: str, source: str) -> Iterator[Document]:
    """Yields the documents in text or JSON from iperf3."""
    tests = (
        list(iperf3_documents.read_tests(text, source)) if iperf3_documents.is_text(text) else []
    )
    yield from tests or read_documents(text, source)


def _servers(job: _Job, files: Mapping[str, Path]) -> dict[str, Object]:
    """Returns results of dst-cmd by their cookies; none if they are not JSON, because dst-cmd can
    be any command.
    """
    if "dst-cmd" not in files:
        return {}
    source = f"{job.name}/{files['dst-cmd'].name}"
    servers: dict[str, Object] = {}
    try:
        for document in _documents(read_text(files["dst-cmd"], source), source):
            cookie = iperf3_tests.cookie_of(document.content)
            if cookie and cookie[1] == "server":
                servers[cookie[0]] = document.content
    except SourceError:
        return servers
    return servers


def _described(job: _Job, suffix: str, run: ForeignRun) -> ForeignRun:
    """Returns the run with the settings from the job and from file names."""
    name, iteration, rest = job.host_of(suffix)
    hosts = [host for host in job.hosts if host.hostname == name]
    aliases = {host.alias for host in hosts} - {None}
    settings = dict(run.settings)
    netem_s = 0.0
    if rtt := _RTT.search(rest):
        netem_s = (within(float(rtt[1]), MOST_TIME_S) or 0.0) / 1e3
        settings["netem-lat"] = f"{netem_s / 2 * 1e3:g}ms"
        rest = rest[: rtt.start()]
    parts = rest.split(":")[1:]
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
        pacing_bps=_rate_bps(settings.get("pacing")) or run.pacing_bps,
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


def _rate_bps(text: str | None) -> float | None:
    try:
        return parse_rate(text) if text else None
    except ValueError:
        return None


def _meta(file: Path, name: str) -> Object:
    """Returns the object in a file; an empty object if there is no file. Raises SourceError if it
    is not valid JSON.
    """
    if not _regular(file):
        return {}
    try:
        content = JSON_DECODER.decode(read_text(file, name))
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{name}: is not valid JSON: {error}: fix it, or remove it") from error
    return content if isinstance(content, dict) else {}


def _regular(file: Path) -> bool:
    return file.is_file() and not file.is_symlink()


def _in_order(file: Path) -> list[tuple[int, str]]:
    """Returns a key that sorts iteration 10 after 9."""
    return [
        (int(part), "") if part.isdecimal() and len(part) <= MOST_DIGITS else (0, part)
        for part in file.name.split(":")
    ]
