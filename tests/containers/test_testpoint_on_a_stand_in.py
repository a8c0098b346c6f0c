"""Tests the target testpoint on a STAND-IN for perfSONAR's image, as far as that needs no running
pScheduler.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from support.commands import REPOSITORY, run_program
from support.containers import Docker, check_labels, clone
from support.plugin_runner import check, throughput

pytestmark = pytest.mark.timeout(3600)
STAND_IN = "ccmix-tests/stand-in-for-testpoint"
TOOL = "/usr/lib/pscheduler/classes/tool/iperf3mix"
# 509 MB were measured: Polars 132, vl-convert 84, the lab's userland 74, NumPy 48, SciPy's special
# functions 41, Ubuntu's Python 3.11 with its byte code 21; the rest are smaller packages, as Dask,
# and static programs
MOST_BYTES_ADDED = 525_000_000


@pytest.fixture(scope="module")
def testpoint(docker: Docker, harness: str) -> str:
    if not docker.good("images", "--quiet", "ubuntu:22.04").strip():
        reason = (
            "THE TEST POINT'S IMAGE IS NOT TESTED: Ubuntu, on which its stand-in is built, "
            "is out of reach"
        )
        if docker.environment.get("REQUIRE_DOCKER") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    folder = Path(__file__).parent / "testpoint-stand-in"
    docker.good("build", "--network=host", f"--tag={STAND_IN}", str(folder), timeout_s=600)
    return docker.build("testpoint", "--build-arg", f"TESTPOINT_IMAGE={STAND_IN}")


def method(docker: Docker, image: str, name: str, given: object = None) -> Any:
    """The answer of a method of the tool, called as pScheduler does: as a user without rights."""
    done = run_program(
        [
            "docker",
            "run",
            "--rm",
            "--interactive",
            "--network=none",
            "--cap-drop=ALL",
            "--user=postgres",
            f"--entrypoint={TOOL}/{name}",
            image,
        ],
        env=dict(docker.environment),
        input=json.dumps(given),
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_plugin_is_installed_from_its_package(docker: Docker, testpoint: str) -> None:
    said = docker.in_image(testpoint, "dpkg", "--listfiles", "pscheduler-tool-iperf3mix")
    assert docker.in_image(testpoint, "/usr/sbin/ccmix-cca", "--version").startswith(
        "ccmix-cca, build "
    )
    methods = {"enumerate", "can-run", "duration", "participant-data", "run", "merged-results"}
    assert methods <= {line.removeprefix(f"{TOOL}/") for line in said.splitlines()}
    wrong = docker.in_image(testpoint, "dpkg", "--verify", "pscheduler-tool-iperf3mix").splitlines()
    # Ubuntu's minimal image has its packages' manuals left out
    assert [
        line for line in wrong if "/usr/share/doc" not in line and "/usr/share/man" not in line
    ] == []


def test_it_is_registered(docker: Docker, testpoint: str) -> None:
    """The package's trigger has run the warm boot."""
    registered = json.loads(
        docker.in_image(testpoint, "cat", "/var/lib/pscheduler-stand-in/iperf3mix.json")
    )
    check(registered, "enumerate")
    assert registered["name"] == "iperf3mix"
    assert registered["tests"] == ["throughput"]


def test_methods(docker: Docker, testpoint: str) -> None:
    check(method(docker, testpoint, "enumerate"), "enumerate")
    mixed = throughput(congestion="cubic:1,bbr:1")
    assert method(docker, testpoint, "can-run", mixed)["can-run"] is True
    assert method(docker, testpoint, "can-run", throughput(congestion="bbr"))["can-run"] is False
    check(method(docker, testpoint, "duration", mixed), "duration")
    data = method(docker, testpoint, "participant-data", {"participant": 1, "test": mixed})
    check(data, "participant-data")
    assert "groups" in data["features"]


