"""Reads the output folders of the ESnet testing harness: a job's folder has the files of all of its runs.

DATE/JOB/jobmeta.json                  the job: name, src_cmd, hostname, lat, loss, pacing, ...
DATE/JOB/DST-meta.json                 a destination: hostname, alias, rtt (of a ping, in whole milliseconds)
DATE/JOB/src-cmd:DST:N[:PARAMETER:VALUE][:RTTms|:LIMIT]    what src-cmd wrote in iteration N; so dst-cmd and ss
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ccmix.importing import iperf3_tests, iperf3_text, pscheduler_results, ss_logs
from ccmix.importing.documents import Document, joined_events, read_documents
from ccmix.importing.foreign_run import ForeignRun, LeftOut, SourceError
from ccmix.importing.foreign_text import read_text
from ccmix.importing.json_types import Object, Row
from ccmix.importing.numbers import MOST_TIME_S, known
from ccmix.model.results import ImportOverrides
from ccmix.units import parse_rate

JOB = "jobmeta.json"
_RESULT = re.compile(r"(src-cmd|dst-cmd|ss):(.+)")
_SUFFIX = re.compile(r":(?P<iteration>\d{1,6})(?P<more>:.*)?")
_OLD_SUFFIX = re.compile(r"(?P<more>:pacing:[^:]+):(?P<iteration>\d{1,6})")
_RTT = re.compile(r":(\d+(?:\.\d+)?)ms$")
_CCA = re.compile(r"(?:^|\s)(?:-C\s*|--congestion[= ])([a-z0-9_,:-]+)")
MOST_DIGITS = 15
_BY_PING = "base RTT by a ping before the traffic, in whole milliseconds"


def is_job(files: list[str]) -> bool:
    """Returns whether a folder with files of these names is a job's."""
    return any(name == JOB or (_RESULT.fullmatch(name) and not name.endswith(".json")) for name in files)


@dataclass(frozen=True)
class _Host:
    """Describes a destination, as its meta file or the job's list of hosts does."""

    name: str
    alias: str | None
    ping_s: float | None


class _Job:
    """Reads a job's folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name
        self.about = _meta(folder / JOB, f"{name}/{JOB}")
        listed = self.about.get("hosts")
        self.hosts = [_host(entry) for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
        metas = (_meta(file, f"{name}/{file.name}") for file in sorted(folder.glob("*-meta.json")) if _regular(file))
        self.hosts = [*map(_host, metas), *self.hosts]

    def runs(self) -> dict[str, dict[str, Path]]:
        """Maps what follows 'src-cmd:' in the names of files to the files, each under the command that wrote it."""
        files_of_runs: dict[str, dict[str, Path]] = {}
        for file in sorted(self.folder.iterdir(), key=_in_order):
            if (
                (result := _RESULT.fullmatch(file.name))
                and not file.name.endswith((".json", ".prom"))
                and _regular(file)
            ):
                files_of_runs.setdefault(result[2], {})[result[1]] = file
        return files_of_runs

    def host_of(self, suffix: str) -> tuple[str, str | None, str | None]:
        """Returns the destination, the iteration, and the rest of a file's name: ':PARAMETER:VALUE'."""
        for name in sorted({host.name for host in self.hosts}, key=len, reverse=True):
            if suffix.startswith(f"{name}:"):
                rest = suffix[len(name) :]
                match = _SUFFIX.fullmatch(rest) or _OLD_SUFFIX.fullmatch(rest)
                if match:
                    return name, match["iteration"], match["more"]
        bare, colon, rest = suffix.partition(":")
        match = _SUFFIX.fullmatch(colon + rest) or _OLD_SUFFIX.fullmatch(colon + rest)
        return (bare, match["iteration"], match["more"]) if match else (suffix, None, None)

    def text(self, key: str) -> str | None:
        value = self.about.get(key)
        return (
            str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) and value != "" else None
        )


def read_job(folder: Path, name: str, overrides: ImportOverrides) -> Iterator[ForeignRun | LeftOut]:
    """Yields the runs of a job. Raises SourceError and OSError."""
    job = _Job(folder, name)
    command = job.text("src_cmd") or ""
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
    """Yields the runs that src-cmd's output reports, with the sockets that ss saw; without src-cmd's, those of ss."""
    runs: list[ForeignRun] = []
    for result in _of_command(job, files, overrides):
        if isinstance(result, ForeignRun):
            runs.append(result)
        else:
            yield result
    if "ss" in files:
        source = f"{job.name}/{files['ss'].name}"
        samples = ss_logs.samples_of(files["ss"], source)
        if isinstance(samples, LeftOut):
            yield samples
        elif runs:
            runs = [ss_logs.with_sockets(run, samples) for run in runs]
        else:
            for result in ss_logs.tests_in(samples, source):
                if isinstance(result, ForeignRun):
                    runs.append(result)
                else:
                    yield result
    for run in runs:
        yield _described(job, suffix, run)


