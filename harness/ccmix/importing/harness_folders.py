"""The output folders of the ESnet testing harness: a job's folder, with the files of all of its runs.

DATE/JOB/jobmeta.json                  the job: name, src_cmd, hostname, lat, loss, pacing, ...
DATE/JOB/DST-meta.json                 a destination: hostname, alias, rtt (of a ping, in whole milliseconds)
DATE/JOB/src-cmd:DST:N[:PARAMETER:VALUE][:RTTms|:LIMIT]    what src-cmd wrote in iteration N; so dst-cmd and ss
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ccmix.importing import iperf3_tests, iperf3_text, pscheduler_results, ss_logs, ss_samples
from ccmix.importing.documents import Document, joined_events, read_documents
from ccmix.importing.found import Found, LeftOut, SourceError, Told
from ccmix.importing.numbers import MOST_TIME_S, known
from ccmix.importing.text import read_text
from ccmix.units import parse_rate

JOB = "jobmeta.json"
_RESULT = re.compile(r"(src-cmd|dst-cmd|ss):(.+)")
_SUFFIX = re.compile(r":(?P<iteration>\d{1,6})(?P<more>:.*)?")
_OLD_SUFFIX = re.compile(r"(?P<more>:pacing:[^:]+):(?P<iteration>\d{1,6})")
_RTT = re.compile(r":(\d+(?:\.\d+)?)ms$")
_CCA = re.compile(r"(?:^|\s)(?:-C\s*|--congestion[= ])([a-z0-9_,:-]+)")
MOST_DIGITS = 15
_BY_PING = "base RTT by a ping before the traffic, in whole milliseconds"

Object = Mapping[str, Any]


def is_job(files: list[str]) -> bool:
    """Whether a folder with files of these names is a job's."""
    return any(name == JOB or (_RESULT.fullmatch(name) and not name.endswith(".json")) for name in files)


@dataclass(frozen=True)
class _Host:
    """A destination, as its meta file or the job's list of hosts has it."""

    name: str
    alias: str | None
    ping_s: float | None


class _Job:
    """A job's folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name
        self.about = _meta(folder / JOB, f"{name}/{JOB}")
        listed = self.about.get("hosts")
        self.hosts = [_host(one) for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
        metas = (_meta(file, f"{name}/{file.name}") for file in sorted(folder.glob("*-meta.json")) if _regular(file))
        self.hosts = [*map(_host, metas), *self.hosts]

    def runs(self) -> dict[str, dict[str, Path]]:
        """What comes after 'src-cmd:' in the names of files, to the files by what they are."""
        found: dict[str, dict[str, Path]] = {}
        for file in sorted(self.folder.iterdir(), key=_in_order):
            if (
                (result := _RESULT.fullmatch(file.name))
                and not file.name.endswith((".json", ".prom"))
                and _regular(file)
            ):
                found.setdefault(result[2], {})[result[1]] = file
        return found

    def host_of(self, suffix: str) -> tuple[str, str | None, str | None]:
        """The destination, the iteration, and what else the end of a file's name says: ':PARAMETER:VALUE'."""
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


def read_job(folder: Path, name: str, told: Told) -> Iterator[Found | LeftOut]:
    """Raises SourceError and OSError."""
    job = _Job(folder, name)
    command = job.text("src_cmd") or ""
    if cca := _CCA.search(command):
        told = replace(told, cca=cca[1])
    runs = job.runs()
    if not runs:
        yield LeftOut(name, "the job's folder has no result")
    for suffix, files in runs.items():
        yield from _run(job, suffix, files, told)


def _run(job: _Job, suffix: str, files: Mapping[str, Path], told: Told) -> Iterator[Found | LeftOut]:
    """What src-cmd says, with the sockets that ss saw; or these alone."""
    found: list[Found] = []
    for one in _of_command(job, files, told):
        if isinstance(one, Found):
            found.append(one)
        else:
            yield one
    if "ss" in files:
        source = f"{job.name}/{files['ss'].name}"
        samples = ss_samples.read_samples(files["ss"], source)
        if found:
            found = [ss_logs.with_sockets(one, samples) for one in found]
        else:
            for one in ss_logs.tests_in(samples, source):
                if isinstance(one, Found):
                    found.append(one)
                else:
                    yield one
    for one in found:
        yield _described(job, suffix, one)


def _of_command(job: _Job, files: Mapping[str, Path], told: Told) -> Iterator[Found | LeftOut]:
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
            one = iperf3_tests.found_in(content, document.where, told, "iperf3", server)
        elif pscheduler_results.is_result(content):
            one = pscheduler_results.found_in(content, document.where, told)
        else:
            one = LeftOut(document.where, "is no result of a test")
        yield replace(one, raw={"src-cmd": text.encode()}) if isinstance(one, Found) else one
    if not tests:
        yield LeftOut(source, "is neither iperf3's nor pScheduler's result")


def _documents(text: str, source: str) -> Iterator[Document]:
    """Of JSON, or of iperf3's text."""
    tests = list(iperf3_text.read_tests(text)) if iperf3_text.is_text(text) else []
    if tests:
        for line, own, content in tests:
            yield Document(content, own, f"{source}:{line}")
    else:
        yield from joined_events(read_documents(text, source))


def _servers(job: _Job, files: Mapping[str, Path]) -> dict[str, Object]:
    """Results of dst-cmd by their cookies; none where it is no JSON: it may be anything."""
    if "dst-cmd" not in files:
        return {}
    source = f"{job.name}/{files['dst-cmd'].name}"
    found: dict[str, Object] = {}
    try:
        for document in _documents(read_text(files["dst-cmd"], source), source):
            cookie = iperf3_tests.cookie_of(document.content)
            if cookie and cookie[1] == "server":
                found[cookie[0]] = document.content
    except SourceError:
        return found
    return found


def _described(job: _Job, suffix: str, found: Found) -> Found:
    """With what the job and the files' names say of the run."""
    name, iteration, more = job.host_of(suffix)
    host = next((host for host in job.hosts if host.name == name), None)
    aliases = {host.alias for host in job.hosts if host.name == name} - {None}
    settings = dict(found.settings)
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
        found,
        entry=job.text("name") or found.entry,
        src=job.text("hostname") or job.text("src") or found.src,
        dst=aliases.pop() if len(aliases) == 1 else name,
        dst_address=name,
        settings=settings,
        pacing_bps=_rate_bps(settings.get("pacing")) or found.pacing_bps,
        pings_s=(ping_s,) if ping_s and not netem_s else (),
        base_rtt_s=ping_s + netem_s if ping_s else found.base_rtt_s,
        facts={**found.facts, "job": _kept(job.about), **({"iteration": int(iteration)} if iteration else {})},
        estimated=(*found.estimated, *((_BY_PING,) if ping_s else ())),
        document=None,
    )


def _kept(about: Object) -> dict[str, Any]:
    """Of the job what is plain: text and numbers."""
    return {key: value for key, value in about.items() if isinstance(value, str | int | float)}


def _rate_bps(text: str | None) -> float | None:
    try:
        return parse_rate(text) if text else None
    except ValueError:
        return None


def _meta(file: Path, name: str) -> Object:
    """Raises SourceError where the file is there and no JSON object."""
    if not _regular(file):
        return {}
    try:
        found = json.loads(read_text(file, name), parse_constant=lambda _: None)
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{name}: is no JSON: {error}: mend it, or take it out") from error
    return found if isinstance(found, dict) else {}


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
    """Iteration 10 after 9."""
    return [
        (int(part), "") if part.isdecimal() and len(part) <= MOST_DIGITS else (0, part) for part in file.name.split(":")
    ]
