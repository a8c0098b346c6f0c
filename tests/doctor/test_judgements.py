"""Tests each judgement, with the output of real tools on good and bad hosts."""

import json
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from ccmix.doctor import device, kernel, paths, resources, rights
from ccmix.doctor.needs import Load
from ccmix.doctor.report import DoctorFinding, Findings, Report, Status, render, to_run
from ccmix.doctor.resources import judge_outdir
from support import tool_outputs as outputs
from support.commands import small_disk

FOLDER = "/proc/sys/net/ipv4"
VIRTIO = device.device_of(outputs.VIRTIO_LINK, "-1", outputs.VIRTIO_DRIVER, "", "0")
DTN = device.device_of(outputs.DTN_LINK, "100000", outputs.DTN_DRIVER, "1", "0-1")


HAS = kernel.ccas_of(
    {
        f"{FOLDER}/tcp_available_congestion_control": "reno bbr cubic",
        f"{FOLDER}/tcp_allowed_congestion_control": "reno cubic",
        f"{FOLDER}/tcp_congestion_control": "cubic",
    }
)
LOADABLE = replace(HAS, loadable=frozenset({"htcp"}))
TWO = ["cubic", "bbr"]
IN_DOCKER = rights.Login(
    0,
    "root",
    False,
    rights.capabilities(outputs.STATUS_DOCKER, "Eff"),
    rights.read_only(outputs.MOUNTS_DOCKER),
)
ROOT_MAY = rights.capabilities(outputs.STATUS_ROOT, "Eff")
ROOT = rights.Login(0, "root", False, ROOT_MAY, rights.read_only(outputs.MOUNTS))
USER = rights.Login(1000, "dtn", False, frozenset(), ())
BY_SUDO = replace(USER, sudo=True, may=ROOT_MAY)
NETEM = {"netem": "NET_ADMIN"}
DOWN = device.device_of(
    outputs.DTN_LINK.replace('"LOWER_UP"', '"NO-CARRIER"'), "", outputs.DTN_DRIVER, "-1", "0"
)
LOOPBACK = device.Device("lo", True, 65536, None, "driver not known", None)
GOOD = outputs.OFFLOADS_VIRTIO
NO_SEGMENTATION = GOOD.replace("segmentation-offload: on", "segmentation-offload: off")
FIXED = NO_SEGMENTATION.replace(
    "tcp-segmentation-offload: off", "tcp-segmentation-offload: off [fixed]"
)
LRO = GOOD.replace("large-receive-offload: off [fixed]", "large-receive-offload: on")
NO_GRO = GOOD.replace("generic-receive-offload: on", "generic-receive-offload: off")
DROPPED = outputs.FQ.replace('"throttled":0,"gc"', '"throttled":0,"flows_plimit":17,"gc"')
LARGER = DROPPED.replace('"flow_limit":100,', '"flow_limit":10000,')
SEVERAL = outputs.MQ_OF_FQ.replace('"throttled":0}', '"throttled":0,"flows_plimit":5}')
SIZES = {
    "ipv4/tcp_rmem": "4096\t131072\t6291456",
    "ipv4/tcp_wmem": "4096\t16384\t4194304",
    "ipv4/tcp_mem": "287898\t383867\t575796",
    "core/rmem_max": "212992",
    "core/wmem_max": "212992",
}
PACED = paths.demand([Load(8, 2.4e9, None, 0.0)], 0.088, 100e9)  # 26.4 MB on the way
GUESS = paths.demand([Load(1, None, None, 0.0)], 0.088, 100e9)  # the path may be slower
GOVERNORS = {f"cpu{cpu}/scaling_governor": "powersave" for cpu in range(4)}


def of_buffers(
    sends: paths.Demand | None, receives: paths.Demand | None, window: int, **sizes: str
) -> Findings:
    texts = SIZES | {f"ipv4/tcp_{name}": text for name, text in sizes.items()}
    return paths.judge_buffers(paths.buffers_of(texts, "4096\n"), sends, receives, window)


