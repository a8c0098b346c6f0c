"""Tests each judgement, with the output of real tools on good hosts and bad ones."""

import shlex
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

import tool_outputs as outputs
from ccmix.doctor import (
    buffers,
    ccas,
    clock,
    device,
    disk,
    kernel,
    login,
    others,
    processors,
    programs,
    queues,
    way,
)
from ccmix.doctor.disk import judge_outdir
from ccmix.doctor.findings import DoctorFinding, Status, to_run
from ccmix.doctor.needs import Load
from support import small_disk

OK, WARN, FAIL, UNKNOWN = Status.OK, Status.WARN, Status.FAIL, Status.UNKNOWN
FOLDER = "/proc/sys/net/ipv4"
VIRTIO = device.device_of(outputs.VIRTIO_LINK, "-1", outputs.VIRTIO_DRIVER, "", "0")
DTN = device.device_of(outputs.DTN_LINK, "100000", outputs.DTN_DRIVER, "1", "0-1")


def only_finding(findings: Iterable[DoctorFinding], status: Status, seen: str, *mend: str) -> DoctorFinding:
    """Returns the only finding that is not ok, or the only one; checks its status, a part of what was seen, and
    what mends it.
    """
    listed = list(findings)
    chosen = [finding for finding in listed if finding.status is not OK] or listed
    assert [(finding.status, finding.mend) for finding in chosen] == [(status, mend)]
    assert seen in chosen[0].seen
    assert status is OK or (chosen[0].why.endswith(".") and len(chosen[0].why.split()) > 4), "why it matters"
    return chosen[0]


# CCAs

HAS = ccas.ccas_of(
    {
        f"{FOLDER}/tcp_available_congestion_control": "reno bbr cubic",
        f"{FOLDER}/tcp_allowed_congestion_control": "reno cubic",
        f"{FOLDER}/tcp_congestion_control": "cubic",
    }
)
ALLOW = "sysctl -w 'net.ipv4.tcp_allowed_congestion_control=reno cubic bbr'"


def test_ccas_for_whom() -> None:
    [finding] = ccas.judge_ccas(HAS, (), privileged=False, iperf3=None)
    assert finding.seen == "for every user reno cubic, for root alone bbr; default cubic"
    assert {f.status for f in ccas.judge_ccas(HAS, ["cubic", "bbr"], privileged=True, iperf3=None)} == {OK}
    refused = only_finding(
        ccas.judge_ccas(HAS, ["cubic", "bbr"], False, "/opt/iperf 3"), FAIL, "bbr is for root alone", ALLOW
    )
    assert refused.instead == ("setcap cap_net_admin+ep '/opt/iperf 3'",)
    assert "EPERM" in refused.why


@pytest.mark.parametrize(
    ("loadable", "privileged", "status"), [(True, True, WARN), (True, False, FAIL), (False, True, FAIL)]
)
def test_a_cca_that_is_not_there(loadable: bool, privileged: bool, status: Status) -> None:
    has = ccas.Ccas(HAS.available, HAS.allowed, "cubic", frozenset({"htcp"} if loadable else ()))
    only_finding(ccas.judge_ccas(has, ["htcp"], privileged, None), status, "htcp", "modprobe tcp_htcp")


# Kernel


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
            "# CONFIG_NET_SCH_FQ is not set\nCONFIG_NET_ACT_POLICE=y\nCONFIG_NET_CLS_MATCHALL=m\nmodule sch_ingress\n",
            dict.fromkeys(kernel.PARTS, False) | {"police": True, "matchall": None, "clsact": True},
        ),
    ],
)
def test_what_the_kernel_has(output: str, has: dict[str, bool | None]) -> None:
    assert kernel.parts_of(output) == has


def test_a_kernel_without_what_entries_need() -> None:
    lacks: dict[str, bool | None] = {"fq": False}
    assert only_finding(kernel.judge_kernel(lacks, {"fq"}, True), FAIL, "built without").instead == (
        "ccmix run --lab ...",
    )
    assert only_finding(kernel.judge_kernel(lacks, (), False), WARN, "built without").instead == ()
    assert (
        "dnf install kernel-modules-extra"
        in only_finding(kernel.judge_kernel({"fq": None}, {"fq"}, False), UNKNOWN, "").instead
    )


