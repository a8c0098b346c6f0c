"""ccmix in its container: the demo, the lab without any right, a test between two, a capture,
stop and kill.
"""

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from support.commands import CCMIX, REPOSITORY, SMALL, Ccmix, long
from support.containers import (
    DEFAULT,
    DTN,
    OWNER,
    PARAMETER,
    SWEEP,
    Docker,
    clone,
    wait_for,
    wait_for_change,
)
from support.repeated_runs import same_bytes

pytestmark = pytest.mark.timeout(3000)

# Without any right, and with nowhere to write but the working directory and memory from which
# guests may be executed
CONFINED = (
    "--cap-drop=ALL",
    "--security-opt=no-new-privileges",
    "--read-only",
    "--tmpfs=/tmp:exec",
    "--network=none",
)

PROGRAMS = (
    "ccmix-capflow",
    "ccmix-confine",
    "ccmix-iperf3",
    "ccmix-lab-kernel",
    "ccmix-rtt",
    "ccmix-sockmon",
)


def as_owner(work: Path) -> tuple[str, ...]:
    return (f"--user={OWNER[0]}:{OWNER[1]}", f"--volume={work}:/work")


def belongs_to_owner(folder: Path) -> bool:
    return all(
        (one.lstat().st_uid, one.lstat().st_gid) == OWNER for one in (folder, *folder.rglob("*"))
    )


class TestInTheLab:
    @pytest.mark.parametrize(
        ("words", "name", "runs"),
        [
            (("demo", "--quick"), "demo-quick", 3),
            long(("demo",), "demo", 60),
        ],
        ids=["quick", "whole"],
    )
    def test_demo_of_compose(
        self, docker: Docker, harness: str, work: Path, words: tuple[str, ...], name: str, runs: int
    ) -> None:
        """The clone belongs to a user, and so do the results."""
        clone(work)
        said = docker.good("compose", "run", "--rm", "harness", *words, cwd=work, timeout_s=1200)
        assert f"results/{name}/report.html" in said
        verdicts = [
            json.loads(file.read_text())["verdict"]["status"]
            for file in (work / "results" / name).rglob("run.json")
        ]
        assert verdicts == ["valid"] * runs
        assert belongs_to_owner(work / "results")

    def test_quick_demo_and_programs_are_those_of_the_clone(
        self, docker: Docker, harness: str, work: Path, ccmix: Ccmix, tmp_path: Path
    ) -> None:
        """The image is built on Debian 13, the clone on this machine."""
        said = docker.in_image(
            harness, "sh", "-c", f"cd /opt/ccmix/bin && sha256sum {' '.join(PROGRAMS)}"
        )
        for name, line in zip(PROGRAMS, said.splitlines(), strict=True):
            assert (
                hashlib.sha256(Path(CCMIX).with_name(name).read_bytes()).hexdigest()
                == line.split()[0]
            ), name
        docker.good(
            "run", "--rm", *CONFINED, *as_owner(work), harness, "demo", "--quick", "-o", "quick"
        )
        assert ccmix("demo", "--quick", "-o", tmp_path / "quick").returncode == 0
        same_bytes(work / "quick", tmp_path / "quick")

    def test_netem_as_an_ordinary_user_without_a_capability(
        self, docker: Docker, harness: str, work: Path
    ) -> None:
        lossy = (
            "ip link set lo up; tc qdisc add dev lo root netem delay 20ms; ping -c 2 -i 0.2 "
            "127.0.0.1; id -u"
        )
        said = docker.good(
            "run",
            "--rm",
            *CONFINED,
            *as_owner(work),
            harness,
            "lab",
            "exec",
            "--",
            "sh",
            "-c",
            lossy,
        )
        assert "time=40.0 ms" in said
        capabilities = docker.good(
            "run",
            "--rm",
            *CONFINED,
            *as_owner(work),
            "--entrypoint=grep",
            harness,
            "Cap",
            "/proc/self/status",
        )
        assert {line.split()[1] for line in capabilities.splitlines()} == {"0" * 16}

    def test_stopped_and_resumed(self, docker: Docker, harness: str, work: Path) -> None:
        (work / "small.ini").write_text(SMALL.replace("iterations = 2", "iterations = 40"))
        command = (
            *CONFINED,
            *as_owner(work),
            harness,
            "run",
            "small.ini",
            "--lab",
            "-o",
            "results",
        )
        container = docker.start("--name=stopped", *command)
        wait_for(work, "run.json", 2)
        docker.good("stop", "--time=30", container)
        assert docker.inspect(container)["State"]["ExitCode"] == 130
        finished = {file: file.read_bytes() for file in work.rglob("run.json")}
        assert 2 <= len(finished) < 40
        docker.good("run", "--rm", *command, "--resume")
        assert len(list(work.rglob("run.json"))) == 40
        assert all(file.read_bytes() == content for file, content in finished.items())
        docker.good("rm", container)