def of_link(mtu: int, speed: float | None, driver: str) -> device.Device:
    return device.Device("eno1", True, mtu, speed, driver, None)


def of_programs(printed: str, names: list[str], red_hat: bool, needed: bool = True) -> Findings:
    installed = resources.programs_of(printed, names)
    return resources.judge_programs(installed, {"zstd": "tcpdump"}, red_hat, needed)


def of_clock(state: int, status: int, error_us: int) -> Findings:
    timex = {"state": state, "status": status, "maxerror_us": error_us}
    return resources.judge_clock(json.dumps(timex))


def of_queue(qdiscs: str, default: str, paced: bool, bbr: bool = False) -> Findings:
    return device.judge_sending("eth0", qdiscs, default, paced, bbr)


def of_ccas(privileged: bool, *ccas: str) -> Findings:
    return kernel.judge_ccas(HAS, ccas, privileged, "/opt/iperf 3")


def of_room(free: int, certain: int, at_most: int) -> Findings:
    return resources.judge_room("results", "/", free, certain, at_most)


FULL, FOUR = "4096 16384 67108864", ["tc", "iperf3", "zstd", "getent"]
CASES: dict[str, Iterable[DoctorFinding]] = {
    "CCAs of nobody": of_ccas(False),
    "CCAs of root": of_ccas(True, *TWO),
    "CCAs of a user": of_ccas(False, *TWO),
    "a module of root": kernel.judge_ccas(LOADABLE, ["htcp"], True, None),
    "a module of a user": kernel.judge_ccas(LOADABLE, ["htcp"], False, None),
    "no module": kernel.judge_ccas(HAS, ["htcp"], True, None),
    "no fq, needed": kernel.judge_kernel({"fq": False}, {"fq"}, True),
    "no fq": kernel.judge_kernel({"fq": False}, (), False),
    "perhaps fq": kernel.judge_kernel({"fq": None}, {"fq"}, False),
    "root in a container": rights.judge_privileges(IN_DOCKER, NETEM, False),
    "root in a container, for namespaces": rights.judge_privileges(IN_DOCKER, {}, True),
    "what a container mounts": rights.judge_writable(IN_DOCKER, parameters=True, sysctls=False),
    "root": rights.judge_privileges(ROOT, NETEM, True),
    "what root may write": rights.judge_writable(ROOT, parameters=True, sysctls=True),
    "a user": rights.judge_privileges(USER, {"pacing by fq": "NET_ADMIN"}, False),
    "a user who needs nothing": rights.judge_privileges(USER, {}, False),
    "sudo": rights.judge_privileges(BY_SUDO, NETEM, False),
    "a link of unknown speed": device.judge_link(VIRTIO, 1e12),
    "a fast link": device.judge_link(DTN, 99e9),
    "more than a link carries": device.judge_link(DTN, 101e9),
    "a link that is down": device.judge_link(DOWN, None),
    "an MTU below Ethernet's": device.judge_mtu(VIRTIO),
    "jumbo frames": device.judge_mtu(DTN),
    "no jumbo frames": device.judge_mtu(of_link(1500, 100e9, "mlx5_core")),
    "1 Gbit/s needs none": device.judge_mtu(of_link(1500, 1e9, "igb")),
    "an MTU below IPv6's": device.judge_mtu(of_link(1000, None, "")),
    "small rings": device.judge_rings(DTN, outputs.RINGS_SMALL),
    "full rings": device.judge_rings(VIRTIO, outputs.RINGS_VIRTIO),
    "small rings of a slow device": device.judge_rings(VIRTIO, outputs.RINGS_SMALL),
    "offloads": device.judge_offloads(DTN, GOOD, None),
    "no segmentation": device.judge_offloads(DTN, NO_SEGMENTATION, None),
    "a fixed offload": device.judge_offloads(DTN, FIXED, None),
    "no segmentation of a slow device": device.judge_offloads(VIRTIO, NO_SEGMENTATION, None),
    "netem with loss": device.judge_offloads(DTN, GOOD, True),
    "netem without loss": device.judge_offloads(DTN, LRO, False),
    "netem without GRO": device.judge_offloads(DTN, NO_GRO, True),
    "fq": of_queue(outputs.FQ, "fq", True, True),
    "mq of fq": of_queue(outputs.MQ_OF_FQ, "fq", True, True),
    "pfifo_fast": of_queue(outputs.PFIFO_FAST, "pfifo_fast", False),
    "pfifo_fast and BBR": of_queue(outputs.PFIFO_FAST, "pfifo_fast", False, True),
    "pfifo_fast and pacing": of_queue(outputs.PFIFO_FAST, "", True),
    "noqueue": of_queue(outputs.NOQUEUE, "", True),
    "htb": of_queue(outputs.HTB, "", True),
    "mq of the user": of_queue(outputs.MQ_OF_THE_USER, "", True),
    "drops of fq": of_queue(DROPPED, "fq", True, True),
    "drops of fq before its limit": of_queue(LARGER, "fq", True, True),
    "drops of two fq": of_queue(SEVERAL, "fq", True, True),
    "netem for pfifo_fast": device.judge_netem("eth2", outputs.PFIFO_FAST),
    "netem for fq": device.judge_netem("eth2", outputs.FQ),
    "netem that was left": device.judge_netem("eth2", outputs.HTB.replace("htb", "netem")),
    "small buffers": of_buffers(PACED, PACED, 0),
    "buffers of one BDP": of_buffers(PACED, None, 0, wmem="4096 16384 30000000"),
    "buffers of two BDP": of_buffers(PACED, None, 0, wmem=FULL),
    "buffers for a guess": of_buffers(GUESS, None, 0),
    "memory with pressure": of_buffers(PACED, None, 0, wmem=FULL, mem="20000 50000 110000"),
    "too little memory": of_buffers(PACED, None, 0, wmem=FULL, mem="20000 50000 100000"),
    "buffers that a command sets": of_buffers(None, None, 2**27),
    "an answer": [paths.judge_family("10.9.0.2", outputs.PING, None)],
    "no answer to pings": [paths.judge_family("10.9.0.9", outputs.PING_SILENT, None)],
    "no answer": [paths.judge_family("10.9.0.9", outputs.PING_SILENT, "answers neither to ...")],
    "the MTU of loopback": paths.judge_path_mtu(LOOPBACK, "::1", 65535, True),
    "jumbo frames all the way": paths.judge_path_mtu(DTN, "10.9.0.2", 9000, True),
    "a path MTU that is reported": paths.judge_path_mtu(DTN, "10.9.0.2", 1500, True),
    "a path MTU that is not": paths.judge_path_mtu(DTN, "10.9.0.2", 1450, False),
    "no path MTU": paths.judge_path_mtu(DTN, "10.9.0.2", None, False),
    "powersave": resources.judge_governors(GOVERNORS),
    "performance": resources.judge_governors(dict.fromkeys(GOVERNORS, "performance")),
    "no governors": resources.judge_governors({}),
    "a core": resources.judge_cores(1),
    "cores": resources.judge_cores(64),
    "cores near a device": resources.judge_near(DTN, "16-31,48-63"),
    "irqbalance": resources.judge_irqbalance(True, DTN),
    "no irqbalance": resources.judge_irqbalance(False, DTN),
    "a clock": of_clock(0, 8193, 2500),
    "a clock that nothing keeps": of_clock(5, 64, 16000000),
    "a clock that is wrong": of_clock(0, 8193, 250000),
    "programs": of_programs(outputs.PROGRAMS, FOUR, False),
    "programs of Red Hat": of_programs(outputs.PROGRAMS, FOUR, True, needed=False),
    "iperf3 with threads": of_programs(
        "iperf3\t/usr/bin/iperf3\tiperf 3.20 (cJSON 1.7.15)\n", ["iperf3"], False
    ),
    **{
        f"Python {version}": of_programs(
            f"python3\t/usr/bin/python3\tPython {version}\n", ["python3"], False
        )
        for version in ("3.8.17", "3.9.2", "3.13.1")
    },
    "room": of_room(75 * 10**9, 10**9, 10**10),
    "room for some": of_room(5 * 10**9, 10**9, 10**10),
    "no room": of_room(10**8, 10**9, 0),
    "no room for captures": resources.judge_temporary("/tmp", 10**9, 10**9),
    "another campaign": rights.judge_lock(outputs.UNIX, needed=True),
    "no other campaign": rights.judge_lock(
        outputs.UNIX.replace("@ccmix-host", "@ccmix-hosts"), needed=True
    ),
}
# As `ccmix doctor` prints it of hosts that have the names of the cases
PRINTED = Path(__file__).with_name("judgements.txt").read_text().strip().split("\n\n")
JUDGED = {block.partition("\n")[0]: block for block in PRINTED}


