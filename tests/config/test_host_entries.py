"""Tests entries between real hosts: the result of each key, and the messages about mistakes."""

from collections.abc import Callable

import pytest

from ccmix.config import Config, Problem
from ccmix.model import (
    Capture,
    Commands,
    CommandSource,
    Destination,
    Group,
    HostPath,
    Loss,
    ModuleParameter,
    Netem,
    NetemPlace,
    Traffic,
)
from support.model import iperf3_traffic

Files = Callable[..., Config]
Told = Callable[..., tuple[Problem, ...]]

OWN = "[one]\ntype = iperf3\ndst = 10.1.2.3\n"
COMMAND = OWN + "src-cmd = iperf3 -c {dst} -t 60 -J\n"
TOPOLOGY = "[topology dtn]\nrate = 1gbit\ndelay = 5ms\n"
PROFILES = "profiles:\n  WAN:\n    interface: eth7\n    latency: 80ms\n    loss: 0.01%\n"


def paths(read: Files, text: str, **more: str) -> list[HostPath]:
    [entry] = read(text, **more).entries
    return [
        condition.path for condition in entry.conditions if isinstance(condition.path, HostPath)
    ]


def path(read: Files, text: str, **more: str) -> HostPath:
    [only] = paths(read, text, **more)
    return only


def test_ccmix_s_own_iperf3_and_all_defaults(read: Files) -> None:
    [entry] = read(OWN).entries
    [condition] = entry.conditions
    assert condition.values == {}
    assert condition.path == HostPath(
        "localhost", Destination("10.1.2.3", "10.1.2.3", "10.1.2.3"), "iperf3"
    )
    assert condition.traffic == iperf3_traffic((Group("cubic"),), 1, 10.0, 0.0, 0.5, host="src")


def test_everything_at_once(read: Files) -> None:
    text = """\
[all]
type = iperf3 8 streams, bbr
iterations = 3
repeat-order = shuffled
accept-limits = rtt
src = dtn1
dst = 2001:db8::1
dst-host = mgmt.example.org
user = op
alias = geneva
src-cmd = numactl -N 1 iperf3 -c {dst} -t 60
    -O 5 -J
dst-cmd = iperf3 -s -1 -p 5205
src-cmd-once = no
dst-cmd-once = yes
pre = echo '{dst}' {"json": 1}
post = logger {dst}
pre-src-cmd = first
    awk '{print $1}'
pre-dst-cmd = b
post-src-cmd = c
post-dst-cmd = d {}
netem-at = netns:n1:eth2,eth3
netem-lat = 5
netem-loss = 0.001
netem-limit = 10000
pacing = 2.4gbit
tcpdump = true
tcpdump-filt = -s 128 -i ens3 "host {dst} and port 5201"
tcpdump-size = 2gb
mpstat = 0-15
timeout = 2m
retries = 2
pause = 5s
rate-budget = 2TB/day
time-window = 23:30-05:00 UTC
interval = 100ms
"""
    [entry] = read(text, nic="eth1").entries
    [condition] = entry.conditions
    assert (entry.iterations, entry.repeat_order, entry.accept_limits) == (3, "shuffled", ("rtt",))
    assert condition.traffic == Traffic(
        (CommandSource("", "src", "numactl -N 1 iperf3 -c 2001:db8::1 -t 60 -O 5 -J"),),
        65.0,
        0.0,
        0.1,
        2.4e9,
    )
    assert condition.path == HostPath(
        src="op@dtn1",
        dst=Destination("geneva", "2001:db8::1", "op@mgmt.example.org"),
        label="iperf3 8 streams, bbr",
        commands=Commands(
            pre="echo '2001:db8::1' {\"json\": 1}",
            post="logger 2001:db8::1",
            pre_src="first\nawk '{print $1}'",
            pre_dst="b",
            post_src="c",
            post_dst="d {}",
            dst="iperf3 -s -1 -p 5205",
            dst_once=True,
        ),
        server="ssh",
        nic="eth1",
        netem=Netem(0.005, Loss("random", (0.001 / 100,)), 10000),
        netem_at=NetemPlace("netns:n1", "eth2", "eth3"),
        capture=Capture(
            ("-s", "128", "-i", "ens3", "host 2001:db8::1 and port 5201"), 2_000_000_000
        ),
        mpstat_cores="0-15",
        timeout_s=120.0,
        retries=2,
        pause_s=5.0,
        rate_budget=(2e12, 86400.0),
        time_window=(23.5 * 3600, 5 * 3600.0),
    )