# Who ccmix is


def test_root_in_a_container() -> None:
    may = login.capabilities(outputs.STATUS_DOCKER, "Eff")
    who = login.Login(0, "root", False, may, login.read_only(outputs.MOUNTS_DOCKER))
    assert may == {"CAP_NET_RAW"}
    assert not who.is_privileged
    findings = {finding.check: finding for finding in login.judge_privileges(who, {"netem": "CAP_NET_ADMIN"}, False)}
    assert {check: finding.status for check, finding in findings.items()} == {
        "CAP_NET_ADMIN": FAIL,
        "CAP_SYS_ADMIN": WARN,
    }
    assert findings["CAP_NET_ADMIN"].instead == ("docker run --cap-add NET_ADMIN ...",)
    assert "netem: " in findings["CAP_NET_ADMIN"].why
    assert {f.check: f.status for f in login.judge_privileges(who, {}, True)} == {
        "CAP_NET_ADMIN": FAIL,
        "CAP_SYS_ADMIN": FAIL,
    }
    written = {finding.check: finding for finding in login.judge_writable(who, parameters=True, sysctls=False)}
    assert {check: finding.status for check, finding in written.items()} == {"/proc/sys": WARN, "/sys/module": FAIL}
    assert "-v /sys/module:/sys/module" in written["/sys/module"].instead[0]


def test_root_and_a_user() -> None:
    may = login.capabilities(outputs.STATUS_ROOT, "Eff")
    assert login.read_only(outputs.MOUNTS) == ()
    only_finding(
        login.judge_privileges(login.Login(0, "root", False, may, ()), {"netem": "CAP_NET_ADMIN"}, True), OK, "root"
    )
    user = login.Login(1000, "dtn", False, frozenset(), ())
    rule = "'dtn ALL=(root) NOPASSWD: ALL'"
    refused = list(login.judge_privileges(user, {"pacing by fq": "CAP_NET_ADMIN"}, False))
    assert [finding.status for finding in refused] == [FAIL]
    assert "pacing by fq: " in refused[0].why
    assert f"echo {rule} > /etc/sudoers.d/ccmix" in shlex.split(refused[0].mend[0])[2]
    only_finding(login.judge_privileges(user, {}, False), OK, "dtn, without sudo")
    only_finding(
        login.judge_privileges(login.Login(1000, "dtn", True, may, ()), {"a profile": "CAP_NET_ADMIN"}, False),
        OK,
        "with sudo",
    )


# Devices


def test_devices() -> None:
    assert device.Device("eth0", True, 1400, None, "virtio_net", None) == VIRTIO
    assert device.Device("ens1f0", True, 9000, 100e9, "mlx5_core", 1) == DTN
    only_finding(device.judge_link(VIRTIO, 1e12), OK, "virtio_net, speed not known")
    only_finding(device.judge_link(DTN, 99e9), OK, "mlx5_core, 100 Gbit/s, NUMA node 1")
    assert "pace their flows to 101 Gbit/s" in only_finding(device.judge_link(DTN, 101e9), WARN, "100 Gbit/s").why
    down = device.device_of(outputs.DTN_LINK.replace('"LOWER_UP"', '"NO-CARRIER"'), "", outputs.DTN_DRIVER, "-1", "0")
    only_finding(device.judge_link(down, None), FAIL, "down", "ip link set dev ens1f0 up")
    veth = outputs.VIRTIO_LINK.replace('"ifname":"eth0"', '"ifname":"va@if2"')
    assert device.device_of(veth, "10000", "", "", "").name == "va"


def test_mtu() -> None:
    only_finding(device.judge_mtu(VIRTIO), WARN, "1400 bytes", "ip link set dev eth0 mtu 1500")
    only_finding(device.judge_mtu(DTN), OK, "9000 bytes")
    small = device.Device("ens1f0", True, 1500, 100e9, "mlx5_core", None)
    only_finding(device.judge_mtu(small), WARN, "1500 bytes", "ip link set dev ens1f0 mtu 9000")
    only_finding(device.judge_mtu(device.Device("eno1", True, 1500, 1e9, "igb", None)), OK, "1500 bytes")
    assert (
        "IPv6"
        in only_finding(
            device.judge_mtu(device.Device("t", True, 1000, None, "", None)), WARN, "", "ip link set dev t mtu 1500"
        ).why
    )


