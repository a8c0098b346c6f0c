"""Tests the rights of a container, its messages about missing rights, and its health."""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cca_bpf import turn
from support.containers import DTN, GUIDE, Docker, clone

pytestmark = pytest.mark.timeout(3000)
BARE = ("--rm", "--cap-drop=ALL", "--read-only", "--network=none")
PRIVATE = "ccmix-private"
CAPTURE = """
[wan]
type = iperf3
src = localhost
dst = 127.0.0.1
server = running
tcpdump = on
"""


@pytest.fixture(scope="module", autouse=True)
def private_network(docker: Docker) -> Iterator[None]:
    """Makes a network for containers that reach only each other."""
    docker.good("network", "create", "--internal", PRIVATE)
    yield
    docker.good("network", "rm", PRIVATE)


def doctor(
    docker: Docker, image: str, work: Path, *options: str, config: str = ""
) -> dict[str, tuple[str, str]]:
    """Status and first suggested fix of each use of a container."""
    words = ["doctor", "--format", "json"]
    if config:
        (work / "one.ini").write_text(config)
        words.append("one.ini")
    bare = [option for option in BARE if option != "--network=none"]
    if "--network=host" not in options:
        bare.append(f"--network={PRIVATE}")
    done = docker("run", *bare, f"--volume={work}:/work", *options, image, *words)
    assert done.stdout, done.stderr
    reports = json.loads(done.stdout)
    return {
        one["check"].removeprefix("container: "): (one["status"], "".join(one["instead"][:1]))
        for one in reports[0]["checks"]
        if one["check"].startswith("container: ")
    }


def test_the_doctor_says_what_is_missing_and_for_what(
    docker: Docker, harness: str, work: Path
) -> None:
    bare = doctor(docker, harness, work)
    assert bare["captures"] == ("warn", "docker run --user root --cap-add NET_RAW ...")
    assert bare["topologies without --lab"][1].startswith(
        "docker run --user root --cap-add NET_ADMIN --cap-add SYS_ADMIN --security-opt "
        "systempaths=unconfined"
    )
    assert bare["network"] == ("warn", "docker run --network host ...")
    assert doctor(docker, harness, work, config=CAPTURE)["captures"][0] == "fail"


def test_the_doctors_way_out_leads_out(docker: Docker, harness: str, work: Path) -> None:
    for use, (status, instead) in doctor(docker, harness, work).items():
        assert status == "warn"
        options = instead.removeprefix("docker run ").removesuffix(" ...").split()
        if use == "network":
            continue  # a host's network excludes none
        assert doctor(docker, harness, work, *options)[use][0] == "ok", use


# The command of each use, in a private network; none changes anything on the machine
DEEDS = {
    "captures": "timeout 1 tcpdump -Z root -i lo -w /tmp/pcap; test -s /tmp/pcap",
    "pacing, netem, any CCA": "tc qdisc replace dev lo root pfifo",
    "sysctls": "sysctl -w net.ipv4.tcp_rmem='4096 131072 6291456'",
    "module parameters": "cd /sys/module/tcp_cubic/parameters; cat hystart_detect >hystart_detect",
    "topologies without --lab": "ip netns add a && ip link add x type veth peer y netns a && "
    "ip netns exec a sysctl -w net.ipv4.ip_forward=1",
    "root's results in a user's folder": "touch /work/new && chown 1:1 /work/new",
}


def test_each_use_works_with_what_the_doctor_asks_for_and_not_without(
    docker: Docker, harness: str, work: Path
) -> None:
    found = doctor(docker, harness, work)
    assert set(DEEDS) == set(found) - {"network"}
    for use, deed in DEEDS.items():
        options = found[use][1].removeprefix("docker run ").removesuffix(" ...").split()
        base = (
            *BARE,
            "--tmpfs=/tmp:exec",
            "--tmpfs=/run",
            f"--volume={work}:/work",
            "--entrypoint=sh",
        )
        done = docker("run", *base, *options, harness, "-c", deed)
        assert done.returncode == 0, (use, done.stderr)
        assert docker("run", *base, "--user=root", harness, "-c", deed).returncode != 0, use


