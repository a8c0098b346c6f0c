"""Tests commands on this machine and in a network namespace: their errors, and that none outlives
its context.
"""

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ccmix.agent.journal import Journal
from ccmix.hosts import CommandError, Host, LocalHost, NamespaceHost, Process
from ccmix.hosts import local as local_module

HOST = LocalHost()


def wait_until(condition: Callable[[], bool], seconds: float = 30.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def alive(pid: int) -> bool:
    """Returns whether the process runs; a zombie that was not waited for has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def pid_from(file: Path) -> int:
    assert wait_until(lambda: file.exists() and file.read_text().endswith("\n"))
    return int(file.read_text())


def started(
    argv: list[str], folder: Path, host: Host = HOST
) -> contextlib.AbstractContextManager[Process]:
    return host.start(argv, stdout=folder / "o", stderr=folder / "e")


def test_output_and_input_of_a_command() -> None:
    assert HOST.run(["sh", "-c", 'cat; echo "$0"', "a  b; c"], stdin="in ") == "in a  b; c\n"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["no-such-program", "-x"], "localhost: no-such-program -x: No such file or directory"),
        (["false"], "localhost: false: exit status 1"),
        (["sh", "-c", "exit 3"], "localhost: sh -c exit 3: exit status 3"),
        (
            ["sh", "-c", "echo a >&2; echo b >&2; exit 4"],
            "localhost: sh -c echo a >&2; echo b >&2; exit 4: exit status 4: a / b",
        ),
        (["sh", "-c", "echo out; exit 5"], "localhost: sh -c echo out; exit 5: exit status 5: out"),
        (["sh", "-c", "echo 1\nexit 6"], "localhost: sh -c echo 1 exit 6: exit status 6: 1"),
    ],
    ids=[
        "missing program",
        "status",
        "status of a shell",
        "standard error",
        "standard output",
        "several lines",
    ],
)
def test_a_failed_command_is_reported_in_one_line(argv: list[str], message: str) -> None:
    with pytest.raises(CommandError) as caught:
        HOST.run(argv)
    assert str(caught.value) == message


def test_a_command_that_does_not_end_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    with pytest.raises(CommandError, match=r"has not ended after 3 s"):
        HOST.run(["sh", "-c", f"echo $$ > {file}; exec sleep 60"], timeout_s=3)
    assert not alive(pid_from(file))


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("text")
    assert HOST.read(f"{tmp_path}/there") == "text"
    with pytest.raises(
        CommandError, match=f"localhost: read {tmp_path}/missing: No such file or directory"
    ):
        HOST.read(f"{tmp_path}/missing")


def test_a_started_command_writes_its_outputs_and_ends_by_itself(tmp_path: Path) -> None:
    out, err = tmp_path / "out", tmp_path / "err"
    with HOST.start(
        ["sh", "-c", "echo out; echo err >&2; exit 7"], stdout=out, stderr=err
    ) as process:
        assert process.wait(30) == 7
        assert process.ended()
    assert (out.read_text(), err.read_text()) == ("out\n", "err\n")


def test_a_started_command_ends_with_its_context_also_on_exceptions(tmp_path: Path) -> None:
    file = tmp_path / "pid"

    def run_and_fail() -> None:
        with started(["sh", "-c", f"echo $$ > {file}; exec sleep 60"], tmp_path):
            assert alive(pid_from(file))
            raise KeyError

    with pytest.raises(KeyError):
        run_and_fail()
    assert not alive(pid_from(file))


def test_waiting_has_an_end(tmp_path: Path) -> None:
    with started(["sleep", "60"], tmp_path) as process:
        with pytest.raises(CommandError, match=r"localhost: sleep 60: has not ended after 0\.05 s"):
            process.wait(0.05)
        assert not process.ended()


def test_a_command_that_ignores_sigterm_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_module, "ENDS_WITHIN_S", 0.3)
    file = tmp_path / "pid"
    deaf = (
        f"import os, signal, time; signal.signal(15, signal.SIG_IGN); open('{file}', "
        f"'w').write(f'{{os.getpid()}}\\n')"
    )
    begin = time.monotonic()
    with started([sys.executable, "-c", f"{deaf}; time.sleep(60)"], tmp_path):
        pid = pid_from(file)
    assert not alive(pid)
    assert time.monotonic() - begin < 10


def test_a_missing_program_is_reported_in_the_error_file(tmp_path: Path) -> None:
    with started(["no-such-program"], tmp_path) as process:
        assert process.wait(30) == 127
    assert "no-such-program: No such file" in (tmp_path / "e").read_text()


def test_a_started_command_dies_with_its_python(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    program = f"""
import time
from pathlib import Path
from ccmix.hosts import LocalHost
argv = ["sh", "-c", "echo $$ > {file}; exec sleep 60"]
with LocalHost().start(argv, stdout=Path("/dev/null"), stderr=Path("/dev/null")):
    time.sleep(60)
"""
    parent = subprocess.Popen([sys.executable, "-c", program])
    pid = pid_from(file)
    assert alive(pid)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    assert wait_until(lambda: not alive(pid))


def test_a_namespace_has_devices_and_files_of_its_own(namespace: NamespaceHost) -> None:
    assert namespace.run(["ip", "-o", "link"]).count("\n") == 1
    assert ": lo:" in namespace.run(["ip", "-o", "link"])
    namespace.run(["sysctl", "-q", "-w", "net.ipv4.tcp_congestion_control=reno"])
    assert namespace.read("/proc/sys/net/ipv4/tcp_congestion_control") == "reno\n"
    namespace.run(["ip", "link", "add", "only-there", "type", "veth", "peer", "name", "its-peer"])
    assert "only-there:" in namespace.read("/proc/net/dev")
    assert "only-there:" not in HOST.read("/proc/net/dev")


def test_an_error_in_a_namespace_names_it(namespace: NamespaceHost) -> None:
    with pytest.raises(CommandError) as caught:
        namespace.run(["ip", "link", "set", "eth7", "up"])
    assert (
        str(caught.value)
        == f'{namespace.name}: ip link set eth7 up: exit status 1: Cannot find device "eth7"'
    )


def test_a_command_started_in_a_namespace_ends_with_its_context(
    namespace: NamespaceHost, tmp_path: Path
) -> None:
    with started(["sleep", "60"], tmp_path, namespace) as process:
        assert wait_until(lambda: namespace_pids(namespace) != [])
        [pid] = namespace_pids(namespace)
        assert not process.ended()
    assert not alive(pid)


def namespace_pids(namespace: NamespaceHost) -> list[int]:
    return [int(pid) for pid in HOST.run(["ip", "netns", "pids", namespace.name]).split()]


def test_a_change_gives_its_output_and_needs_a_journal(state: Path) -> None:
    with (
        Journal(state) as journal,
        LocalHost(journal).changed("a", ["echo", "out"], ["true"]) as output,
    ):
        assert output == "out\n"

    def change() -> None:
        with HOST.changed("a", ["true"], ["true"]):
            pass

    with pytest.raises(ValueError, match="a can't be changed without a journal"):
        change()