def test_rings() -> None:
    only_finding(
        device.judge_rings(DTN, outputs.RINGS_SMALL),
        WARN,
        "RX 1024 of 8192, TX 8192 of 8192",
        "ethtool -G ens1f0 rx 8192",
    )
    only_finding(device.judge_rings(VIRTIO, outputs.RINGS_VIRTIO), OK, "RX 256 of 256")
    only_finding(device.judge_rings(VIRTIO, outputs.RINGS_SMALL), OK, "RX 1024 of 8192")  # not fast


def test_offloads() -> None:
    good, off = (
        outputs.OFFLOADS_VIRTIO,
        outputs.OFFLOADS_VIRTIO.replace("segmentation-offload: on", "segmentation-offload: off"),
    )
    only_finding(device.judge_offloads(DTN, good, None), OK, "tso on, gso on, gro on, lro off")
    only_finding(device.judge_offloads(DTN, off, None), WARN, "tso off", "ethtool -K ens1f0 tso on gso on")
    fixed = off.replace("tcp-segmentation-offload: off", "tcp-segmentation-offload: off [fixed]")
    only_finding(device.judge_offloads(DTN, fixed, None), WARN, "tso off", "ethtool -K ens1f0 gso on")
    only_finding(device.judge_offloads(VIRTIO, off, None), OK, "tso off")  # not fast
    only_finding(device.judge_offloads(DTN, good, True), FAIL, "gro on", "ethtool -K ens1f0 gro off")
    lro = good.replace("large-receive-offload: off [fixed]", "large-receive-offload: on")
    only_finding(device.judge_offloads(DTN, lro, False), WARN, "lro on", "ethtool -K ens1f0 gro off lro off")
    only_finding(
        device.judge_offloads(DTN, good.replace("generic-receive-offload: on", "generic-receive-offload: off"), True),
        OK,
        "gro off",
    )


def test_which_device() -> None:
    assert device.route_device(outputs.ROUTE) == "eth0"
    assert device.device_with(outputs.ADDRESSES, ["192.0.2.99", "fd00::2"]) == "eth0"
    routes = '[{"dst":"default","dev":"b","metric":600},{"dst":"default","dev":"a","metric":100},{"dst":"x","dev":"c"}]'
    assert device.default_device(routes) == "a"
    assert device.default_device("[]") is None
    with pytest.raises(ValueError, match="is not the name of a network device"):
        device.route_device(outputs.ROUTE.replace("eth0", "eth0; reboot"))


# Queues


def test_fq() -> None:
    judge = queues.judge_sending
    only_finding(judge("eth0", outputs.FQ, "fq", True, True), OK, "fq limit 10000 flow_limit 100 buckets 1024")
    only_finding(judge("eth0", outputs.MQ_OF_FQ, "fq", True, True), OK, "mq with 2 x fq")
    replace = "tc qdisc replace dev eth0 root fq"
    plain = only_finding(
        judge("eth0", outputs.PFIFO_FAST, "pfifo_fast", False, False),
        WARN,
        "pfifo_fast bands 3 priomap 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1, default_qdisc pfifo_fast",
        replace,
    )
    bbr = only_finding(judge("eth0", outputs.PFIFO_FAST, "pfifo_fast", False, True), WARN, "pfifo_fast", replace)
    assert ("BBR" in bbr.why, "BBR" in plain.why) == (True, False)
    only_finding(judge("eth0", outputs.PFIFO_FAST, "", True, False), OK, "replaced by fq for the time of each run")
    only_finding(judge("eth0", outputs.NOQUEUE, "", True, False), OK, "noqueue; replaced")
    only_finding(judge("eth0", outputs.HTB, "", True, False), FAIL, "htb", replace)
    mq = ("sysctl -w net.core.default_qdisc=fq", "tc qdisc replace dev eth0 root mq")
    only_finding(judge("eth0", outputs.MQ_OF_THE_USER, "", True, False), FAIL, "mq with 2 x pfifo_fast", *mq)