@pytest.mark.parametrize("case", CASES)
def test_a_judgement(case: str) -> None:
    findings = list(CASES[case])
    assert render([Report(case, 0, findings)]).strip() == JUDGED.get(case, "")
    assert all(finding.why.endswith(".") for finding in findings if finding.status is not Status.OK)


def test_every_judgement_is_a_case() -> None:
    assert JUDGED.keys() <= CASES.keys()


NO_POLICER = dict.fromkeys(kernel.OF_A_POLICER, False)


@pytest.mark.parametrize(
    ("output", "has"),
    [
        # tbf: a module that modprobe doesn't find
        (outputs.CONFIG_WITH_FQ, {"fq": True, "netem": True, "tbf": None} | NO_POLICER),
        (outputs.CONFIG_WITHOUT_FQ, {"fq": False, "netem": False, "tbf": True} | NO_POLICER),
        ("fq_enqueue\n", dict.fromkeys(kernel.PARTS) | {"fq": True}),  # no configuration to be read
        ("", dict.fromkeys(kernel.PARTS)),
        (
            "# CONFIG_NET_SCH_FQ is not "
            "set\nCONFIG_NET_ACT_POLICE=y\nCONFIG_NET_CLS_MATCHALL=m\nmodule sch_ingress\n",
            dict.fromkeys(kernel.PARTS, False) | {"police": True, "matchall": None, "clsact": True},
        ),
    ],
)
def test_what_the_kernel_has(output: str, has: dict[str, bool | None]) -> None:
    assert kernel.parts_of(output) == has