def test_the_doctor_in_the_container_of_production_tests(
    docker: Docker, harness: str, work: Path
) -> None:
    """compose's service `dtn` has all rights except those of topologies without --lab, and its
    journals outlive it.
    """
    found = doctor(docker, harness, work, *DTN)
    assert {use for use, (status, _) in found.items() if status != "ok"} == {
        "topologies without --lab"
    }
    assert found["topologies without --lab"][1].startswith("docker run --cap-add SYS_ADMIN ...")
    without = doctor(docker, harness, work, *(option for option in DTN if "state:" not in option))
    assert without["restore after a kill"] == ("warn", "docker run -v state:/var/lib/ccmix ...")


# Files that root of the host may write, of the network and of the machine
OF_PROC_SYS = ("net/ipv4/tcp_rmem", "net/core/rmem_max", "kernel/core_pattern", "vm/swappiness")
# Each gets the value that it has
WRITE_BACK = (
    "cd /proc/sys; for file in " + " ".join(OF_PROC_SYS) + "; do "
    'value=$(cat $file) && { printf "%s\\n" "$value" >$file; } 2>/dev/null && echo $file; done; '
    "true"
)
# The rights are compose's, whatever the image is
ANY_IMAGE = """services:
  dtn: {image: "debian:trixie-slim", pull_policy: never}
  harness: {image: "debian:trixie-slim", pull_policy: never}
"""


def writable(docker: Docker, work: Path, service: str, override: str = "") -> list[str]:
    """Returns those of OF_PROC_SYS that a service of compose can write."""
    (work / "image.yaml").write_text(ANY_IMAGE)
    (work / "compose.override.yaml").write_text(override or "services: {}\n")
    files = ("-f", "compose.yaml", "-f", "compose.override.yaml", "-f", "image.yaml")
    command = ("run", "--rm", "--no-deps", "-T", "--entrypoint=sh", service, "-c", WRITE_BACK)
    return docker.good("compose", *files, *command, cwd=work).split()


def guides_override() -> str:
    """Returns the compose.override.yaml of the guide, which takes rights from the service dtn."""
    override: str
    [override] = re.findall(r"```yaml\n(services:\n  dtn:\n.*?)```", GUIDE.read_text(), re.DOTALL)
    return override


def test_what_services_of_compose_can_write_below_proc_sys(docker: Docker, work: Path) -> None:
    """The guide says that `dtn` is trusted with root on the machine, names core_pattern, and
    explains how to withdraw that right.
    """
    clone(work)
    assert "`/proc/sys/kernel/core_pattern`" in GUIDE.read_text()
    assert writable(docker, work, "dtn") == list(OF_PROC_SYS)
    assert writable(docker, work, "dtn", guides_override()) == []
    assert writable(docker, work, "harness") == []


def test_the_doctor_of_the_lab(docker: Docker, harness: str, work: Path) -> None:
    """A read-only container has no place for a guest's memory except the given one."""
    for options, expected in (
        ((), "docker run --tmpfs /tmp:exec ..."),
        (("--tmpfs=/tmp:exec",), None),
    ):
        said = docker(
            "run", *BARE, *options, f"--volume={work}:/work", harness, "doctor", "--format", "json"
        ).stdout
        checks = [one for one in json.loads(said)[0]["checks"] if one["check"].startswith("lab: ")]
        bad = [one for one in checks if one["status"] != "ok"]
        if expected is None:
            assert bad == []
        else:
            assert [one["instead"] for one in bad if "memory" in one["check"]] == [[expected]]


def test_a_hosts_network_is_told_from_a_private_one(docker: Docker, harness: str) -> None:
    said = docker("run", "--rm", "--network=host", harness, "doctor", "--format", "json").stdout
    [network] = [
        one for one in json.loads(said)[0]["checks"] if one["check"] == "container: network"
    ]
    assert network["status"] == "ok"


def test_ccmix_cca_with_the_capabilities_that_the_guide_names_and_without(
    docker: Docker, harness: str
) -> None:
    """It loads into the machine's kernel, also from a container with a separate network."""
    commands = (
        "ccmix-cca check && ccmix-cca load bbr3 && ccmix-cca list --json && ccmix-cca unload bbr3"
    )
    base = ("run", *BARE, "--entrypoint=sh", "--user=root")
    with turn():
        done = docker(*base, "--cap-add=SYS_ADMIN", "--cap-add=NET_ADMIN", harness, "-ec", commands)
        assert done.returncode == 0, done.stdout + done.stderr
        assert '"name": "bbr3"' in done.stdout
        for missing, kept in (("SYS_ADMIN", "NET_ADMIN"), ("NET_ADMIN", "SYS_ADMIN")):
            refused = docker(*base, f"--cap-add={kept}", harness, "-ec", "ccmix-cca load bbr3")
            assert refused.returncode == 1
            assert f"the capability CAP_{missing} is missing" in refused.stderr
        listed = docker(
            *base,
            "--cap-add=SYS_ADMIN",
            "--cap-add=NET_ADMIN",
            harness,
            "-ec",
            "ccmix-cca list --json",
        )
        assert listed.stdout == "[]\n"