def test_drops_of_fq() -> None:
    dropped = outputs.FQ.replace('"throttled":0,"gc"', '"throttled":0,"flows_plimit":17,"gc"')
    mend = "tc qdisc change dev eth0 root fq flow_limit 10000"
    only_finding(queues.judge_sending("eth0", dropped, "fq", True, True), WARN, "17 packets", mend)
    mended = dropped.replace('"flow_limit":100,', '"flow_limit":10000,')
    assert {finding.status for finding in queues.judge_sending("eth0", mended, "fq", True, True)} == {OK}
    several = outputs.MQ_OF_FQ.replace('"throttled":0}', '"throttled":0,"flows_plimit":5}')
    only_finding(queues.judge_sending("eth0", several, "fq", True, True), WARN, "10 packets",
        *(mend.replace("root", f"parent 1:{queue}") for queue in (1, 2)))  # fmt: skip


def test_where_netem_may_stand() -> None:
    only_finding(queues.judge_netem("eth2", outputs.PFIFO_FAST), OK, "replaced by netem")
    only_finding(queues.judge_netem("eth2", outputs.FQ), OK, "fq; replaced")
    left = only_finding(
        queues.judge_netem("eth2", outputs.HTB.replace("htb", "netem")), FAIL, "netem", "tc qdisc del dev eth2 root"
    )
    assert "died" in left.why


# Buffers

SIZES = {
    "ipv4/tcp_rmem": "4096\t131072\t6291456",
    "ipv4/tcp_wmem": "4096\t16384\t4194304",
    "ipv4/tcp_mem": "287898\t383867\t575796",
    "core/rmem_max": "212992",
    "core/wmem_max": "212992",
}
SMALL = buffers.buffers_of(SIZES, "4096\n")
PACED = buffers.demand([Load(8, 2.4e9, None, 0.0)], 0.088, 100e9)  # 26.4 MB on the way


def test_bdp() -> None:
    assert PACED is not None
    assert (PACED.flow_bytes, PACED.all_bytes, PACED.certain) == (pytest.approx(26.4e6), pytest.approx(211.2e6), True)
    nic = buffers.demand([Load(8, None, None, 0.0)], 0.088, 100e9)
    assert nic is not None
    assert (nic.flow_bytes, nic.certain) == (pytest.approx(137.5e6), False)
    netem = buffers.demand([Load(8, None, 1e9, 0.08)], 0.008, 100e9)
    assert netem is not None
    assert (netem.flow_bytes, netem.certain) == (pytest.approx(1e9 * 0.088 / 8 / 8), True)
    assert buffers.demand([Load(8, None, None, 0.0)], None, 100e9) is None
    assert buffers.demand([Load(8, None, None, 0.1)], 0.1, None) is None
    worst = buffers.demand([Load(16, None, 1e9, 0.1), Load(1, None, 1e9, 0.1)], 0.0, None)
    assert worst is not None
    assert worst.flow_bytes == pytest.approx(12.5e6)  # the one stream needs most


def test_buffers_against_the_bdp() -> None:
    findings = {finding.check: finding for finding in buffers.judge_buffers(SMALL, PACED, PACED, 0)}
    assert findings["net.ipv4.tcp_wmem"].status is FAIL
    assert findings["net.ipv4.tcp_wmem"].mend == ("sysctl -w 'net.ipv4.tcp_wmem=4096 16384 67108864'",)
    assert findings["net.ipv4.tcp_rmem"].mend == ("sysctl -w 'net.ipv4.tcp_rmem=4096 131072 67108864'",)
    assert "8 x 2.40 Gbit/s over 88 ms have 26.4 MB each on the way" in findings["net.ipv4.tcp_rmem"].seen
    assert findings["net.ipv4.tcp_mem"].status is OK  # 1.57 GB, and twice 422 MB are needed
    assert "net.core.rmem_max" not in findings  # nobody sets a buffer
    between = buffers.buffers_of(SIZES | {"ipv4/tcp_wmem": "4096 16384 30000000"}, "4096")
    assert next(iter(buffers.judge_buffers(between, PACED, None, 0))).status is WARN  # 1 BDP, not 2
    enough = buffers.buffers_of(SIZES | {"ipv4/tcp_wmem": "4096 16384 67108864"}, "4096")
    assert [f.status for f in buffers.judge_buffers(enough, PACED, None, 0)] == [OK, OK]
    guess = buffers.demand([Load(1, None, None, 0.0)], 0.088, 100e9)
    assert next(iter(buffers.judge_buffers(SMALL, guess, None, 0))).status is WARN  # the path may be slower