def test_which_device() -> None:
    assert device.route_device(outputs.ROUTE) == "eth0"
    assert device.device_with(outputs.ADDRESSES, ["192.0.2.99", "fd00::2"]) == "eth0"
    routes = '[{"dst":"default","dev":"b","metric":600},{"dst":"default","dev":"a","metric":100},{"dst":"x","dev":"c"}]'
    assert device.default_device(routes) == "a"
    assert device.default_device("[]") is None
    with pytest.raises(ValueError, match="is not the name of a network device"):
        device.route_device(outputs.ROUTE.replace("eth0", "eth0; reboot"))


def test_bdp() -> None:
    assert PACED is not None
    assert (PACED.flow_bytes, PACED.all_bytes, PACED.certain) == (
        pytest.approx(26.4e6),
        pytest.approx(211.2e6),
        True,
    )
    nic = paths.demand([Load(8, None, None, 0.0)], 0.088, 100e9)
    assert nic is not None
    assert (nic.flow_bytes, nic.certain) == (pytest.approx(137.5e6), False)
    netem = paths.demand([Load(8, None, 1e9, 0.08)], 0.008, 100e9)
    assert netem is not None
    assert (netem.flow_bytes, netem.certain) == (pytest.approx(1e9 * 0.088 / 8 / 8), True)
    assert paths.demand([Load(8, None, None, 0.0)], None, 100e9) is None
    assert paths.demand([Load(8, None, None, 0.1)], 0.1, None) is None
    worst = paths.demand([Load(16, None, 1e9, 0.1), Load(1, None, 1e9, 0.1)], 0.0, None)
    assert worst is not None
    assert worst.flow_bytes == pytest.approx(12.5e6)  # the one stream needs most


