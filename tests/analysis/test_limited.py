"""Tests the meaning of the goodput of runs that are not valid, and verdicts if limits are
accepted.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from ccmix.analysis.counting import (
    LEGEND,
    OTHERWISE,
    accept_findings,
    limit_advice,
    limit_sentences,
    marked,
    meaning_of,
    not_valid,
)
from ccmix.model import Run
from ccmix.model.results import Finding, FinishedRun, Status
from ccmix.terms import IMPORTED, LIMITS, PROBE, REMEDIES
from support.commands import REPOSITORY
from support.finished_runs import finished_run, group_metrics, metrics

OF_HOSTS = {
    "cpu",
    "receiver-window",
    "send-buffer",
    "tcp-memory",
    "sender-queue",
    "host-backlog",
    "application",
}


def limited(
    run: Run, *kinds: str, status: Status = "limited", goodput_bps: float = 1e9
) -> FinishedRun:
    findings = [
        Finding(kind, f"{LIMITS.get(kind, kind)}: so much", kind == IMPORTED) for kind in kinds
    ]
    return finished_run(run, metrics([group_metrics("cubic", goodput_bps)]), status, findings)


@pytest.mark.parametrize("kind", LIMITS)
def test_what_a_limit_says_of_the_path(kind: str, run: Run) -> None:
    """A host's limit gives a lower bound for the path; a path other than the configured one gives
    nothing.
    """
    expected = (
        "lower bound" if kind in OF_HOSTS else "unknown" if kind == "probe" else "not as configured"
    )
    assert meaning_of(limited(run, kind)) == expected


@pytest.mark.parametrize(
    ("kinds", "status", "meaning"),
    [
        (("cpu", "application"), "limited", "lower bound"),
        (
            ("cpu", "probe"),
            "limited",
            "lower bound",
        ),  # samples that were lost don't undo what others saw
        (("cpu", "cca"), "limited", "not as configured"),
        (("probe", "rtt"), "limited", "not as configured"),
        (("ended-early",), "limited", "not as configured"),
        (("probe",), "unknown", "unknown"),
        (("loss",), "unknown", "unknown"),  # with offloads, the loss is not known
    ],
)
def test_what_several_limits_say(
    kinds: Sequence[str], status: Status, meaning: str, run: Run
) -> None:
    assert meaning_of(limited(run, *kinds, status=status)) == meaning


@pytest.mark.parametrize(
    ("kind", "detail"),
    [
        ("sender-queue", "h1 has pfifo, configured: fq"),
        ("sender-queue", "h1's fq has flow_limit 100, configured: 1000"),
        ("receiver-window", "h1 saw a window of 4 MB, configured: 1 MB at most"),
    ],
)
def test_a_host_that_is_not_as_configured_bounds_nothing(kind: str, detail: str, run: Run) -> None:
    finding = Finding(kind, f"{LIMITS[kind]}: {detail}", accepted=False)
    assert (
        meaning_of(finished_run(run, status="limited", findings=[finding])) == "not as configured"
    )


def test_limits_that_an_entry_accepts_say_nothing(run: Run) -> None:
    both = limited(run, "rtt", "cpu")
    accepted = accept_findings(both, ["rtt"])
    assert (meaning_of(both), meaning_of(accepted)) == ("not as configured", "lower bound")
    assert accepted.verdict.status == "limited"


def test_runs_of_one_meaning_are_one_and_valid_ones_are_none_of_them(run: Run) -> None:
    runs = [
        limited(run, "cpu", goodput_bps=10e9),
        limited(run, "application", "cpu", goodput_bps=20e9),
        limited(run, "cca"),
        limited(run, status="valid"),
        limited(run, IMPORTED, status="unknown"),
    ]
    bound, other = not_valid((finished, finished.metrics.goodput_bps) for finished in runs)
    assert (str(bound), bound.runs, bound.limits) == ("≥ 15.0 Gbit/s", 2, ("cpu", "application"))
    assert (str(other), other.runs, other.limits) == ("≠ 1.00 Gbit/s", 1, ("cca",))
    assert [marked("cubic", finished) for finished in runs[1:4]] == [
        "cubic (lower bound)",
        "cubic (not as configured)",
        "cubic",
    ]


def test_a_sentence_for_each_condition_and_meaning(run: Run) -> None:
    other = replace(run, condition={"delay": "44ms"})
    runs = [limited(run, status="valid")] * 2 + [
        limited(run, "cpu", "probe", goodput_bps=31.2e9)
    ] * 8
    runs += [limited(other, "cca"), limited(other, "probe", status="unknown")]
    assert list(limit_sentences(runs)) == [
        "one delay=5ms: 8 of 10 runs were limited by the processor: 31.2 Gbit/s, a lower bound "
        "for this path",
        "one delay=44ms: 1 of 2 runs was not as configured (a CCA other than the one asked for): "
        "1.00 Gbit/s, which is "
        "not a number of this path",
        "one delay=44ms: 1 of 2 runs was of unknown validity, since probes did not see all: 1.00 "
        "Gbit/s, limited by "
        "the path or not",
    ]


def test_advice_removes_limits_first_and_then_accepts_them(run: Run) -> None:
    legend, cpu, application, accept = limit_advice(
        [limited(run, "application", "cpu"), limited(run, "application")]
    )
    assert legend == LEGEND
    assert cpu.startswith("to remove the limit cpu: larger packets (MTU) and offloads")
    assert (
        application
        == "to remove the limit application: a sending program that always has data to send"
    )
    assert accept == (
        "if the limit is what you want to measure: accept-limits = cpu,application in the entry, "
        "and for existing runs: ccmix report OUTDIR --accept-limits cpu,application"
    )


def test_no_advice_where_all_is_valid_and_none_to_accept_what_no_entry_can(run: Run) -> None:
    assert list(limit_advice([limited(run, status="valid")])) == []
    assert list(limit_advice([limited(run, "ended-early", IMPORTED)])) == [
        LEGEND,
        f"to remove the limit ended-early: {OTHERWISE}",
    ]


@pytest.mark.parametrize(
    ("kinds", "status", "accepted", "then"),
    [
        (("cpu",), "limited", ["cpu"], "valid"),
        (("cpu", "cpu"), "limited", ["cpu"], "valid"),
        (("cpu", "rtt"), "limited", ["cpu"], "limited"),
        (("cpu", "rtt"), "limited", ["rtt", "cpu"], "valid"),
        (("probe",), "unknown", ["probe"], "valid"),
        (("probe",), "unknown", ["cpu"], "unknown"),
        (
            ("receiver-window", IMPORTED),
            "limited",
            ["receiver-window"],
            "unknown",
        ),  # which counts, as imported
        ((IMPORTED,), "unknown", [], "unknown"),
        ((), "valid", ["cpu"], "valid"),
    ],
)
def test_a_verdict_that_accepts_limits(
    kinds: Sequence[str], status: Status, accepted: Sequence[str], then: Status, run: Run
) -> None:
    judged = accept_findings(limited(run, *kinds, status=status), accepted)
    assert judged.verdict.status == then
    assert [finding.kind for finding in judged.verdict.findings] == list(kinds)


def test_the_pages_list_the_limits_of_hosts_and_their_remedies() -> None:
    """In docs/reference, results.md has the meaning of the signs, and findings.md has the remedy
    for each limit.
    """
    pages = REPOSITORY / "docs" / "reference"
    [line] = [
        line
        for line in (pages / "results.md").read_text().splitlines()
        if line.startswith("| ≥ | lower bound |")
    ]
    assert set(re.findall("`([a-z-]+)`", line)) == set(REMEDIES) - {PROBE}
    _, _, remedies = (
        (pages / "findings.md").read_text().partition("## Remedies for the limits of a host")
    )
    named = re.findall(r"^\| (`.*?) \|", remedies.partition("\n## ")[0], re.MULTILINE)
    assert {kind for names in named for kind in re.findall("`([a-z-]+)`", names)} == set(REMEDIES)
