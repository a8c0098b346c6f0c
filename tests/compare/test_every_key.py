"""Each key of an INI file, swapped between two entries or changed in one, is named with its entries and its values."""

import subprocess
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
from finished_runs import campaign_plan, finished_run, group_metrics, metrics

EMULATED = {"type": "iperf3", "duration": "5s"}
TOPOLOGY = {"rate": "10mbit", "rtt": "20ms"}
HOSTS = {"type": "iperf3", "dst": "192.0.2.1", "duration": "5s"}
COMMAND = HOSTS | {"src-cmd": "transfer {dst}"}
NETEM = HOSTS | {"netem-at": "n1:eth1,eth2"}
PSCHEDULER = {"type": "perfSONAR", "src": "ps1", "dst": "ps2", "duration": "5s"}
CAPTURE = HOSTS | {"tcpdump": "on"}
TWO_HOSTS = TOPOLOGY | {"host.h1": "delay 10ms", "host.h2": "delay 10ms"}


@dataclass(frozen=True)
class Case:
    """Holds two values of a key, an entry and a topology that it may be in, and what the comparison calls it."""

    first: str
    second: str
    entry: Mapping[str, str] = field(default_factory=lambda: EMULATED)
    topology: Mapping[str, str] = field(default_factory=lambda: TOPOLOGY)
    what: str = ""
    key: str = ""  # a member of a family
    shown: tuple[str, str] | None = None  # None: as they are written, or in other units


def hosts(first: str, second: str, entry: Mapping[str, str] = HOSTS, **more: object) -> Case:
    return Case(first, second, entry, {}, **more)  # type: ignore[arg-type]


