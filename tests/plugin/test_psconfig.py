"""Tests that the templates of `ccmix psconfig` keep to pSConfig's rules, and their tests to
the tool's.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from iperf3mix import spec
from support.commands import Ccmix
from support.plugin_runner import check

MESH = ("ps1.example.org", "10.0.0.7", "2001:db8::1")
PARAMETERS = (
    "--groups",
    "cubic:8,bbr:8",
    "--groups",
    "bbr@1G+250ms, -",
    "--groups",
    "cubic",
    "--archive",
    "https://archive.example.org/logstash",
)


def template(ccmix: Ccmix, *arguments: object) -> dict[str, Any]:
    done = ccmix("psconfig", *arguments)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def expanded(text: str, source: str, dest: str) -> dict[str, Any]:
    return dict(
        json.loads(text.replace("{% address[0] %}", source).replace("{% address[1] %}", dest))
    )


def test_a_template_keeps_to_the_rules(ccmix: Ccmix, tmp_path: Path) -> None:
    hosts = tmp_path / "hosts.csv"
    hosts.write_text("hostname,alias,profile\ndtn@ps4.example.org,four,\n")
    output = tmp_path / "mesh.json"
    done = ccmix(
        "psconfig",
        *MESH,
        "-H",
        hosts,
        *PARAMETERS,
        "--link-rtt",
        "90ms",
        "--omit",
        "5s",
        "-o",
        output,
    )
    assert (done.returncode, done.stdout) == (0, "")
    text = output.read_text()
    mesh = json.loads(text)
    check(mesh, "psconfig")

    # All references have a target
    names = [each["name"] for group in mesh["groups"].values() for each in group["addresses"]]
    assert set(names) == set(mesh["addresses"])
    assert [each["address"] for each in mesh["addresses"].values()] == [*MESH, "ps4.example.org"]
    for task in mesh["tasks"].values():
        assert task["group"] in mesh["groups"]
        assert task["test"] in mesh["tests"]
        assert task["schedule"] in mesh["schedules"]
        assert task["archives"] == list(mesh["archives"]) == ["archive"]
    assert {task["test"] for task in mesh["tasks"].values()} == set(mesh["tests"])

    # The tool takes the tests of its tasks, and no others
    for task in expanded(text, "ps1.example.org", "10.0.0.7")["tasks"].values():
        test = expanded(text, "ps1.example.org", "10.0.0.7")["tests"][task["test"]]
        if task.get("tools") == ["iperf3mix"]:
            request = spec.read(test)
            assert (request.source, request.dest) == ("ps1.example.org", "10.0.0.7")
            assert (request.streams, request.duration_s, request.omit_s) == (16, 30, 5)
            assert request.link_rtt_s == pytest.approx(0.09)
        else:
            with pytest.raises(spec.SpecError, match="a test for stock iperf3"):
                spec.read(test)
    assert [task.get("tools") for task in mesh["tasks"].values()] == [
        ["iperf3mix"],
        ["iperf3mix"],
        None,
    ]


def test_failures_are_archived_too(ccmix: Ccmix) -> None:
    archive = template(ccmix, *MESH, *PARAMETERS, "--no-verify")["archives"]["archive"]
    assert archive["runs"] == "all"
    assert archive["data"]["verify-ssl"] is False
    assert archive["data"]["_url"] == "https://archive.example.org/logstash"


def test_a_template_without_an_archive(ccmix: Ccmix) -> None:
    mesh = template(
        ccmix, "a", "b", "--groups", "cubic,bbr", "--interval", "1h", "--ip-version", "6"
    )
    check(mesh, "psconfig")
    assert mesh["archives"] == {}
    assert mesh["schedules"] == {
        "every-PT3600S": {"repeat": "PT3600S", "slip": "PT3600S", "sliprand": True}
    }
    (test,) = mesh["tests"].values()
    assert test["spec"]["ip-version"] == 6
    assert test["spec"]["parallel"] == 2


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("a", "--groups", "cubic,bbr"), "hosts: a mesh needs at least two"),
        (("a", "a", "--groups", "cubic,bbr"), "hosts: a is named twice"),
        (
            ("a", "b c", "--groups", "cubic,bbr"),
            "hosts: 'b c' is neither a host name nor an address",
        ),
        (
            ("a", "10.0.0.256", "--groups", "cubic,bbr"),
            "hosts: '10.0.0.256' is neither a host name nor an address",
        ),
        (("a", "fe80::1%eth0", "--groups", "cubic,bbr"), "is neither a host name nor an address"),
        (("a", "b"), "Missing option '--groups'"),
        (
            ("a", "b", "--groups", "cubic:0,bbr"),
            "groups: 'cubic:0,bbr': 'cubic:0' is not CCA[:WEIGHT]",
        ),
        (("a", "b", "--groups", "cubic,nosuch"), "'nosuch' is not a known CCA"),
        (
            ("a", "b", "--groups", "cubic,bbr", "--groups", "cubic, bbr"),
            "groups: write each mix once",
        ),
        (("a", "b", "--groups", "cubic:100,bbr:100"), "the weights add up to 200 streams"),
        (
            ("a", "b", "--groups", "cubic:8,bbr", "--streams", "4"),
            "has a group that gets none of the 4 streams",
        ),
        (
            ("a", "b", "--groups", "cubic,bbr", "--duration", "1500ms"),
            "duration: '1500ms' is not a whole number",
        ),
        (("a", "b", "--groups", "cubic,bbr", "--duration", "30"), "duration: '30' has no unit"),
        (
            ("a", "b", "--groups", "cubic,bbr", "--archive", "a.example"),
            "archive: 'a.example' is not a URL",
        ),
        # 2 hosts, 2 tests in each direction, 50 s each
        (
            ("a", "b", "--groups", "-,bbr", "--groups", "bbr", "--interval", "199s"),
            "a host is busy for 200 s of it",
        ),
    ],
)
def test_a_mesh_that_can_not_be(ccmix: Ccmix, arguments: tuple[str, ...], error: str) -> None:
    done = ccmix("psconfig", *arguments)
    assert done.returncode == 2
    assert error in done.stderr
    assert done.stdout == ""