def test_health(docker: Docker, harness: str) -> None:
    """A server is healthy if it listens, a campaign if results can be written."""
    check = ("exec", "--", "/opt/ccmix/container/healthcheck")
    server = docker.start(
        "--network=none", "--entrypoint=tini", harness, "--", "ccmix-iperf3", "-s"
    )
    try:
        deadline = time.monotonic() + 30
        while docker("exec", server, *check[2:], "5201").returncode != 0:
            assert time.monotonic() < deadline, "the server's port is not found"
            time.sleep(0.1)
        assert docker("exec", server, *check[2:], "5202").returncode != 0
        assert docker("exec", server, *check[2:]).returncode == 0
        assert docker("exec", "--workdir=/usr", server, *check[2:]).returncode != 0
    finally:
        docker.good("rm", "--force", server)


def test_what_is_not_root_becomes_the_owner_of_the_folder(
    docker: Docker, harness: str, work: Path
) -> None:
    """As the service `harness` of compose: with the right to change the user, and without rights
    afterwards.
    """
    options = (
        "--user=root",
        "--cap-add=SETUID",
        "--cap-add=SETGID",
        "--env=CCMIX_AS=owner",
        "--tmpfs=/tmp:exec",
    )
    in_network = [f"--network={PRIVATE}" if one == "--network=none" else one for one in BARE]
    said = docker(
        *("run", *in_network, *options, f"--volume={work}:/work"),
        *(harness, "doctor", "--format", "json"),
    ).stdout
    uses = {one["check"]: one["seen"] for one in json.loads(said)[0]["checks"]}
    assert uses["container: captures"] == "user 4711 is not root, no NET_RAW"


def test_the_doctor_of_a_container_for_the_lab_only(
    docker: Docker, harness: str, work: Path
) -> None:
    """Without a network, nothing about tests between hosts makes sense."""
    clone(work)
    said = docker.good("compose", "run", "--rm", "harness", "doctor", "--format", "json", cwd=work)
    checks = {one["check"]: one["status"] for one in json.loads(said)[0]["checks"]}
    assert set(checks.values()) == {"ok"}
    assert {"lab: kernel", "container: network", "patched iperf3"} < set(checks)
    assert not {"clock", "cores", "kernel: netem", "container: captures"} & set(checks)


@pytest.mark.parametrize(
    ("limits", "option", "seen_by_doctor"),
    [
        (("--tmpfs=/tmp:exec", "--memory=500m"), "--memory 2g", True),
        (("--tmpfs=/tmp:exec,size=64m",), "--tmpfs /tmp:exec,size=1g", True),
        (("--tmpfs=/tmp",), "--tmpfs /tmp:exec", True),
        (("--tmpfs=/tmp:exec", "--pids-limit=60"), "--pids-limit 128", False),
    ],
    ids=["memory", "small tmp", "noexec", "processes"],
)
def test_a_run_with_less_than_it_needs_is_refused_before_it_starts(
    docker: Docker,
    harness: str,
    work: Path,
    limits: tuple[str, ...],
    option: str,
    seen_by_doctor: bool,
) -> None:
    container = ("run", *BARE, *limits, f"--volume={work}:/work", "--user=4711:4712", harness)
    refused = docker(*container, "demo", "--quick", "-o", "results")
    assert refused.returncode == 2, refused.stderr
    assert f"start the container with {option}" in refused.stderr
    assert refused.stderr.count("\n") < 5
    assert not (work / "results").exists()
    if seen_by_doctor:
        said = docker(*container, "doctor", "--format", "json").stdout
        bad = [one for one in json.loads(said)[0]["checks"] if one["status"] != "ok"]
        assert {command for one in bad for command in (*one["remedy"], *one["instead"])} == {
            f"docker run {option} ..."
        }