def test_empty_values_and_keys_alone_are_unset(read: Files) -> None:
    text = (
        "[DEFAULT]\ndst-cmd = iperf3 -s\n"
        + COMMAND
        + "dst-cmd =\npre-src-cmd\npre =\nmpstat\nnetem-lat =\n"
    )
    [condition] = read(text).entries[0].conditions
    assert isinstance(condition.path, HostPath)
    assert condition.path.commands == Commands()
    assert condition.traffic.sources == (CommandSource("", "src", "iperf3 -c 10.1.2.3 -t 60 -J"),)


@pytest.mark.parametrize(
    ("keys", "src", "host"),
    [
        ("", "localhost", "10.1.2.3"),
        ("user = op\n", "localhost", "op@10.1.2.3"),
        ("user = op\nsrc = me@a\n", "me@a", "op@10.1.2.3"),
        ("user = op\nsrc = netns:h1\n", "netns:h1", "op@10.1.2.3"),
        ("user = op\nsrc = 127.0.0.1\ndst-host = ::1\n", "localhost", "localhost"),
        ("user = op\ndst-host = netns:h2\n", "localhost", "netns:h2"),
        ("user = op\ndst-host = me@mgmt\n", "localhost", "me@mgmt"),
    ],
)
def test_where_commands_run(read: Files, keys: str, src: str, host: str) -> None:
    got = path(read, OWN + keys)
    assert (got.src, got.dst.host, got.dst.address) == (src, host, "10.1.2.3")


@pytest.mark.parametrize(
    ("dst", "address", "host"),
    [
        ("op@b.example.org", "b.example.org", "op@b.example.org"),
        ("localhost", "localhost", "localhost"),
        ("::1", "::1", "localhost"),
        ("fe80::1%eth0", "fe80::1%eth0", "fe80::1%eth0"),
    ],
)
def test_a_destination_s_address_and_host(read: Files, dst: str, address: str, host: str) -> None:
    got = path(read, OWN.replace("10.1.2.3", dst)).dst
    assert got == Destination(address, address, host)


@pytest.mark.parametrize(
    ("text", "loss"),
    [
        ("0.001", Loss("random", (0.00001,))),
        ("0.001%", Loss("random", (0.00001,))),
        ("0.001 gemodel", Loss("gemodel", (0.00001,))),
        ("gemodel 1% 10% 70% 0.1%", Loss("gemodel", (0.01, 0.1, 0.7, 0.001))),
        ("gemodel 1 10", Loss("gemodel", (0.01, 0.1))),
    ],
)
def test_losses(read: Files, text: str, loss: Loss) -> None:
    netem = path(read, OWN + f"netem-loss = {text}\nnetem-at = n:e\n").netem
    assert netem
    assert netem.loss
    assert netem.loss.model == loss.model
    assert netem.loss.parameters == pytest.approx(loss.parameters)
    assert (netem.delay_s, netem.limit_packets) == (0, None)


@pytest.mark.parametrize(
    ("text", "ccas"), [("bbr3", ("bbr3",)), ("bbr2 , bbr3", ("bbr2", "bbr3")), ("", ())]
)
def test_the_ccas_that_are_loaded(read: Files, text: str, ccas: tuple[str, ...]) -> None:
    assert path(read, OWN + f"cca-load = {text}\n").cca_load == ccas


