"""Tests that a check ends in findings or in ValueError, whatever a host answers, and never in a
traceback.
"""

import contextlib
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ccmix.config import load
from ccmix.doctor import device, kernel, needs, paths, resources, rights
from ccmix.doctor.checks import DoctorOptions
from ccmix.doctor.examine import examine
from ccmix.doctor.report import DoctorFinding, Report, Status, plain, render, to_json
from ccmix.hosts import CommandError, Process
from ccmix.plan import make_plan
from support import tool_outputs as outputs
from support.commands import REPOSITORY
from support.model import host_run

DTN = device.device_of(outputs.DTN_LINK, "100000", outputs.DTN_DRIVER, "1", "0-1")
JUDGES: dict[str, Callable[[str], object]] = {
    "ccas": lambda text: kernel.ccas_of(
        {"/proc/sys/net/ipv4/tcp_available_congestion_control": text}
    ),
    "kernel": kernel.parts_of,
    "capabilities": lambda text: rights.capabilities(text, "Eff"),
    "mounts": rights.read_only,
    "link": lambda text: device.device_of(text, "", "", "", ""),
    "speed": lambda text: device.device_of(outputs.DTN_LINK, text, text, text, text),
    "rings": lambda text: list(device.judge_rings(DTN, text)),
    "offloads": lambda text: list(device.judge_offloads(DTN, text, True)),
    "route": device.route_device,
    "routes": device.default_device,
    "addresses": lambda text: device.device_with(text, ["192.0.2.2"]),
    "fq": lambda text: list(device.judge_sending("eth0", text, "fq", True, True)),
    "netem": lambda text: list(device.judge_netem("eth0", text)),
    "buffers": lambda text: paths.buffers_of(dict.fromkeys(paths.FILES, text), text),
    "ahosts": paths.addresses_of,
    "ping": paths.base_rtt_s,
    "path mtu": lambda text: paths.path_mtu(lambda size: (False, text), 9000),
    "governors": lambda text: list(resources.judge_governors({"a": text})),
    "near": lambda text: list(resources.judge_near(DTN, text)),
    "clock": lambda text: list(resources.judge_clock(text)),
    "programs": lambda text: resources.programs_of(text, ["tc"]),
    "df": resources.free_bytes,
    "line of a user": needs.programs_in,
}
REAL = [value for name, value in vars(outputs).items() if name.isupper()]


JSON = (
    "[1]",
    "[null]",
    "{}",
    '[{"kind":1}]',
    '[{"root":true,"handle":0,"kind":"fq"}]',
    '[{"dev":[],"dst":"default"}]',
    '[{"addr_info":[1]}]',
    '[{"addr_info":{},"ifname":1}]',
    '[{"ifname":"a","flags":1,"mtu":"x"}]',
    "[" * 9999,
    '[{"root":true,"handle":"1:","kind":"fq","flows_plimit":"9","options":[]}]',
    '{"state":"0","status":[]}',
    "null",
)


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """Returns a real answer, cut off, with something else in its middle."""
    text = draw(st.sampled_from(REAL))
    begin, end = sorted((draw(st.integers(0, len(text))), draw(st.integers(0, len(text)))))
    junk = draw(
        st.sampled_from(["", "[", "{}", "null", '"', "-1", "9" * 30, "\0", "\x1b[2J", "٣", "1e999"])
    )
    return text[:begin] + junk + text[end:]


@pytest.mark.parametrize("name", JUDGES)
@settings(max_examples=40)
@given(text=st.one_of(damaged(), st.text(max_size=40), st.sampled_from(JSON)))
def test_a_judgement(name: str, text: str) -> None:
    with contextlib.suppress(ValueError):
        JUDGES[name](text)


class Babbler:
    """Gives the same answer to everything."""

    name = "localhost"

    def __init__(self, text: str, refuses: bool = False) -> None:
        self._text = text
        self._refuses = refuses

    def run(self, argv: Iterable[str], *, stdin: str = "", timeout_s: float = 30) -> str:
        del stdin, timeout_s
        if self._refuses:
            raise CommandError(self.name, tuple(argv), "Permission denied")
        return self._text

    def read(self, path: str) -> str:
        return self.run(["cat", path])

    @contextmanager
    def start(self, argv: Iterable[str], *, stdout: Path, stderr: Path) -> Iterable[Process]:
        raise AssertionError("the doctor starts nothing that stays")

    @contextmanager
    def changed(self, what: str, do: Iterable[str], undo: Iterable[str]) -> Iterable[str]:
        raise AssertionError("the doctor changes nothing")


@pytest.mark.parametrize(
    "host",
    [
        Babbler(""),
        Babbler("0\n"),
        Babbler("[{}]"),
        Babbler("\x1b[2J\0٣\n" * 50),
        Babbler("x" * 2**21),
        Babbler("", True),
    ],
    ids=["nothing", "zero", "JSON", "binary", "endless", "refuses"],
)
def test_a_host_that_babbles(host: Babbler) -> None:
    runs = (
        host_run("localhost", "localhost"),
        host_run("localhost", "localhost", pacing_bps=1e9, netem="eth0"),
    )
    reports = examine(DoctorOptions(runs, None), lambda name: host)  # type: ignore[arg-type, return-value]
    assert (
        sum(finding.status is Status.UNKNOWN for report in reports for finding in report.findings)
        >= 3
    )
    assert to_json(reports).isascii()
    assert all(char.isprintable() or char == "\n" for char in render(reports))


def test_what_a_host_says_stays_in_its_line() -> None:
    report = Report(
        "localhost",
        0,
        [DoctorFinding("clock", Status.WARN, "a\nok     fq\x1b[31m " + "x" * 999, "Why\nnot.")],
    )
    [host, check, why] = render([report]).splitlines()
    assert host == "localhost"
    assert len(check) < 330
    assert why.strip() == "Why not."
    assert plain("a\u202eb\tc") == "a b c"


def test_an_endless_plan_is_asked_once_a_way() -> None:
    """Examines each destination once in a sweep of many conditions."""
    runs = make_plan(load(REPOSITORY / "configs" / "demo.ini").entries, 1)
    assert len(needs.needs_of(runs)["localhost"].topologies) == 4
    many = [
        host_run("localhost", "localhost", pacing_bps=float(rate)) for rate in range(1000, 1100)
    ]
    [sending] = needs.needs_of(many)["localhost"].sendings
    assert len(sending.loads) == 100