def _of_command(job: _Job, files: Mapping[str, Path], overrides: ImportOverrides) -> Iterator[ForeignRun | LeftOut]:
    if "src-cmd" not in files:
        return
    source = f"{job.name}/{files['src-cmd'].name}"
    text = read_text(files["src-cmd"], source)
    servers = _servers(job, files)
    tests = 0
    for document in _documents(text, source):
        content = document.content
        tests += 1
        if iperf3_tests.is_test(content):
            cookie = iperf3_tests.cookie_of(content)
            server = servers.get(cookie[0]) if cookie and cookie[1] == "client" else None
            result = iperf3_tests.read_run(content, document.where, overrides, "iperf3", server)
        elif pscheduler_results.is_result(content):
            result = pscheduler_results.read_run(content, document.where, overrides)
        else:
            result = LeftOut(document.where, "is no result of a test")
        yield replace(result, raw={"src-cmd": text.encode()}) if isinstance(result, ForeignRun) else result
    if not tests:
        yield LeftOut(source, "is neither iperf3's nor pScheduler's result")


def _documents(text: str, source: str) -> Iterator[Document]:
    """Yields the documents of JSON, or of iperf3's text."""
    tests = list(iperf3_text.read_tests(text)) if iperf3_text.is_text(text) else []
    if tests:
        for line, own, content in tests:
            yield Document(content, own, f"{source}:{line}")
    else:
        yield from joined_events(read_documents(text, source))


def _servers(job: _Job, files: Mapping[str, Path]) -> dict[str, Object]:
    """Returns results of dst-cmd by their cookies; none if they are no JSON, since dst-cmd may write anything."""
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
    """Returns the run with what the job and the files' names say about it."""
    name, iteration, more = job.host_of(suffix)
    host = next((host for host in job.hosts if host.name == name), None)
    aliases = {host.alias for host in job.hosts if host.name == name} - {None}
    settings = dict(run.settings)
    netem_s = 0.0
    rest = more or ""
    if rtt := _RTT.search(rest):
        netem_s = (known(float(rtt[1]), MOST_TIME_S) or 0.0) / 1e3
        settings["netem-lat"] = f"{netem_s / 2 * 1e3:g}ms"
        rest = rest[: rtt.start()]
    parts = rest.split(":")[1:]
    if len(parts) % 2:
        settings["netem-limit"] = parts.pop()
    settings |= dict(zip(parts[::2], parts[1::2], strict=True))
    for key, setting in (("loss", "netem-loss"), ("pacing", "pacing")):
        if (value := job.text(key)) and setting not in settings:
            settings[setting] = value
    ping_s = host.ping_s if host else None
    return replace(
        run,
        entry=job.text("name") or run.entry,
        src=job.text("hostname") or job.text("src") or run.src,
        dst=aliases.pop() if len(aliases) == 1 else name,
        dst_address=name,
        settings=settings,
        pacing_bps=_rate_bps(settings.get("pacing")) or run.pacing_bps,
        pings_s=(ping_s,) if ping_s and not netem_s else (),
        base_rtt_s=ping_s + netem_s if ping_s else run.base_rtt_s,
        options={**run.options, **({"src-cmd": command} if (command := job.text("src_cmd")) else {})},
        details={**run.details, "job": _kept(job.about), **({"iteration": int(iteration)} if iteration else {})},
        estimated=(*run.estimated, *((_BY_PING,) if ping_s else ())),
        document=None,
    )


def _kept(about: Object) -> Row:
    """Returns those of the job's values that are text or numbers."""
    return {key: value for key, value in about.items() if isinstance(value, str | int | float)}


def _rate_bps(text: str | None) -> float | None:
    try:
        return parse_rate(text) if text else None
    except ValueError:
        return None


def _meta(file: Path, name: str) -> Object:
    """Returns the object in a file; an empty one if there is no file. Raises SourceError if it is no JSON."""
    if not _regular(file):
        return {}
    try:
        content = json.loads(read_text(file, name), parse_constant=lambda _: None)
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{name}: is no JSON: {error}: mend it, or take it out") from error
    return content if isinstance(content, dict) else {}


def _host(about: Object) -> _Host:
    name, alias = about.get("hostname"), about.get("alias")
    ping_ms = known(about.get("rtt"), MOST_TIME_S)
    return _Host(
        name if isinstance(name, str) else "",
        alias if isinstance(alias, str) and alias else None,
        ping_ms / 1e3 if ping_ms else None,
    )


def _regular(file: Path) -> bool:
    return file.is_file() and not file.is_symlink()


def _in_order(file: Path) -> list[tuple[int, str]]:
    """Returns a key that sorts iteration 10 after 9."""
    return [
        (int(part), "") if part.isdecimal() and len(part) <= MOST_DIGITS else (0, part) for part in file.name.split(":")
    ]