@pytest.mark.parametrize("text", ["0", "0%", "gemodel 0", "gemodel 0 10 70", "gemodel 1 10 0"])
def test_what_loses_nothing_is_no_loss(read: Files, text: str) -> None:
    assert path(read, OWN + f"netem-loss = {text}\nnetem-at = n:e\n").netem == Netem(0.0, None)


def test_sweeps_of_the_original_multiply_in_the_order_of_the_file(read: Files) -> None:
    text = OWN + "netem-at = n:a,b\nlimit-sweep = 100, 200\nlat-sweep = 2,5ms\nnetem-lat = 9\n"
    text += "param-sweep = tcp_bbr2/parameters/loss_thresh, sys-module-increment,2,6,2\n"
    [entry] = read(text).entries
    assert [tuple(condition.values.items()) for condition in entry.conditions][:4] == [
        (("netem-limit", "100"), ("netem-lat", "2"), ("loss_thresh", "2")),
        (("netem-limit", "100"), ("netem-lat", "2"), ("loss_thresh", "4")),
        (("netem-limit", "100"), ("netem-lat", "2"), ("loss_thresh", "6")),
        (("netem-limit", "100"), ("netem-lat", "5ms"), ("loss_thresh", "2")),
    ]
    assert len(entry.conditions) == 2 * 2 * 3
    for condition in entry.conditions:
        got = condition.path
        assert isinstance(got, HostPath)
        assert got.netem
        assert got.netem.limit_packets == int(condition.values["netem-limit"])
        assert got.netem.delay_s == pytest.approx(
            float(condition.values["netem-lat"].removesuffix("ms")) / 1000
        )
        assert got.module_parameter == ModuleParameter(
            "tcp_bbr2/parameters/loss_thresh", condition.values["loss_thresh"]
        )


@pytest.mark.parametrize(
    ("text", "element", "values"),
    [
        ("m/parameters/p, sys-module-increment,2,6,1", None, ["2", "3", "4", "5", "6"]),
        ("m/parameters/p, sys-module-increment,2,7,2", None, ["2", "4", "6"]),
        ("m/parameters/p,sys-module-list,1,2,5,-10, 20", None, ["1", "2", "5", "-10", "20"]),
        ("m/parameters/p, sys-module-vector-list, 1,128,192", 1, ["128", "192"]),
        ("m/parameters/mtu, sys-module-list, 7", None, ["7"]),
    ],
)
def test_parameter_sweeps(read: Files, text: str, element: int | None, values: list[str]) -> None:
    parameters = [one.module_parameter for one in paths(read, OWN + f"param-sweep = {text}\n")]
    assert parameters == [
        ModuleParameter(text.partition(",")[0], value, element) for value in values
    ]


def test_any_key_can_be_swept(read: Files) -> None:
    text = (
        OWN + "sweep.pacing = none, 1gbit\nsweep.pre-src-cmd =\n    sysctl a=1,2\n    sysctl a=3\n"
    )
    [entry] = read(text).entries
    assert [(c.traffic.pacing_bps, c.path.commands.pre_src) for c in entry.conditions] == [  # type: ignore[union-attr]
        (None, "sysctl a=1,2"),
        (None, "sysctl a=3"),
        (1e9, "sysctl a=1,2"),
        (1e9, "sysctl a=3"),
    ]


def test_netem_at_of_the_command_line_stands_before_the_file_s(read: Files) -> None:
    text = OWN + "netem-lat = 5ms\n"
    assert path(read, text, netem_at="me@n:a,b").netem_at == NetemPlace("me@n", "a", "b")
    assert path(
        read, text + "netem-at = n2:c,d\n", netem_at="2001:db8::1:a,b"
    ).netem_at == NetemPlace("2001:db8::1", "a", "b")
    assert path(read, OWN, netem_at="n:a,b").netem_at is None


