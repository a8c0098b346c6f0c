"""Tests that INI files, host lists and profiles that people wrote for the original harness can be
planned unchanged.
"""

import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ccmix.config import Overrides, load
from ccmix.config.problems import ConfigError
from ccmix.model import HostPath
from support.commands import Ccmix

FOLDER = Path(__file__).parent / "original"
ALPHA_COMMAND = (FOLDER / "alpha.ini").read_text().rpartition("src-cmd = ")[2].strip()
KEYS = [
    "type",
    "enabled",
    "iterations",
    "src",
    "dst",
    "user",
    "alias",
    "src-cmd",
    "dst-cmd",
    "src-cmd-once",
    "dst-cmd-once",
    "pre",
    "post",
    "pre-src-cmd",
    "pre-dst-cmd",
    "post-src-cmd",
    "post-dst-cmd",
    "instrument",
    "ss",
    "tcpdump",
    "tcpdump-filt",
    "tcptrace",
    "mpstat",
    "statexec",
    "netem-loss",
    "netem-lat",
    "netem-limit",
    "lat-sweep",
    "limit-sweep",
    "pacing",
    "param-sweep",
    "profile",
    "profile-file",
]

# The file, the options, the number of runs of each entry, the total seconds, and the notices' keys
PLANS: dict[str, tuple[str, list[str], dict[str, int], float, list[str]]] = {
    "labels": (
        "iperf3-label.ini",
        ["-H", "hosts.csv"],
        {"one_stream": 10, "four_streams,zerocopy": 4},
        380,
        [],
    ),
    "pscheduler": (
        "pscheduler.ini",
        [],
        {"throughput": 1, "paced": 6},
        85 + 6 * 55,
        ["src-cmd-once", "instrument", "ss", "tcpdump-filt"],
    ),
    "netem": (
        "netem.ini",
        ["--netem-at", "netem1:eth2,eth3", "-i", "ens2"],
        {"delays": 60, "limits-of-a-burst": 3, "thresholds": 5, "gains": 8, "lists": 10},
        60 * 325 + 260,
        ["instrument", "tcptrace", "statexec"],
    ),
    "profile": ("profile.ini", [], {"wide_area": 1}, 10, ["ss"]),
    "agents and lists": ("alpha.ini", ["-H", "hosts.csv"], {"reference": 4}, 4 * 35, ["[default]"]),
    "profiles of hosts": (
        "profile.ini",
        ["-H", "hosts-with-profiles.csv"],
        {"wide_area": 3},
        30,
        ["dst", "ss", "alias"],
    ),
}


@pytest.mark.parametrize(
    ("file", "options", "runs", "seconds", "notices"), PLANS.values(), ids=PLANS
)
def test_it_is_planned(
    file: str,
    options: list[str],
    runs: dict[str, int],
    seconds: float,
    notices: list[str],
    ccmix: Ccmix,
) -> None:
    options = [str(FOLDER / option) if option.endswith(".csv") else option for option in options]
    done = ccmix("plan", FOLDER / file, *options, "--format", "json")
    assert done.returncode == 0, done.stderr
    planned: list[dict[str, Any]] = json.loads(done.stdout)
    assert Counter(run["entry"] for run in planned) == runs
    assert sum(run["seconds"] for run in planned) == seconds
    lines = done.stderr.splitlines()
    assert [line.split(": ")[1].split()[-1] for line in lines] == notices
    assert all(line.startswith(f"{FOLDER / file}:") and "no effect" in line for line in lines)
    shown = ccmix("plan", FOLDER / file, *options)
    assert shown.returncode == 0
    assert f"{len(planned)} run" in shown.stderr


@pytest.mark.parametrize("key", KEYS)
def test_every_key_of_the_original_is_in_one_of_the_files(key: str) -> None:
    lines = [line for file in FOLDER.glob("*.ini") for line in file.read_text().splitlines()]
    assert any(line.partition("=")[0].strip() == key for line in lines)


def test_what_the_profile_of_a_host_comes_to() -> None:
    overrides = Overrides(hosts=FOLDER / "hosts-with-profiles.csv")
    [entry] = load(FOLDER / "profile.ini", overrides=overrides).entries
    delays = []
    for condition in entry.conditions:
        assert isinstance(condition.path, HostPath)
        assert condition.path.profile
        delays.append((condition.path.dst.name, condition.path.profile.delay_s))
    assert delays == [("hostA", 0.02), ("hostB", 0.08), ("hostC", 0.08)]


def test_a_command_over_several_lines_is_one() -> None:
    condition = load(FOLDER / "pscheduler.ini").entries[0].conditions[0]
    path, command = condition.path, condition.traffic.command
    assert isinstance(path, HostPath)
    assert command
    assert command.line == (
        "pscheduler task --format json throughput --parallel 4 --duration PT60S --congestion "
        "cubic --dest 10.9.8.7"
    )
    assert path.commands.pre is path.commands.post is path.commands.pre_dst is None


def test_doubled_braces_reach_the_command_as_the_original_passed_them(tmp_path: Path) -> None:
    """The original formatted the command and split it at spaces, without a shell, so the word kept
    its quotes.
    """
    entries = load(FOLDER / "alpha.ini", overrides=Overrides(hosts=FOLDER / "hosts.csv")).entries
    command = entries[0].conditions[0].traffic.command
    assert command
    printed = subprocess.run(
        ["/bin/sh", "-c", command.line.replace("pscheduler task", "printf '%s\\n'")],
        capture_output=True,
        text=True,
        check=True,
    )
    original = ALPHA_COMMAND.format(dst=entries[0].conditions[0].path.dst.address).split(" ")  # type: ignore[union-attr]
    assert printed.stdout.splitlines() == original[2:]


@pytest.mark.parametrize(
    "command",
    [
        """awk '{print $1}' | sed 's/}}/x/'""",
        """awk '{{print $1}}' file""",
        """tool --json '{"a": {"b": 1}}'""",
        """tool ${{x}}""",
        """tool {{x}}""",
    ],
)
def test_other_braces_stay_as_they_are(command: str, tmp_path: Path) -> None:
    file = tmp_path / "braces.ini"
    file.write_text(f"[e]\ntype = any\ndst = dtn.example.org\nduration = 5s\nsrc-cmd = {command}\n")
    kept = load(file).entries[0].conditions[0].traffic.command
    assert kept
    assert kept.line == command


def test_a_comment_as_a_value_without_a_list_of_hosts(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"has no path: .* or give a list of hosts with -H"):
        load(FOLDER / "alpha.ini")
