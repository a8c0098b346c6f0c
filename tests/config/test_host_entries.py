"""Entries between real hosts: what each key comes to, and what is told of mistakes in them."""

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
from support import iperf3_traffic

Files = Callable[..., Config]
Told = Callable[..., tuple[Problem, ...]]

OWN = "[one]\ntype = iperf3\ndst = 10.1.2.3\n"
COMMAND = OWN + "src-cmd = iperf3 -c {dst} -t 60 -J\n"
TOPOLOGY = "[topology dtn]\nrate = 1gbit\ndelay = 5ms\n"
PROFILES = "profiles:\n  WAN:\n    interface: eth7\n    latency: 80ms\n    loss: 0.01%\n"


def paths(read: Files, text: str, **more: str) -> list[HostPath]:
    [entry] = read(text, **more).entries
    return [condition.path for condition in entry.conditions if isinstance(condition.path, HostPath)]


def path(read: Files, text: str, **more: str) -> HostPath:
    [only] = paths(read, text, **more)
    return only


def test_ccmix_s_own_iperf3_and_all_defaults(read: Files) -> None:
    [entry] = read(OWN).entries
    [condition] = entry.conditions
    assert condition.values == {}
    assert condition.path == HostPath("localhost", Destination("10.1.2.3", "10.1.2.3", "10.1.2.3"), "iperf3")
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
        (CommandSource("", "src", "numactl -N 1 iperf3 -c 2001:db8::1 -t 60 -O 5 -J"),), 65.0, 0.0, 0.1, 2.4e9
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
        capture=Capture(("-s", "128", "-i", "ens3", "host 2001:db8::1 and port 5201"), 2_000_000_000),
        mpstat_cores="0-15",
        timeout_s=120.0,
        retries=2,
        pause_s=5.0,
        rate_budget=(2e12, 86400.0),
        time_window=(23.5 * 3600, 5 * 3600.0),
    )


def test_empty_values_and_keys_alone_are_unset(read: Files) -> None:
    text = "[DEFAULT]\ndst-cmd = iperf3 -s\n" + COMMAND + "dst-cmd =\npre-src-cmd\npre =\nmpstat\nnetem-lat =\n"
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
    [("op@b.example.org", "b.example.org", "op@b.example.org"), ("localhost", "localhost", "localhost"),
     ("::1", "::1", "localhost"), ("fe80::1%eth0", "fe80::1%eth0", "fe80::1%eth0")],
)  # fmt: skip
def test_a_destination_s_address_and_host(read: Files, dst: str, address: str, host: str) -> None:
    got = path(read, OWN.replace("10.1.2.3", dst)).dst
    assert got == Destination(address, address, host)


@pytest.mark.parametrize(
    ("text", "loss"),
    [
        ("0.001", Loss("random", (0.00001,))), ("0.001%", Loss("random", (0.00001,))),
        ("0.001 gemodel", Loss("gemodel", (0.00001,))),
        ("gemodel 1% 10% 70% 0.1%", Loss("gemodel", (0.01, 0.1, 0.7, 0.001))),
        ("gemodel 1 10", Loss("gemodel", (0.01, 0.1))),
    ],
)  # fmt: skip
def test_losses(read: Files, text: str, loss: Loss) -> None:
    netem = path(read, OWN + f"netem-loss = {text}\nnetem-at = n:e\n").netem
    assert netem
    assert netem.loss
    assert netem.loss.model == loss.model
    assert netem.loss.parameters == pytest.approx(loss.parameters)
    assert (netem.delay_s, netem.limit_packets) == (0, None)


@pytest.mark.parametrize(("text", "ccas"), [("bbr3", ("bbr3",)), ("bbr2 , bbr3", ("bbr2", "bbr3")), ("", ())])
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
        assert got.netem.delay_s == pytest.approx(float(condition.values["netem-lat"].removesuffix("ms")) / 1000)
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
    assert parameters == [ModuleParameter(text.partition(",")[0], value, element) for value in values]


