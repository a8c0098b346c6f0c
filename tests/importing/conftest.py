"""Fixtures of the tests of `ccmix import`."""

import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import Result

from ccmix.tools import find_iperf3
from support.commands import invoke
from support.imports import RATE_MBPS, SECONDS, STREAMS, TESTS, Import, Outcome, Outputs
from support.ports import await_listening, free_port


@pytest.fixture
def outdir(tmp_path: Path) -> Path:
    return tmp_path / "imported"


@pytest.fixture
def here() -> Callable[..., Result]:
    """Calls a command of ccmix within this process. Any exception except its exit is a fault."""
    return invoke


@pytest.fixture
def imported(outdir: Path) -> Import:
    def run(*arguments: object) -> Outcome:
        done = invoke("import", *arguments, "-o", outdir)
        assert (done.exit_code, done.stdout) == (0, ""), done.output
        return Outcome(outdir, done.stderr)

    return run


@pytest.fixture
def refused(outdir: Path) -> Callable[..., str]:
    """Returns the output, which says why nothing was imported."""

    def run(*arguments: object) -> str:
        done = invoke("import", *arguments, "-o", outdir)
        status = 1 if "nothing to import: " in done.stderr else 2
        assert (done.exit_code, done.stdout) == (status, ""), done.output
        assert not list(outdir.parent.glob(".imported.import-*"))
        assert not outdir.exists()
        return done.stderr

    return run


@pytest.fixture(scope="session")
def iperf3_outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outputs]:
    """Outputs of real tests, by their names in TESTS."""
    stock = Path("/usr/bin/iperf3")
    if not stock.exists():
        pytest.skip(f"{stock} is missing: install the Debian package iperf3")
    binaries = {"stock": str(stock), "patched": str(find_iperf3())}
    folder = tmp_path_factory.mktemp("iperf3")
    with ThreadPoolExecutor(len(TESTS)) as pool:
        made = {
            name: pool.submit(_outputs, folder / name, binaries[which], words.split())
            for name, (which, words) in TESTS.items()
        }
        return {name: outputs.result() for name, outputs in made.items()}


def _outputs(folder: Path, binary: str, words: list[str]) -> Outputs:
    folder.mkdir()
    ended = {}
    for form, suffix in (("-J", "json"), ("-V", "txt")):
        client, server = folder / f"client.{suffix}", folder / f"server.{suffix}"
        asked = [word for word in words if form == "-J" or word != "--json-stream"]
        _test(binary, form, asked, client, server)
        ended[suffix] = client, server
    return Outputs(*ended["json"], *ended["txt"])


def _test(binary: str, form: str, words: list[str], client: Path, server: Path) -> None:
    port = str(free_port())
    with server.open("w") as out:
        listening = subprocess.Popen([binary, "-s", "-1", "-p", port, form], stdout=out)
        try:
            await_listening(listening, int(port))
            argv = [binary, "-c", "127.0.0.1", "-p", port, form, *words]
            done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
            client.write_text(done.stdout)
            assert done.returncode == 0, done.stdout
            listening.wait(30)
        finally:
            listening.kill()
            listening.wait()


@pytest.fixture(scope="session")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Logs of ss from the same test, each 0.1 s: with two lines for each socket, as in the ESnet
    harness, and with one.
    """
    folder = tmp_path_factory.mktemp("ss")
    port = str(free_port())
    server = subprocess.Popen(["iperf3", "-s", "-1", "-p", port], stdout=subprocess.DEVNULL)
    files = {"two": folder / "ss.two", "one": folder / "ss.one"}
    options = {"two": ["-tinm"], "one": ["-tinHO"]}
    try:
        await_listening(server, int(port))
        client = subprocess.Popen(
            [
                "iperf3",
                "-c",
                "127.0.0.1",
                "-p",
                port,
                "-C",
                "bbr",
                "-b",
                f"{RATE_MBPS}M",
                "-P",
                str(STREAMS),
                "-t",
                str(SECONDS),
                "-J",
            ],
            stdout=(folder / "client.json").open("w"),
        )
        with files["two"].open("w") as two, files["one"].open("w") as one:
            while client.poll() is None:
                for form, out in (("two", two), ("one", one)):
                    told = [
                        "ss",
                        *options[form],
                        "dst",
                        "127.0.0.1",
                        "and",
                        f"( dport = {port} or sport = {port} )",
                    ]
                    said = subprocess.run(told, capture_output=True, text=True, check=True).stdout
                    out.write(f"# {time.time():.6f}\n{said}")
                time.sleep(0.1)
        assert client.returncode == 0
    finally:
        server.kill()
        server.wait()
    return files | {"client": folder / "client.json"}
