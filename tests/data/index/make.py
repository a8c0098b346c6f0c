"""Makes the campaigns of this folder again, as root: PYTHONPATH=tests .venv/bin/python
tests/data/index/make.py
"""

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ccmix.tools import find_iperf3
from support.commands import CCMIX, REPOSITORY
from support.pscheduler_stand_in import StandIn, certificate, serving

HERE = Path(__file__).parent
TRANSCRIPTS = REPOSITORY / "tests" / "data" / "pscheduler"
SEED = "8"
# What `ccmix index` doesn't read
LEFT_OUT = (
    "report.html",
    "report-charts",
    *(
        f"*/*/*/*/{name}"
        for name in (
            "generators/*iperf3*",
            "logs",
            "capture.pcap.zst",
            "facts.json",
            "processes.parquet",
            "connections.parquet",
        )
    ),
)


def measure(name: str, *arguments: str, folder: Path = HERE) -> None:
    """By the INI file of that name in the folder."""
    outdir = HERE / name
    shutil.rmtree(outdir, ignore_errors=True)
    argv: list[str | Path] = [CCMIX, "run", f"{name}.ini", "-o", outdir, "--seed", SEED, *arguments]
    subprocess.run(argv, cwd=folder, check=False)
    for pattern in LEFT_OUT:
        for path in outdir.glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    of_this_machine = {
        CCMIX: "ccmix",
        str(outdir): name,
        f"{folder}/": "",
        f"{find_iperf3().parent}/": "",
    }
    for file in outdir.rglob("*.json"):
        text = file.read_text()
        for ours, instead in of_this_machine.items():
            text = text.replace(ours, instead)
        file.write_text(text)


@contextmanager
def two_hosts() -> Iterator[None]:
    """Namespaces `near` and `far`, joined by a veth pair."""

    def ip(*arguments: str) -> None:
        subprocess.run(["ip", *arguments], check=True)

    names = {"near": "10.213.7.1/24", "far": "10.213.7.2/24"}
    for name in names:
        ip("netns", "add", name)
        ip("-n", name, "link", "set", "lo", "up")
    try:
        ip(
            "link",
            "add",
            "eth0",
            "netns",
            "near",
            "type",
            "veth",
            "peer",
            "name",
            "eth0",
            "netns",
            "far",
        )
        for name, address in names.items():
            ip("-n", name, "addr", "add", address, "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
        yield
    finally:
        for name in names:
            ip("netns", "del", name)


def as_recorded(spec: dict[str, Any]) -> list[dict[str, Any] | None]:
    """The answers of the real servers' participants to the same test."""
    name = "iperf3mix" if ":" in spec["congestion"] else "iperf3"
    results: list[dict[str, Any] | None] = json.loads((TRANSCRIPTS / f"{name}.json").read_text())[
        "run"
    ]["result-full"]
    return results


def by_stand_in(folder: Path) -> None:
    shown = certificate(folder)
    with serving(StandIn(as_recorded), shown) as server:
        text = (HERE / "pscheduler.ini").read_text()
        ini = folder / "pscheduler.ini"
        ini.write_text(
            text.replace(
                "[DEFAULT]\n", f"[DEFAULT]\nlead = {server.address}\ntls-ca = {shown.certificate}\n"
            )
        )
        measure("pscheduler", folder=folder)


def main() -> None:
    measure("emulated", "--lab")
    measure("later", "--lab")
    measure("path", "--lab")
    measure("twin", "--lab")
    with two_hosts():
        measure("real")
    with tempfile.TemporaryDirectory() as folder:
        by_stand_in(Path(folder))


if __name__ == "__main__":
    main()
