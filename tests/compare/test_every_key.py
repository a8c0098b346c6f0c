"""Tests that each key of an INI file, swapped between two entries or changed in an entry, is named
with its entries and its values.
"""

import subprocess
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ccmix.analysis.results import Result, Results
from ccmix.archive import Campaign
from ccmix.compare import comparison_text
from ccmix.compare.verdicts import Compared, compare
from ccmix.config import load
from ccmix.config.keys import ALL_KEYS, TOPOLOGY_KEYS
from ccmix.plan import make_plan
from support.commands import REPOSITORY
from support.finished_runs import campaign_plan, finished_run, group_metrics, metrics

ENTRIES = {
    "emulated": {"type": "iperf3", "duration": "5s"},
    "hosts": {"type": "iperf3", "dst": "192.0.2.1", "duration": "5s"},
    "command": {"src-cmd": "transfer {dst}"},
    "netem": {"netem-at": "n1:eth1,eth2"},
    "capture": {"tcpdump": "on"},
    "pscheduler": {"type": "perfSONAR", "src": "ps1", "dst": "ps2", "duration": "5s"},
}
BETWEEN_HOSTS = ("command", "netem", "capture")  # entries that have the keys of "hosts", too
TOPOLOGY = {"rate": "10mbit", "rtt": "20ms"}


@dataclass(frozen=True)
class Case:
    """Holds two values of a key, an entry and a topology that it may be in, and what the
    comparison calls it.
    """

    values: tuple[str, str]
    entry: str = "emulated"
    more: Mapping[str, str] = field(default_factory=dict)  # further keys of the entry
    topology: Mapping[str, str] = field(default_factory=lambda: TOPOLOGY)
    what: str = ""
    key: str = ""  # a member of a family
    shown: tuple[str, str] | None = None  # None: as they are written, or in other units

    @property
    def keys(self) -> Mapping[str, str]:
        """Returns the keys of the entry."""
        hosts = ENTRIES["hosts"] if self.entry in BETWEEN_HOSTS else {}
        return {**hosts, **ENTRIES[self.entry], **self.more}


KEYS = REPOSITORY / "tests" / "data" / "compare" / "keys.toml"
CASES = {name: Case(**case) for name, case in tomllib.loads(KEYS.read_text()).items()}
# Other conditions, whose names have the key, and an entry less
NAMED_OTHERWISE = {"param-sweep", "lat-sweep", "limit-sweep", "enabled"}


def results(folder: Path, name: str, case: Case, values: Sequence[str]) -> Results:
    """Returns a campaign of an entry for each value, e1 and e2, with a valid run of each that
    is planned.
    """
    lines = []
    own = case.key or name
    for number, value in enumerate(values, 1):
        of_topology = own in TOPOLOGY_KEYS
        topology = {**case.topology, **({own: value} if of_topology else {})}
        entry = dict(case.keys) if of_topology else {**case.keys, own: value}
        if case.entry == "emulated":
            lines += _section(f"topology t{number}", topology)
            entry = {"topology": f"t{number}"} | entry
        lines += _section(f"e{number}", entry)
    text = "\n".join(lines)
    folder.mkdir(parents=True)
    for file, delay in (("a.yml", 5), ("b.yml", 9)):
        (folder / file).write_text(
            f"profiles:\n  WAN: {{interface: eth1, latency: {delay}ms}}\n  LAN: {{interface: "
            f"eth2}}\n"
        )
    if name == "tls-ca":
        for file in values:
            made = (
                f"openssl req -x509 -newkey ed25519 -nodes -keyout key.pem -out {file} -subj "
                "/CN=ps1"
            )
            subprocess.run(made.split(), cwd=folder, check=True, capture_output=True)
    (folder / "one.ini").write_text(text)
    runs = make_plan(load(folder / "one.ini").entries, 1)
    campaign = Campaign(folder, campaign_plan(runs, ini=text))
    finished = (
        finished_run(run, metrics([group_metrics(group.cca) for group in run.traffic.groups]))
        for run in runs
    )
    return Results(
        tuple(Result(each, folder / "none") for each in finished), len(runs), campaigns=(campaign,)
    )


def _section(name: str, keys: Mapping[str, str]) -> list[str]:
    return [f"[{name}]", *(f"{key} = {value}" for key, value in keys.items())]


def compared(folder: Path, name: str, of_a: Sequence[str], of_b: Sequence[str]) -> Compared:
    """Compares campaigns whose entries have these values."""
    case = CASES[name]
    return compare(results(folder / "a", name, case, of_a), results(folder / "b", name, case, of_b))


def named(found: Compared) -> set[tuple[str, str, str, str]]:
    """Returns the differences, with the values in A and B and the entries; '' for all entries."""
    return {
        (
            each.what,
            *each.a,
            *each.b,
            " ".join(dict.fromkeys(name.split()[0] for name in each.conditions)),
        )
        for each in found.differences
    }


def test_every_key_has_a_case() -> None:
    assert CASES.keys() == ALL_KEYS.keys()


@pytest.mark.parametrize("name", [name for name in CASES if name not in NAMED_OTHERWISE])
def test_a_key_that_is_swapped_or_changed_is_named(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    first, second = case.values
    what, (shown, shown_second) = case.what or case.key or name, case.shown or (first, second)
    swapped = named(compared(tmp_path / "swapped", name, (first, second), (second, first)))
    assert {(what, shown, shown_second, "e1"), (what, shown_second, shown, "e2")} <= swapped
    changed = named(compared(tmp_path / "changed", name, (first, first), (first, second)))
    assert (what, shown, shown_second, "e2") in changed
    assert not any("e1" in conditions for *_, conditions in changed)
    same = compared(tmp_path / "same", name, (first, second), (first, second))
    assert not same.differences


@pytest.mark.parametrize("name", ["param-sweep", "lat-sweep", "limit-sweep"])
def test_a_sweep_that_is_changed_is_named(name: str, tmp_path: Path) -> None:
    """The entry's conditions have other names: the only condition left in each campaign is compared
    with the other.
    """
    case = CASES[name]
    found = compared(tmp_path, name, (case.values[0], case.values[0]), case.values)
    assert (case.what or name, *(case.shown or case.values), "e2") in named(found)


def test_an_entry_that_is_left_out_is_named(tmp_path: Path) -> None:
    found = compared(tmp_path, "enabled", ("on", "on"), ("on", "off"))
    assert list(comparison_text.not_compared(found)) == [("Only in A", "e2 all")]


def test_what_all_conditions_share_is_said_once(tmp_path: Path) -> None:
    found = compared(tmp_path, "loss", ("0%", "1%"), ("3%", "3%"))
    assert named(found) == {("loss", "none", "3%", "e1"), ("loss", "1%", "3%", "e2")}
    found = compared(tmp_path / "shared", "loss", ("1%", "1%"), ("3%", "3%"))
    assert named(found) == {("loss", "1%", "3%", "")}
    assert "all" in comparison_text.difference_lines(found.differences)[0]