def test_memory_of_all_sockets() -> None:
    sizes = SIZES | {"ipv4/tcp_wmem": "4096 16384 67108864"}
    little = buffers.buffers_of(
        sizes | {"ipv4/tcp_mem": "20000 50000 110000"}, "4096"
    )  # 422.4 MB needed, 205 to 451 MB
    only_finding(
        buffers.judge_buffers(little, PACED, None, 0),
        WARN,
        "need 422 MB",
        "sysctl -w 'net.ipv4.tcp_mem=103126 206252 309378'",
    )
    less = buffers.buffers_of(sizes | {"ipv4/tcp_mem": "20000 50000 100000"}, "4096")
    only_finding(
        buffers.judge_buffers(less, PACED, None, 0),
        FAIL,
        "at most 410 MB",
        "sysctl -w 'net.ipv4.tcp_mem=103126 206252 309378'",
    )
    hidden = buffers.buffers_of({"ipv4/tcp_rmem": SIZES["ipv4/tcp_rmem"]}, "4096")  # as in a namespace
    assert list(buffers.judge_buffers(hidden, PACED, None, 0)) == []


def test_buffers_that_a_command_sets() -> None:
    findings = {finding.check: finding for finding in buffers.judge_buffers(SMALL, None, None, 2**27)}
    assert {check: finding.mend for check, finding in findings.items()} == {
        "net.core.wmem_max": ("sysctl -w net.core.wmem_max=134217728",),
        "net.core.rmem_max": ("sysctl -w net.core.rmem_max=134217728",),
    }
    assert {finding.status for finding in findings.values()} == {FAIL}


# The way


def test_pings_and_addresses() -> None:
    assert way.addresses_of(outputs.AHOSTS) == ["2001:400:501:1150::3", "192.0.2.7"]
    assert way.base_rtt_s(outputs.PING) == pytest.approx(0.088123)
    assert way.base_rtt_s(outputs.PING_SILENT) is None
    only_finding([way.judge_family("10.9.0.2", outputs.PING, None)], OK, "answers after 88.123 ms")
    only_finding([way.judge_family("10.9.0.9", outputs.PING_SILENT, None)], WARN, "does not answer pings")
    assert (
        "neither"
        in only_finding(
            [way.judge_family("10.9.0.9", outputs.PING_SILENT, "answers neither to ...")], FAIL, "does not"
        ).why
    )


def test_the_search_finds_the_largest_size_that_passes() -> None:
    for passing in range(500, 9100, 25):
        expected = max((size for size in way.SIZES if size <= passing), default=None)
        assert way.largest(way.SIZES, lambda size, most=passing: size <= most) == expected  # type: ignore[misc]


def test_the_mtu_of_loopback_is_more_than_a_packet_may_have() -> None:
    send, sent = path(65535)
    assert way.path_mtu(send, 65536) == (65535, True)
    assert sent == [65535]
    loopback = device.Device("lo", True, 65536, None, "driver not known", None)
    only_finding(way.judge_path_mtu(loopback, "::1", 65535, True), OK, "MSS 65475")


def path(passing: int, reply: str = outputs.PING_SILENT) -> tuple[Callable[[int], tuple[bool, str]], list[int]]:
    sent: list[int] = []

    def send(size: int) -> tuple[bool, str]:
        sent.append(size)
        return size <= passing, outputs.PING if size <= passing else reply

    return send, sent


@pytest.mark.parametrize(
    ("passing", "reply", "expected", "status"),
    [
        (9000, "", (9000, True), OK),
        (1500, outputs.PING_FRAG_NEEDED, (1500, True), WARN),
        (1500, outputs.PING_TOO_LONG, (1500, True), WARN),
        (1500, outputs.PING_SILENT, (1500, False), FAIL),
        (1450, outputs.PING_SILENT, (1450, False), FAIL),
        (1400, outputs.PING_FRAG_NEEDED, (1400, False), FAIL),  # it is told, and wrong
        (100, outputs.PING_SILENT, (None, False), UNKNOWN),
    ],
)
def test_path_mtu(passing: int, reply: str, expected: tuple[int | None, bool], status: Status) -> None:
    send, sent = path(passing, reply)
    assert way.path_mtu(send, 9000) == expected
    assert len(sent) <= 6, "each takes a second when it is lost"
    mend = (f"ip link set dev ens1f0 mtu {expected[0]}",) if status in (WARN, FAIL) else ()
    finding = only_finding(
        way.judge_path_mtu(DTN, "10.9.0.2", *expected),
        status,
        "" if expected[0] is None else f"{expected[0]} bytes",
        *mend,
    )
    if expected[0]:
        assert f"MSS {expected[0] - 40}" in finding.seen
    if status is FAIL:
        assert finding.instead == ("sysctl -w net.ipv4.tcp_mtu_probing=1",)