def test_a_capture_without_filter_is_of_the_headers_to_and_from_dst(read: Files) -> None:
    assert path(read, OWN + "tcpdump = on\n").capture == Capture(
        ("-s", "128", "-i", "any", "host 10.1.2.3"), 10**9
    )
    assert path(read, OWN + "tcpdump = on\n", nic="eth1").capture == Capture(
        ("-s", "128", "-i", "eth1", "host 10.1.2.3"), 10**9
    )
    assert path(read, OWN + "tcpdump = off\ntcpdump-filt = -i lo\n").capture is None


def test_a_profile(read: Files) -> None:
    got = path(read, OWN + "profile = WAN\nprofile-file = p.yml\n", p_yml=PROFILES)
    assert (got.profile_device, got.dst.profile) == ("eth7", "WAN")
    assert got.profile == Netem(0.08, Loss("random", (0.0001,)))
    assert path(read, OWN + "profile-file = p.yml\n", p_yml=PROFILES).profile is None


def test_a_list_of_hosts_stands_before_dst_and_leaves_topologies_alone(read: Files) -> None:
    text = (
        OWN
        + "user = op\n"
        + TOPOLOGY
        + "[two]\ntype = iperf3\ntopology = dtn\n[three]\ntype=x\nsrc-cmd=sleep 1\n"
    )
    config = read(text, hosts="hostname,alias\na.example.org,\nme@b,bee\n")
    one, two, three = config.entries
    assert [condition.path.dst for condition in one.conditions] == [  # type: ignore[union-attr]
        Destination("a.example.org", "a.example.org", "op@a.example.org"),
        Destination("bee", "b", "me@b"),
    ]
    assert len(two.conditions) == 1
    assert len(three.conditions) == 2
    assert [(notice.line, notice.key) for notice in config.notices] == [(3, "dst")]


def test_what_an_entry_says_stands_before_default(read: Files) -> None:
    emulated = "[two]\ntype = iperf3\ntopology = dtn\n"
    [one] = read(
        "[DEFAULT]\ndst = 10.0.0.1\nsweep.netem-limit = 1,2\n" + TOPOLOGY + emulated
    ).entries
    assert not isinstance(one.conditions[0].path, HostPath)
    assert len(one.conditions) == 1, "a sweep that the entry doesn't know is not its own"
    [two] = read("[DEFAULT]\ntopology = dtn\nsweep.loss = 0%,1%\n" + TOPOLOGY + OWN).entries
    assert isinstance(two.conditions[0].path, HostPath)
    assert len(two.conditions) == 1


@pytest.mark.parametrize(
    ("keys", "seconds"),
    [
        ("", 60),
        ("duration = 30s\n", 30),
        ("duration = 1500ms\n", 1.5),
        ("src-cmd = ./mine\n", None),
    ],
)
def test_how_long_a_command_takes(read: Files, keys: str, seconds: float | None) -> None:
    [entry] = read((OWN if "src-cmd" in keys else COMMAND) + keys).entries
    assert entry.conditions[0].traffic.seconds == seconds


def test_a_limit_is_the_time_until_the_run_has_ended(read: Files) -> None:
    """This also holds if several commands are swept, each on its own line."""
    text = OWN + "sweep.duration =\n    settled, at most 10m\n    settled at most 1h\n    20s\n"
    [entry] = read(text).entries
    traffics = [condition.traffic for condition in entry.conditions]
    assert [(traffic.seconds, traffic.at_most_s) for traffic in traffics] == [
        (600, 600),
        (3600, 3600),
        (20, None),
    ]


def test_what_is_off_or_of_a_disabled_entry_is_no_notice(read: Files) -> None:
    assert read(COMMAND + "tcptrace = false\nstatexec = off\n").notices == ()
    assert read(COMMAND + OWN.replace("one", "two") + "ss = on\nenabled = off\n").notices == ()