def test_any_key_can_be_swept(read: Files) -> None:
    text = OWN + "sweep.pacing = none, 1gbit\nsweep.pre-src-cmd =\n    sysctl a=1,2\n    sysctl a=3\n"
    [entry] = read(text).entries
    assert [(c.traffic.pacing_bps, c.path.commands.pre_src) for c in entry.conditions] == [  # type: ignore[union-attr]
        (None, "sysctl a=1,2"), (None, "sysctl a=3"), (1e9, "sysctl a=1,2"), (1e9, "sysctl a=3"),
    ]  # fmt: skip


def test_netem_at_of_the_command_line_stands_before_the_file_s(read: Files) -> None:
    text = OWN + "netem-lat = 5ms\n"
    assert path(read, text, netem_at="me@n:a,b").netem_at == NetemPlace("me@n", "a", "b")
    assert path(read, text + "netem-at = n2:c,d\n", netem_at="2001:db8::1:a,b").netem_at == NetemPlace(
        "2001:db8::1", "a", "b"
    )
    assert path(read, OWN, netem_at="n:a,b").netem_at is None


def test_a_capture_without_filter_is_of_the_headers_to_and_from_dst(read: Files) -> None:
    assert path(read, OWN + "tcpdump = on\n").capture == Capture(("-s", "128", "-i", "any", "host 10.1.2.3"), 10**9)
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
    text = OWN + "user = op\n" + TOPOLOGY + "[two]\ntype = iperf3\ntopology = dtn\n[three]\ntype=x\nsrc-cmd=sleep 1\n"
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
    [one] = read("[DEFAULT]\ndst = 10.0.0.1\nsweep.netem-limit = 1,2\n" + TOPOLOGY + emulated).entries
    assert not isinstance(one.conditions[0].path, HostPath)
    assert len(one.conditions) == 1, "a sweep that the entry doesn't know is not its own"
    [two] = read("[DEFAULT]\ntopology = dtn\nsweep.loss = 0%,1%\n" + TOPOLOGY + OWN).entries
    assert isinstance(two.conditions[0].path, HostPath)
    assert len(two.conditions) == 1


@pytest.mark.parametrize(
    ("keys", "seconds"),
    [("", 60), ("duration = 30s\n", 30), ("duration = 1500ms\n", 1.5), ("src-cmd = ./mine\n", None)],
)
def test_how_long_a_command_takes(read: Files, keys: str, seconds: float | None) -> None:
    [entry] = read((OWN if "src-cmd" in keys else COMMAND) + keys).entries
    assert entry.conditions[0].traffic.seconds == seconds


def test_a_limit_is_the_time_until_the_run_has_ended(read: Files) -> None:
    """Also where several are swept, each on a line of its own."""
    text = OWN + "sweep.duration =\n    settled, at most 10m\n    settled at most 1h\n    20s\n"
    [entry] = read(text).entries
    traffics = [condition.traffic for condition in entry.conditions]
    assert [(traffic.seconds, traffic.at_most_s) for traffic in traffics] == [(600, 600), (3600, 3600), (20, None)]


NOTICES = {
    "instrument": (COMMAND + "instrument = true\n", 5, "instrument", "sockets are always sampled"),
    "ss off": (COMMAND + "ss = off\n", 5, "ss", "sockets are always sampled"),
    "tcptrace": (COMMAND + "tcptrace = true\n", 5, "tcptrace", "connections.parquet has it"),
    "statexec": (COMMAND + "statexec = true\n", 5, "statexec", "processes are always recorded"),
    "in DEFAULT": ("[DEFAULT]\nss = on\n" + COMMAND, 2, "ss", "no effect any more"),
    "filter without tcpdump": (COMMAND + "tcpdump-filt = -i lo\n", 5, "tcpdump-filt", "without tcpdump = on"),
    "cca beside a command": (COMMAND + "cca = bbr\n", 5, "cca", "no effect beside src-cmd"),
    "streams beside a command": (COMMAND + "streams = 2\n", 5, "streams", "no effect beside src-cmd"),
}