@pytest.mark.parametrize(
    ("profile", "services"),
    [
        ("", "harness"),
        ("dtn", "dtn harness"),
        ("pair", "client harness server"),
        ("far-end", "far-end harness"),
        ("elk", "elasticsearch elasticsearch-setup harness kibana kibana-setup secrets"),
        ("testpoint", "harness testpoint"),
    ],
)
def test_profiles_of_compose(docker: Docker, work: Path, profile: str, services: str) -> None:
    clone(work)
    shutil.copytree(REPOSITORY / "elk", work / "elk", dirs_exist_ok=True)
    chosen = ("--profile", profile) if profile else ()
    found = json.loads(docker.good("compose", *chosen, "config", "--format=json", cwd=work))[
        "services"
    ]
    assert " ".join(sorted(found)) == services
    missing = [
        mount["source"]
        for service in found.values()
        for mount in service.get("volumes", ())
        if mount["type"] == "bind" and not Path(mount["source"]).exists()
    ]
    assert missing == []


class TestBetweenContainers:
    def test_mix_and_capture_of_compose(self, docker: Docker, harness: str, work: Path) -> None:
        """The client and its server, on a private network. A start after a stop resumes, the end of
        the client stops the server, and another start finds the results.
        """
        clone(work)
        compose = ("compose", "--profile", "pair")
        start = ("up", "--exit-code-from", "client", "client", "server")
        try:
            docker.good(*compose, "up", "--detach", "client", cwd=work)
            [client] = docker.good(*compose, "ps", "--quiet", "client", cwd=work).split()
            wait_for(work, "*.partial")
            docker.good(*compose, "stop", "client", cwd=work)
            assert docker.inspect(client)["State"]["ExitCode"] == 130
            docker.good(*compose, *start, cwd=work)
            [network] = docker.good(
                "network", "ls", "--quiet", "--filter", "label=com.docker.compose.network=pair"
            ).split()
            assert docker.inspect(network)["Internal"] is True
            listing = ("ps", "--all", "--quiet", "client", "server")
            ids = docker.good(*compose, *listing, cwd=work).split()
            states = [docker.inspect(container)["State"] for container in ids]
            assert [(one["Status"], one["ExitCode"]) for one in states] == [("exited", 0)] * 2
            [file] = work.rglob("run.json")
            first = file.read_bytes()
            docker.good(*compose, *start, cwd=work)
            assert file.read_bytes() == first
        finally:
            docker.good(*compose, "down", "--volumes", cwd=work)
        [file] = work.rglob("run.json")
        run = json.loads(file.read_text())
        assert run["verdict"]["status"] == "valid", run["verdict"]
        groups = {group["cca"]: group for group in run["metrics"]["groups"]}
        assert set(groups) == {"cubic", "bbr"}
        assert all(150e6 < group["goodput_bps"] <= 203e6 for group in groups.values())
        assert run["facts"]["capture"]["complete"]
        assert (file.parent / "capture.pcap.zst").stat().st_size > 100_000
        assert belongs_to_owner(work / "results")


class TestOnTheHost:
    """With the options of a production test: the host's network, and the host's kernel, which is
    changed and restored.
    """

    @pytest.fixture
    def campaign(self, docker: Docker, harness: str, work: Path) -> tuple[str, ...]:
        assert PARAMETER.read_text() == DEFAULT
        (work / "sweep.ini").write_text(SWEEP)
        return (*DTN, f"--volume={work}:/work", harness)

    def test_stop(self, docker: Docker, work: Path, campaign: tuple[str, ...]) -> None:
        container = docker.start(*campaign, "run", "sweep.ini", "-o", "results/a")
        wait_for_change()
        docker.good("stop", "--time=30", container)
        assert PARAMETER.read_text() == DEFAULT
        assert docker.inspect(container)["State"]["ExitCode"] == 130
        docker.good("rm", container)
        docker(
            "run", "--rm", *campaign, "run", "sweep.ini", "-o", "results/a", "--resume"
        )  # fails: a run that only sleeps is not valid
        assert len(list(work.rglob("run.json"))) == 2
        assert PARAMETER.read_text() == DEFAULT
        assert belongs_to_owner(work / "results")

    def test_kill_and_restore(self, docker: Docker, work: Path, campaign: tuple[str, ...]) -> None:
        container = docker.start(*campaign, "run", "sweep.ini", "-o", "results/a")
        wait_for_change()
        docker.good("kill", container)
        docker.good("rm", container)
        assert PARAMETER.read_text() != DEFAULT
        said = docker("run", "--rm", *campaign, "doctor")
        assert "left by dead runs" in said.stdout
        docker.good("run", "--rm", *campaign, "restore")
        assert PARAMETER.read_text() == DEFAULT
        docker(
            "run", "--rm", *campaign, "run", "sweep.ini", "-o", "results/a", "--resume"
        )  # fails: a run that only sleeps is not valid
        assert len(list(work.rglob("run.json"))) == 2
        assert belongs_to_owner(work / "results")