def test_ccmix_is_there_and_changes_nothing_for_the_base(docker: Docker, testpoint: str) -> None:
    """Its commands are on the PATH, its Python is not."""
    script = (
        "ccmix --version; ccmix-iperf3 --version | head -n 1; ccmix-lab-kernel --version; "
        "command -v python3;"
        "for name in ccmix-sockmon ccmix-rtt ccmix-capflow; do $name --help >/dev/null || echo "
        "no $name; done;"
        "for name in tcpdump ethtool numactl tc ss; do command -v $name >/dev/null || echo no "
        "$name; done;"
        "command -v gcc make pip3"
    )
    version, iperf3, kernel, python, *rest = docker(
        "run", "--rm", "--network=none", "--entrypoint=sh", testpoint, "-c", script
    ).stdout.splitlines()
    assert version.startswith("ccmix")
    assert "+ccmix" in iperf3
    assert kernel.startswith("7.")
    assert python == "/usr/bin/python3"
    assert rest == []
    base, image = (docker.inspect(one) for one in (STAND_IN, testpoint))
    for name in ("Cmd", "Entrypoint", "Env"):
        assert image["Config"][name] == base["Config"][name], name
    assert image["Config"]["User"] == (base["Config"]["User"] or "root")


def test_the_lab_works_there(docker: Docker, testpoint: str) -> None:
    said = docker.good(
        "run",
        "--rm",
        "--network=none",
        "--cap-drop=ALL",
        "--user=4711:4711",
        "--tmpfs=/tmp:exec",
        "--entrypoint=ccmix",
        testpoint,
        "lab",
        "exec",
        "--",
        "sh",
        "-c",
        "ip link set lo up; tc qdisc add dev lo root netem delay 20ms; ping -c 1 127.0.0.1",
    )
    assert "time=40.0 ms" in said


def test_size(docker: Docker, testpoint: str, capsys: pytest.CaptureFixture[str]) -> None:
    added = docker.inspect(testpoint)["Size"] - docker.inspect(STAND_IN)["Size"]
    with capsys.disabled():
        print(f"\n{testpoint}: {added / 1e6:.0f} MB more than its base")
    assert added < MOST_BYTES_ADDED


def test_labels(docker: Docker, testpoint: str) -> None:
    check_labels(docker, testpoint, STAND_IN)
    assert "ARG TESTPOINT_IMAGE=perfsonar/testpoint:" in (REPOSITORY / "Dockerfile").read_text()


def test_the_profile_of_compose(docker: Docker, testpoint: str, work: Path) -> None:
    """It starts, is healthy by the image's own check, and has a doctor, as
    docs/howto/run-in-containers.md says.
    """
    clone(work)
    compose = ("compose", "--profile", "testpoint")
    try:
        docker.good(*compose, "up", "--detach", "--no-build", "testpoint", cwd=work)
        [container] = docker.good(*compose, "ps", "--quiet", "testpoint", cwd=work).split()
        state = docker.inspect(container)["State"]
        assert (state["Running"], state["Health"]["Status"]) == (True, "starting")
        docker.good(
            "exec", container, *docker.inspect(testpoint)["Config"]["Healthcheck"]["Test"][1:]
        )
        said = docker(
            *compose, "exec", "-T", "testpoint", "ccmix", "doctor", "--format", "json", cwd=work
        ).stdout
        [network] = [
            one for one in json.loads(said)[0]["checks"] if one["check"] == "container: network"
        ]
        assert network["status"] == "ok"
        docker.good(
            *compose, "exec", "-T", "testpoint", "pscheduler", "internal", "warmboot", cwd=work
        )
        kept = ("/etc/perfsonar/psconfig/kept", "/var/lib/ccmix/kept")
        docker.good("exec", container, "touch", *kept)
        docker.good(*compose, "rm", "--force", "--stop", "testpoint", cwd=work)
        docker.good(*compose, "up", "--detach", "--no-build", "testpoint", cwd=work)
        docker.good(*compose, "exec", "-T", "testpoint", "ls", *kept, cwd=work)
    finally:
        docker.good(*compose, "down", "--volumes", "--timeout=5", cwd=work)