CASES = {
    # a topology
    "rate": Case("10mbit", "10.001mbit", shown=("10 Mbit/s", "10.001 Mbit/s")),
    "delay": Case("5ms", "7ms", topology={"rate": "10mbit"}, what="delay (half of rtt)", shown=("5 ms", "7 ms")),
    "rtt": Case("10ms", "30ms", what="delay (half of rtt)", shown=("5 ms", "15 ms")),
    "data-delay": Case(
        "5ms", "6ms", topology={"rate": "10mbit", "ack-delay": "1ms"}, shown=("5 ms", "6 ms")
    ),
    "ack-delay": Case("5ms", "6ms", topology={"rate": "10mbit", "data-delay": "1ms"}, shown=("5 ms", "6 ms")),
    "loss": Case("0%", "3%", shown=("none", "3%")),
    "jitter": Case("0s", "1ms", shown=("0 s", "1 ms")),
    "reorder": Case("0%", "0.1%"),
    "buffer": Case("1bdp", "64kib"),
    "qdisc": Case("pie", "codel ecn"),
    "sender-qdisc": Case("fq", "fq_codel limit 1000"),
    "receiver-window": Case("4mb", "128kib", shown=("4 MB", "131.072 kB")),
    "shaper": Case("tbf", "htb"),
    "burst": Case("64kib", "10kb", shown=("65.536 kB", "10 kB")),
    "policer": Case("none", "5mbit burst 20kb", shown=("none", "rate 5 Mbit/s, burst 20 kB")),
    "ack-rate": Case("1mbit", "2mbit", shown=("1 Mbit/s", "2 Mbit/s")),
    "ack-buffer": Case("50p", "10kb", topology=TOPOLOGY | {"ack-rate": "1mbit"}),
    "control": Case("path", "beside"),
    "mtu": Case("1500", "9000", shown=("1500 B", "9000 B")),
    "offloads": Case("off", "on"),
    "ecn": Case("off", "on"),
    "spread": Case("on", "off"),
    "kernel": Case("stock", "mine"),
    "host-root": Case("off", "on"),
    "hosts": Case("1", "2", shown=("h1", "h1, h2")),
    "host.NAME": Case(
        "delay 10ms", "delay 10ms loss 3%", topology=TWO_HOSTS, key="host.h2", what="loss",
        shown=("none", "h1 none, h2 3%"),
    ),
    "receivers": Case("each", "one", topology=TWO_HOSTS),
    "at.TIME": Case("rate 5mbit", "rate 5.001mbit, loss 1%", key="at.2s", what="at.2s",
                    shown=("rate 5 Mbit/s", "rate 5.001 Mbit/s, loss 1%")),
    # every entry
    "type": Case("iperf3", "path\nload-cap = 30mbit", EMULATED | {"duration": "60s"}, what="flows.path",
                 shown=("none", "host h1, start 0 s, load-cap 30 Mbit/s, type path")),
    "enabled": Case("on", "off"),
    "cca": Case("bbr:2", "bbr:2@1.5M+1s", shown=("bbr:2", "bbr:2@1.5 Mbit/s+1s")),
    "streams": Case("1", "2"),
    "pacing": Case("none", "2mbit", shown=("none", "2 Mbit/s")),
    "duration": Case("5s", "6s", shown=("5 s", "6 s")),
    "omit": Case("0s", "1s", shown=("0 s", "1 s")),
    "interval": Case("500ms", "1s", shown=("500 ms", "1 s")),
    "rtt-probe": Case("none", "icmp@10"),
    "load-cap": Case("30mbit", "40mbit", {"type": "path", "duration": "60s"}, what="flows.path load-cap",
                     shown=("30 Mbit/s", "40 Mbit/s")),
    "tcpdump": hosts("off", "on", shown=("none", "filt -s 128 -i any 'host 192.0.2.1', size 1 GB")),
    "tcpdump-size": hosts("1gb", "2gb", CAPTURE, shown=("1 GB", "2 GB")),
    "tcpdump-convert-time": hosts("10m", "20m", CAPTURE, shown=("600 s", "1200 s")),
    "tcpdump-convert-size": hosts("500mb", "2gb", CAPTURE, shown=("500 MB", "2 GB")),
    "param-sweep": Case("tcp_x/parameters/gain, sys-module-list, 5", "tcp_x/parameters/gain, sys-module-list, 6",
                        shown=("tcp_x/parameters/gain = 5", "tcp_x/parameters/gain = 6")),
    "iterations": Case("1", "2"),
    "repeat-order": Case("in-order", "shuffled"),
    "accept-limits": Case("cpu", "cpu, rtt"),
    "unknown": Case("buffer", "loss", EMULATED | {"sweep.buffer": "1bdp, 2bdp", "sweep.loss": "0%, 1%"}),
    "title": Case("One", "Other"),
    "index": Case("http://192.0.2.1:9200", "http://192.0.2.2:9200"),
    # an entry on an emulated path
    "topology": Case("t1", "t2"),
    "flows.NAME": Case("h1 udp@1M", "h1 udp@5M", key="flows.x", what="flows.x rate", shown=("1 Mbit/s", "5 Mbit/s")),
    # an entry between hosts
    "src": hosts("localhost", "dtn1"),
    "dst": hosts("192.0.2.1", "192.0.2.2"),
    "dst-host": hosts("m1", "m2"),
    "user": hosts("dtn", "root", what="dst-host", shown=("dtn@192.0.2.1", "root@192.0.2.1")),
    "alias": hosts("geneva", "basel"),
    "server": hosts("ssh", "running"),
    "port": hosts("5201", "5202"),
    "src-cmd": hosts("transfer {dst}", "transfer -x {dst}", shown=("transfer 192.0.2.1", "transfer -x 192.0.2.1")),
    "dst-cmd": hosts("serve", "serve -x", COMMAND),
    "src-cmd-once": hosts("off", "on", COMMAND),
    "dst-cmd-once": hosts("off", "on", COMMAND | {"dst-cmd": "serve"}),
    **{key: hosts("one", "other") for key in ("pre", "post", "pre-src-cmd", "pre-dst-cmd")},
    **{key: hosts("one", "other") for key in ("post-src-cmd", "post-dst-cmd")},
    "cca-load": hosts("bbr3", "bbr3, bbr2"),
    "netem-at": hosts("n1:eth1,eth2", "n1:eth1,eth3", NETEM | {"netem-lat": "5ms"}),
    "netem-lat": hosts("5ms", "7ms", NETEM, shown=("5 ms", "7 ms")),
    "netem-loss": hosts("1%", "gemodel 1% 10%", NETEM),
    "netem-limit": hosts("1000", "2000", NETEM),
    "lat-sweep": hosts("2", "5", NETEM, what="netem-lat", shown=("2 ms", "5 ms")),
    "limit-sweep": hosts("1000", "2000", NETEM, what="netem-limit"),
    "profile": hosts("WAN", "LAN", HOSTS | {"profile-file": "a.yml"}),
    "profile-file": hosts("a.yml", "b.yml", HOSTS | {"profile": "WAN"}, what="profile lat", shown=("5 ms", "9 ms")),
    "tcpdump-filt": hosts("-s 96 port 5201", "-s 128 port 5201", CAPTURE),
    "mpstat": hosts("0-3", "0-7"),
    "timeout": hosts("1m", "2m", shown=("60 s", "120 s")),
    "connect-timeout": hosts("20s", "30s", shown=("20 s", "30 s")),
    "retries": hosts("0", "2"),
    "pause": hosts("0s", "5s", shown=("0 s", "5 s")),
    "rate-budget": hosts("2TB/day", "1TB/day", shown=("2000 GB in 86400 s", "1000 GB in 86400 s")),
    "time-window": hosts("01:00-05:00 UTC", "01:00-06:30 UTC"),
    **{key: hosts("on", "off") for key in ("instrument", "ss", "tcptrace", "statexec")},
    # of type perfSONAR
    "src-host": hosts("m1", "m2", PSCHEDULER, what="src"),
    "lead": hosts("ps1", "ps3", PSCHEDULER),
    "tls-ca": hosts("a.pem", "b.pem", PSCHEDULER),
    "tool": hosts("iperf3", "iperf3mix", PSCHEDULER),
    "slip": hosts("5m", "20m", PSCHEDULER, shown=("300 s", "1200 s")),
    "priority": hosts("1", "2", PSCHEDULER),
    "wait": hosts("1h", "2h", PSCHEDULER, shown=("3600 s", "7200 s")),
    "repeat": hosts("1h", "2h", PSCHEDULER | {"iterations": "2"}, shown=("3600 s", "7200 s")),
    "spec.NAME": hosts(
        '"PT1S"', '"PT2S"', PSCHEDULER, key="spec.link-rtt", what="spec", shown=('link-rtt "PT1S"', 'link-rtt "PT2S"')
    ),
}  # fmt: skip
# Other conditions, whose names have the key, and an entry less
NAMED_OTHERWISE = {"param-sweep", "lat-sweep", "limit-sweep", "enabled"}