@pytest.mark.parametrize(("text", "line", "key", "sentence"), NOTICES.values(), ids=NOTICES)
def test_what_has_no_effect_is_told(read: Files, text: str, line: int, key: str, sentence: str) -> None:
    [notice] = read(text).notices
    assert (notice.line, notice.key) == (line, key)
    assert sentence in notice.message


def test_a_list_of_hosts_for_nobody_is_told(read: Files) -> None:
    [notice] = read(TOPOLOGY + "[two]\ntype = iperf3\ntopology = dtn\n", hosts="hostname\na\n").notices
    assert notice.file.name == "hosts.csv"
    assert "no enabled entry is between real hosts" in str(notice)


def test_what_is_off_or_of_a_disabled_entry_is_no_notice(read: Files) -> None:
    assert read(COMMAND + "tcptrace = false\nstatexec = off\n").notices == ()
    assert read(COMMAND + OWN.replace("one", "two") + "ss = on\nenabled = off\n").notices == ()


META = [
    "a b",
    "a;b",
    "$(id)",
    "`id`",
    "a|b",
    "a&b",
    "a>b",
    "-oProxyCommand=x",
    "a'b",
    'a"b',
    "a*b",
    "a\\b",
    "a/b",
    "b$x",
]
AT = "netem-at = n:a,b\n"
PARAMETER = OWN + "param-sweep = m/parameters/x, "
FILTER = OWN + "tcpdump = on\ntcpdump-filt = "
MISTAKES: dict[str, tuple[str, dict[str, str], int | None, str | None, str]] = {
    "both paths": (TOPOLOGY + OWN + "topology = dtn\n", {}, 7, "topology", "dst = HOST a real one; remove one"),
    "both in DEFAULT": (
        "[DEFAULT]\ndst=a\ntopology=dtn\n" + TOPOLOGY + "[one]\ntype=iperf3\n", {}, 7, None, "stands beside dst"),
    "neither path": ("[one]\ntype = x\nsrc-cmd = y\n", {}, 1, None, "give a list of hosts with -H"),
    "key of the other sort": (TOPOLOGY + "[one]\ntype=iperf3\ntopology=dtn\nsrc-cmd=x\n", {}, 7, "src-cmd",
                              "belongs to an entry with dst, and this is one with a topology"),
    "CCA loaded for a topology": (
        TOPOLOGY + "[one]\ntype = iperf3\ntopology = dtn\ncca-load = bbr3\n", {}, 7, "cca-load",
        "the lab's kernel has bbr2 and bbr3 built in"),
    "CCA that can't be loaded": (OWN + "cca-load = cubic\n", {}, 4, "cca-load", "write bbr2 or bbr3, or both"),
    "CCA loaded twice": (OWN + "cca-load = bbr3,bbr3\n", {}, 4, "cca-load", "names a CCA twice"),
    "CCA loaded where there is no shell": (
        "[one]\ntype = perfSONAR\nsrc = a.example\ndst = b.example\ncca-load = bbr3\n", {}, 5, "cca-load",
        "ccmix has no shell on a.example"),
    "key of a topology": (OWN + "mtu = 9000\n", {}, 4, "mtu", "belongs to a [topology NAME] section, and this entry"),
    "sweep of a topology's key": (OWN + "sweep.mtu = 1500,9000\n", {}, 4, "sweep.mtu", "mtu has no effect in this"),
    "sweep of what the command decides": (COMMAND + "sweep.cca = bbr,cubic\n", {}, 5, "sweep.cca", "no effect in this"),
    "unknown key": (OWN + "src-cmdd = x\n", {}, 4, "src-cmdd", "did you mean 'src-cmd'?"),
    "unknown key alone": (OWN + "pre-src\n", {}, 4, "pre-src", "did you mean 'pre-src-cmd'?"),
    "label without command": (OWN.replace("iperf3", "iperf3 4 streams"), {}, 2, "type", "is a label, and nothing says"),
    "unknown generator": (OWN.replace("iperf3", "iperf4"), {}, 2, "type", "did you mean 'iperf3'?"),
    "no type": ("[one]\ndst = a\n", {}, 1, "type", "is missing"),
    "netem nowhere": (OWN + "netem-loss = 1\n", {}, 1, None, "write netem-at = HOST:DATA_DEVICE,ACK_DEVICE"),
    "swept netem nowhere": (OWN + "lat-sweep = 1,2\n", {}, 1, None, "or give --netem-at"),
    "delay on one device": (OWN + "netem-lat = 1\nnetem-at = n:a\n", {}, 1, None, "write n:a,ACK_DEVICE"),
    "netem at one device twice": (OWN + "netem-lat = 1\nnetem-at = n:a,a\n", {}, 5, "netem-at", "one device twice"),
    "netem at no device": (OWN + "netem-lat = 1\nnetem-at = n\n", {}, 5, "netem-at", "is no HOST:DATA_DEVICE"),
    "netem at three": (OWN + "netem-lat = 1\nnetem-at = n:a,b,c\n", {}, 5, "netem-at", "is no HOST:DATA_DEVICE"),
    "netem at a strange device": (OWN + "netem-lat = 1\nnetem-at = n:a;b\n", {}, 5, "netem-at", "is no network device"),
    "netem at a strange host": (
        OWN + "netem-lat = 1\nnetem-at = $x:a,b\n", {}, 5, "netem-at", "the host '$x', which"),
    "--netem-at": (OWN, {"netem_at": "-x:a,b"}, None, None, "--netem-at '-x:a,b' has the host"),
    "--nic": (OWN, {"nic": "eth0;reboot"}, None, None, "--nic 'eth0;reboot' has"),
    "delay of minutes": (OWN + AT + "netem-lat = 2m\n", {}, 5, "netem-lat", "more than 60 s"),
    "negative delay in a sweep": (OWN + AT + "lat-sweep = 1,-2\n", {}, 5, "lat-sweep", "is negative"),
    "the same delay twice": (OWN + AT + "lat-sweep = 2,2\n", {}, 5, "lat-sweep", "names a value twice"),
    "one key swept twice": (
        OWN + AT + "lat-sweep = 2\nsweep.netem-lat = 3\n", {}, 6, "sweep.netem-lat", "a second time"),
    "all lost": (OWN + AT + "netem-loss = 100\n", {}, 5, "netem-loss", "lets nothing pass"),
    "two losses": (OWN + AT + "netem-loss = 1 2\n", {}, 5, "netem-loss", "is no loss"),
    "five parts of gemodel": (OWN + AT + "netem-loss = gemodel 1 2 3 4 5\n", {}, 5, "netem-loss", "is no loss"),
    "limit 0": (OWN + AT + "limit-sweep = 0,5\n", {}, 5, "limit-sweep", "'0' is not a whole number from 1"),
    "parameter outside": (OWN + "param-sweep = ../../etc/parameters/x, sys-module-list,1\n", {}, 4, "param-sweep",
                          "is no module parameter"),
    "parameter of a shell": (OWN + "param-sweep = m/parameters/$x, sys-module-list,1\n", {}, 4, "param-sweep",
                             "is no module parameter"),
    "parameter with more": (OWN + "param-sweep = m/parameters/x;id, sys-module-list,1\n", {}, 4, "param-sweep",
                            "is no module parameter"),
    "profile file with a strange name": (
        OWN + "profile-file = a\n  b\u2028c\n", {}, None, None, "a\ufffdb\ufffdc: can't be read"),
    "parameter without kind": (OWN + "param-sweep = m/parameters/x\n", {}, 4, "param-sweep", "unknown kind ''"),
    "parameter of no values": (PARAMETER + "sys-module-list\n", {}, 4, "param-sweep", "no values"),
    "step 0": (PARAMETER + "sys-module-increment,1,5,0\n", {}, 4, "param-sweep", "STEP at least 1"),
    "end before start": (
        PARAMETER + "sys-module-increment,5,1,1\n", {}, 4, "param-sweep", "START is at most END"),
    "no step": (PARAMETER + "sys-module-increment,5,1\n", {}, 4, "param-sweep", "START,END,STEP"),
    "too many steps": (
        PARAMETER + "sys-module-increment,0,999999999999,1\n", {}, 4, "param-sweep", "more than"),
    "element 0": (PARAMETER + "sys-module-vector-list,0,1\n", {}, 4, "param-sweep", "from 1 to"),
    "a word as value": (PARAMETER + "sys-module-list,a\n", {}, 4, "param-sweep", "no whole number"),
    "quotation mark": (FILTER + "-i lo \"a\n", {}, 5, "tcpdump-filt", "quotation mark too few"),
    "tcpdump that runs": (FILTER + "-z reboot\n", {}, 5, "tcpdump-filt", "option -z not"),
    "tcpdump that writes": (FILTER + "-nw/etc/x\n", {}, 5, "tcpdump-filt", "option -w not"),
    "tcpdump that reads": (FILTER + "lo -r x\n", {}, 5, "tcpdump-filt", "option -r not"),
    "cores": (OWN + "mpstat = 0-15; x\n", {}, 4, "mpstat", "names no cores"),
    "port": (OWN + "port = 65536\n", {}, 4, "port", "from 1 to 65535"),
    "server": (OWN + "server = sh\n", {}, 4, "server", "did you mean 'ssh'?"),
    "budget without period": (OWN + "rate-budget = 2TB\n", {}, 4, "rate-budget", "write for instance 2TB/day"),
    "budget of bits": (OWN + "rate-budget = 2tbit/day\n", {}, 4, "rate-budget", "unknown unit 'tbit'"),
    "window of local time": (OWN + "time-window = 01:00-05:00\n", {}, 4, "time-window", "01:00-05:00 UTC"),
    "window of 25 hours": (OWN + "time-window = 01:00-25:00 UTC\n", {}, 4, "time-window", "no time of the day"),
    "empty window": (OWN + "time-window = 01:00-01:00 UTC\n", {}, 4, "time-window", "ends when it begins"),
    "no limit": (OWN + "duration = settled\n", {}, 4, "duration", "write for instance settled, at most 10m"),
    "a limit of nothing": (OWN + "duration = settled, at most 0s\n", {}, 4, "duration", "is zero"),
    "a command that settles": (COMMAND + "duration = settled at most 1m\n", {}, 5, "duration", "decides when it ends"),
    "timeout below a limit": (
        OWN + "timeout = 5m\nduration = settled, at most 10m\n", {}, 4, "timeout", "is less than a run takes, 600 s"),
    "timeout below duration": (OWN + "timeout = 5s\n", {}, 4, "timeout", "5 s is less than a run takes, 10 s"),
    "timeout below a command": (COMMAND + "timeout = 59s\n", {}, 5, "timeout", "59 s is less than a run takes, 60 s"),
    "interval of a command": (COMMAND + "interval = 100us\n", {}, 5, "interval", "from 1ms to 60s"),
    "own iperf3's streams": (OWN + "cca = bbr,cubic\n", {}, 4, "cca", "2 groups, and with streams = 1"),
    "user": (OWN + "user = -l\n", {}, 4, "user", "is no login"),
    "alias": (OWN + "alias = a/b\n", {}, 4, "alias", "is no alias"),
    "alias that no folder has": (OWN + f"alias = {'ü' * 41}\n", {}, 4, "alias", "write up to 80 letters"),
    "condition that no folder has": (OWN + f"sweep.pre-src-cmd = {'ü' * 40}\n", {}, 1, None, "is too long"),
    "namespace": (OWN + "src = netns:../x\n", {}, 4, "src", "names no network namespace"),
    "dst as address of another src": (OWN.replace("10.1.2.3", "127.0.0.1") + "src = a\n", {}, 3, "dst", "itself"),
    "no address": (OWN.replace("10.1.2.3", "10.1.2.300"), {}, 3, "dst", "is no IP address"),
    "half an address": (OWN.replace("10.1.2.3", "10.1"), {}, 3, "dst", "is no IP address"),
    "control character": (OWN + "pre = a\x07b\n", {}, 4, "pre", "'a\ufffdb' has the control character 0x07"),
    "one command, swept": (
        OWN + "sweep.dst-cmd = a,b\ndst-cmd-once = on\n", {}, 5, "dst-cmd-once", "sweep.dst-cmd has several"),
    "profile without file": (OWN + "profile = WAN\n", {}, 4, "profile", "[one] has no profile-file"),
    "unknown profile": (
        OWN + "profile = WAM\nprofile-file = p.yml\n", {"p_yml": PROFILES}, 4, "profile", "did you mean 'WAN'?"),
    "profile file that is not there": (
        OWN + "profile = WAN\nprofile-file = q.yml\n", {}, None, None, "q.yml: can't be read: No such file"),
    "wrong profile file of two entries": (
        OWN + "profile = W\nprofile-file = p.yml\n" + OWN.replace("one", "two") + "profile = W\nprofile-file = p.yml\n",
        {"p_yml": "profiles: x\n"}, 1, None, "p.yml:1: profiles is no mapping"),
    "profiles of nobody": (
        OWN + "profile = W\nprofile-file = p.yml\n", {"p_yml": "profiles: {}\n"}, 4, "profile", "'W' is no profile of"),
    "profile and pacing": (
        OWN + "profile = WAN\nprofile-file = p.yml\npacing = 1gbit\n", {"p_yml": PROFILES, "nic": "eth7"}, 6, "pacing",
        "act on one device, eth7: leave one out"),
    "profile and pacing somewhere": (
        OWN + "profile = WAN\nprofile-file = p.yml\npacing = 1gbit\n", {"p_yml": PROFILES}, 6, "pacing",
        "give -i NIC, the sending device, which may not be eth7"),
    "netem and pacing": (
        OWN + "netem-lat = 1\nnetem-at = localhost:eth1,eth2\npacing = 1gbit\n", {"nic": "eth1"}, 5, "netem-at",
        "eth1 of localhost has pacing or a profile already"),
    "hosts that are not there": (OWN, {"hosts": ""}, None, None, "has no host: write a header"),
    "host with an unknown profile": (
        OWN + "profile-file = p.yml\n", {"p_yml": PROFILES, "hosts": "hostname,profile\na,\nb,WAM\n"}, 3, "profile",
        "'WAM' is no profile of p.yml; did you mean 'WAN'?"),
    "host with a profile and no file": (
        OWN, {"hosts": "hostname,profile\na,WAN\n"}, 2, "profile", "and [one] has no profile-file"),
    "too many hosts": (
        OWN + "iterations = 10000\n", {"hosts": "hostname\n" + "".join(f"h{n}\n" for n in range(11))}, 1, None,
        "make 110000 runs"),
}  # fmt: skip
for meta in META:
    for key in ("dst", "src", "dst-host"):
        base = OWN.replace("10.1.2.3", meta) if key == "dst" else OWN + f"{key} = {meta}\n"
        MISTAKES[f"{key} = {meta}"] = (base, {}, 3 if key == "dst" else 4, key, " is no ")


@pytest.mark.parametrize(("text", "more", "line", "key", "sentence"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_told_once_with_its_place(
    told: Told, text: str, more: dict[str, str], line: int | None, key: str | None, sentence: str
) -> None:
    [problem] = told(text, **more)
    assert (problem.line, problem.key) == (line, key)
    assert sentence in str(problem)


def test_mistakes_of_all_files_are_told_at_once(told: Told) -> None:
    text = OWN + "port = x\nprofile = WAN\nprofile-file = p.yml\n" + OWN.replace("one", "two") + "mpstat = y\n"
    problems = told(text, p_yml="profiles:\n  WAN:\n    interfaces: x\n", hosts="hostname\na b\n")
    assert [(problem.file.name, problem.line) for problem in problems] == [
        ("test.ini", 4), ("test.ini", 10), ("hosts.csv", 2), ("p.yml", 3),
    ]  # fmt: skip