# Processors, clock, programs, disk, this machine


def test_processors() -> None:
    files = {f"/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor": "powersave" for cpu in range(4)}
    only_finding(processors.judge_governors(files), WARN, "4 x powersave", "cpupower frequency-set -g performance")
    only_finding(processors.judge_governors(dict.fromkeys(files, "performance")), OK, "4 x performance")
    assert list(processors.judge_governors({})) == []  # a hypervisor decides
    only_finding(processors.judge_cores(1), WARN, "1")
    only_finding(processors.judge_cores(64), OK, "64")
    only_finding(processors.judge_near(DTN, "16-31,48-63"), OK, "16-31,48-63 (NUMA node 1)")
    only_finding(processors.judge_irqbalance(True, DTN), WARN, "runs", "systemctl stop irqbalance")
    only_finding(processors.judge_irqbalance(False, DTN), OK, "does not run")


def test_clock() -> None:
    only_finding(clock.judge_clock('{"state": 0, "status": 8193, "maxerror_us": 2500}'), OK, "2.5 ms at most")
    only_finding(
        clock.judge_clock('{"state": 5, "status": 64, "maxerror_us": 16000000}'),
        WARN,
        "nothing",
        "apt-get install -y chrony",
    )
    only_finding(clock.judge_clock('{"state": 0, "status": 8193, "maxerror_us": 250000}'), WARN, "up to 0.25 s")


def test_programs() -> None:
    names = ["tc", "iperf3", "zstd", "getent"]
    installed = programs.programs_of(outputs.PROGRAMS, names)
    findings = {
        finding.check: finding for finding in programs.judge_programs(installed, {"zstd": "tcpdump"}, red_hat=False)
    }
    assert findings["programs"].seen == "tc 6.1.0, iperf3 3.12, getent"
    assert (findings["iperf3"].status, findings["iperf3"].seen) == (WARN, "3.12")
    assert (findings["zstd"].status, findings["zstd"].mend) == (FAIL, ("apt-get install -y zstd",))
    assert findings["zstd"].why == "tcpdump needs it."
    red_hat = {finding.check: finding for finding in programs.judge_programs(installed, {}, red_hat=True, needed=False)}
    assert (red_hat["zstd"].status, red_hat["zstd"].mend) == (WARN, ("dnf install -y zstd",))
    newer = programs.programs_of("iperf3\t/usr/bin/iperf3\tiperf 3.20 (cJSON 1.7.15)\n", ["iperf3"])
    assert {finding.status for finding in programs.judge_programs(newer, {}, red_hat=False)} == {OK}


def test_disk() -> None:
    assert disk.free_bytes(outputs.DF) == 75697076 * 1024
    only_finding(
        disk.judge_room("results", "/", 75 * 10**9, 10**9, 10**10), OK, "75 GB free in /, 1 GB to 11 GB planned"
    )
    only_finding(disk.judge_room("results", "/", 5 * 10**9, 10**9, 10**10), WARN, "5 GB free")
    only_finding(disk.judge_room("results", "/", 10**8, 10**9, 0), FAIL, "100 MB free in /, 1 GB planned")
    only_finding(disk.judge_temporary("/tmp", 10**9, 10**9), FAIL, "1 GB free in /tmp, 2 GB planned")


def test_another_campaign() -> None:
    only_finding(others.judge_lock(outputs.UNIX, needed=True), FAIL, "another campaign runs here now")
    only_finding(others.judge_lock(outputs.UNIX.replace("@ccmix-host", "@ccmix-hosts"), needed=True), OK, "none")


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
    assert (finding.status, finding.seen, finding.mend) == (Status.FAIL, f"{place} is mounted read-only", ())