def results(folder: Path, name: str, case: Case, values: Sequence[str]) -> Results:
    """Returns a campaign of an entry for each value, e1 and e2, with a valid run of each that is planned."""
    lines = []
    own = case.key or name
    for number, value in enumerate(values, 1):
        of_topology = own in TOPOLOGY_KEYS
        topology = case.topology | ({own: value} if of_topology else {})
        entry = dict(case.entry) if of_topology else case.entry | {own: value}
        if case.topology:
            lines += _section(f"topology t{number}", topology)
            entry = {"topology": f"t{number}"} | entry
        lines += _section(f"e{number}", entry)
    text = "\n".join(lines)
    folder.mkdir(parents=True)
    for file, delay in (("a.yml", 5), ("b.yml", 9)):
        (folder / file).write_text(
            f"profiles:\n  WAN: {{interface: eth1, latency: {delay}ms}}\n  LAN: {{interface: eth2}}\n"
        )
    if name == "tls-ca":
        for file in values:
            made = f"openssl req -x509 -newkey ed25519 -nodes -keyout key.pem -out {file} -subj /CN=ps1"
            subprocess.run(made.split(), cwd=folder, check=True, capture_output=True)
    (folder / "one.ini").write_text(text)
    runs = make_plan(load(folder / "one.ini").entries, 1)
    campaign = Campaign(folder, campaign_plan(runs, ini=text))
    finished = (finished_run(run, metrics([group_metrics(group.cca) for group in run.traffic.groups])) for run in runs)
    return Results(tuple(Result(each, folder / "none") for each in finished), len(runs), campaigns=(campaign,))


def _section(name: str, keys: Mapping[str, str]) -> list[str]:
    return [f"[{name}]", *(f"{key} = {value}" for key, value in keys.items())]


def compared(folder: Path, name: str, of_a: Sequence[str], of_b: Sequence[str]) -> Compared:
    """Compares campaigns whose entries have these values."""
    case = CASES[name]
    return compare(results(folder / "a", name, case, of_a), results(folder / "b", name, case, of_b))


def named(found: Compared) -> set[tuple[str, str, str, str]]:
    """Returns what differs, in A and in B, and the entries in which it does; '' of all."""
    return {
        (each.what, *each.a, *each.b, " ".join(dict.fromkeys(name.split()[0] for name in each.conditions)))
        for each in found.differences
    }


def test_every_key_has_a_case() -> None:
    assert CASES.keys() == ALL_KEYS.keys()


@pytest.mark.parametrize("name", [name for name in CASES if name not in NAMED_OTHERWISE])
def test_a_key_that_is_swapped_or_changed_is_named(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    first, second = case.first, case.second
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
    """Its conditions have other names: one without another of its campaign that is left is compared with it."""
    case = CASES[name]
    found = compared(tmp_path, name, (case.first, case.first), (case.first, case.second))
    assert (case.what or name, *(case.shown or (case.first, case.second)), "e2") in named(found)


def test_an_entry_that_is_left_out_is_named(tmp_path: Path) -> None:
    found = compared(tmp_path, "enabled", ("on", "on"), ("on", "off"))
    assert list(comparison_text.not_compared(found)) == [("In A alone", "e2 all")]


def test_what_all_conditions_share_is_said_once(tmp_path: Path) -> None:
    found = compared(tmp_path, "loss", ("0%", "1%"), ("3%", "3%"))
    assert named(found) == {("loss", "none", "3%", "e1"), ("loss", "1%", "3%", "e2")}
    found = compared(tmp_path / "shared", "loss", ("1%", "1%"), ("3%", "3%"))
    assert named(found) == {("loss", "1%", "3%", "")}
    assert "all" in comparison_text.difference_lines(found.differences)[0]