def test_the_search_finds_the_largest_size_that_passes() -> None:
    for passing in range(500, 9100, 25):
        expected = max((size for size in paths.SIZES if size <= passing), default=None)
        assert paths.largest(paths.SIZES, lambda size, most=passing: size <= most) == expected  # type: ignore[misc]


def path(
    passing: int, reply: str = outputs.PING_SILENT
) -> tuple[Callable[[int], tuple[bool, str]], list[int]]:
    sent: list[int] = []

    def send(size: int) -> tuple[bool, str]:
        sent.append(size)
        return size <= passing, outputs.PING if size <= passing else reply

    return send, sent


@pytest.mark.parametrize(
    ("passing", "reply", "expected"),
    [
        (9000, "", (9000, True)),
        (1500, outputs.PING_FRAG_NEEDED, (1500, True)),
        (1500, outputs.PING_TOO_LONG, (1500, True)),
        (1500, outputs.PING_SILENT, (1500, False)),
        (1450, outputs.PING_SILENT, (1450, False)),
        (1400, outputs.PING_FRAG_NEEDED, (1400, False)),  # it is told, and wrong
        (100, outputs.PING_SILENT, (None, False)),
    ],
)
def test_path_mtu(passing: int, reply: str, expected: tuple[int | None, bool]) -> None:
    send, sent = path(passing, reply)
    assert paths.path_mtu(send, 9000) == expected
    assert len(sent) <= 6, "each takes a second when it is lost"


def test_the_mtu_of_loopback_is_more_than_a_packet_may_have() -> None:
    send, sent = path(65535)
    assert paths.path_mtu(send, 65536) == (65535, True)
    assert sent == [65535]


def test_what_is_read_of_tools() -> None:
    assert paths.addresses_of(outputs.AHOSTS) == ["2001:400:501:1150::3", "192.0.2.7"]
    assert paths.base_rtt_s(outputs.PING) == pytest.approx(0.088123)
    assert paths.base_rtt_s(outputs.PING_SILENT) is None
    assert resources.free_bytes(outputs.DF) == 75697076 * 1024
    assert device.Device("eth0", True, 1400, None, "virtio_net", None) == VIRTIO
    assert device.Device("ens1f0", True, 9000, 100e9, "mlx5_core", 1) == DTN
    veth = outputs.VIRTIO_LINK.replace('"ifname":"eth0"', '"ifname":"va@if2"')
    assert device.device_of(veth, "10000", "", "", "").name == "va"
    assert not IN_DOCKER.is_privileged


def test_commands_are_for_who_runs_them_and_where() -> None:
    assert to_run(["sysctl -w a=1"], "localhost", 0, root=True) == ["sysctl -w a=1"]
    assert to_run(["sysctl -w a=1"], "dtn@example.org", 1000, root=True) == ["sudo sysctl -w a=1"]
    in_x = "sudo ip netns exec x "
    for command, expected in {
        "tc qdisc del dev a root": in_x,
        "sysctl -w 'net.ipv4.tcp_rmem=1 2 3'": in_x,
        "sysctl -w net.core.rmem_max=1": "sudo ",
        "sysctl -w 'net.ipv4.tcp_mem=1 2 3'": "sudo ",
        "sysctl -w 'net.ipv4.tcp_allowed_congestion_control=bbr'": "sudo ",
        "modprobe tcp_bbr": "sudo ",
    }.items():
        assert to_run([command], "netns:x", 1000, root=True) == [expected + command]
    assert to_run(["make setup"], "localhost", 1000, root=False) == ["make setup"]


@pytest.mark.root
def test_results_on_a_disk_that_is_mounted_read_only(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "64k") as place:
        subprocess.run(["mount", "-o", "remount,ro", place], check=True)
        [finding] = judge_outdir(place / "out", 1, 0)
    assert (finding.status, finding.seen, finding.remedy) == (
        Status.FAIL,
        f"{place} is mounted read-only",
        (),
    )
