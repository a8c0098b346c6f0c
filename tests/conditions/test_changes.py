"""Tests changing and restoring sysctls and queue disciplines of a real network namespace."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ccmix.agent.journal import Journal
from ccmix.agent.left_journals import restore
from ccmix.conditions import qdisc
from ccmix.conditions.qdisc import replaced_qdisc
from ccmix.conditions.sysctl import changed_sysctls
from ccmix.hosts import CommandError, NamespaceHost
from ccmix.model import Buffer, Loss, Queue
from support.model import one_sender

FIFO = ["pfifo", "limit", "10"]


@pytest.fixture
def journal_state(state: Path, namespace: NamespaceHost) -> Path:
    try:
        namespace.run(["tc", "qdisc", "replace", "dev", "lo", "root", *FIFO])
    except CommandError as error:
        pytest.skip(f"this kernel has no pfifo to test with: {error}")
    namespace.run(["tc", "qdisc", "del", "dev", "lo", "root"])
    return state


@contextmanager
def journalled(namespace: NamespaceHost, state: Path) -> Iterator[NamespaceHost]:
    with Journal(state) as journal:
        yield NamespaceHost(namespace.name, journal)


def kinds(namespace: NamespaceHost) -> list[str]:
    return [found["kind"] for found in qdisc.qdiscs(namespace, "lo")]


def sysctl(namespace: NamespaceHost, name: str) -> list[str]:
    return namespace.run(["sysctl", "-n", name]).split()


def test_sysctls_are_changed_and_put_back(state: Path, namespace: NamespaceHost) -> None:
    names = ("net.ipv4.tcp_rmem", "net.ipv4.tcp_sack")
    former = [sysctl(namespace, name) for name in names]
    values = {"net.ipv4.tcp_rmem": "4096 131072 5000000", "net.ipv4.tcp_sack": "0"}
    with journalled(namespace, state) as host, changed_sysctls(host, values):
        assert [sysctl(namespace, name) for name in names] == [["4096", "131072", "5000000"], ["0"]]
    assert (
        [sysctl(namespace, name) for name in names]
        == former
        != [["4096", "131072", "5000000"], ["0"]]
    )


def test_of_sysctls_that_cannot_be_set_none_stays_changed(
    state: Path, namespace: NamespaceHost
) -> None:
    def change() -> None:
        values = {"net.ipv4.tcp_sack": "0", "net.ipv4.tcp_congestion_control": "no-such-cca"}
        with journalled(namespace, state) as host, changed_sysctls(host, values):
            pass

    former = sysctl(namespace, "net.ipv4.tcp_sack")
    with pytest.raises(CommandError, match="no-such-cca"):
        change()
    assert sysctl(namespace, "net.ipv4.tcp_sack") == former == ["1"]


def test_an_unknown_sysctl_changes_nothing(state: Path, namespace: NamespaceHost) -> None:
    def change() -> None:
        with (
            journalled(namespace, state) as host,
            changed_sysctls(host, {"net.ipv4.tcp_no_such": "1"}),
        ):
            pass

    with pytest.raises(CommandError, match="tcp_no_such"):
        change()
    assert list(restore(state)) == []


def test_a_qdisc_is_replaced_and_the_default_one_comes_back(
    journal_state: Path, namespace: NamespaceHost
) -> None:
    assert "pfifo" not in kinds(namespace)
    before = kinds(namespace)
    with journalled(namespace, journal_state) as host, replaced_qdisc(host, "lo", FIFO):
        assert kinds(namespace) == ["pfifo"]
        assert qdisc.qdiscs(namespace, "lo")[0]["options"] == {"limit": 10}
    assert kinds(namespace) == before
    assert list(journal_state.iterdir()) == []


def test_a_simple_qdisc_that_somebody_configured_comes_back(
    journal_state: Path, namespace: NamespaceHost
) -> None:
    namespace.run(
        ["tc", "qdisc", "add", "dev", "lo", "root", "handle", "7:", "pfifo", "limit", "33"]
    )
    before = namespace.run(["tc", "qdisc", "show", "dev", "lo"])
    with journalled(namespace, journal_state) as host, replaced_qdisc(host, "lo", FIFO):
        assert qdisc.qdiscs(namespace, "lo")[0]["options"] == {"limit": 10}
    assert namespace.run(["tc", "qdisc", "show", "dev", "lo"]) == before


def test_another_qdisc_that_somebody_configured_is_left_alone(
    journal_state: Path, namespace: NamespaceHost
) -> None:
    tbf = ["tbf", "rate", "1gbit", "burst", "9kb", "limit", "99kb"]
    namespace.run(["tc", "qdisc", "add", "dev", "lo", "root", "handle", "7:", *tbf])
    before = namespace.run(["tc", "qdisc", "show", "dev", "lo"])

    def replace() -> None:
        with journalled(namespace, journal_state) as host, replaced_qdisc(host, "lo", FIFO):
            pass

    with pytest.raises(
        CommandError, match=re.escape("lo has a qdisc tbf 7: that ccmix did not make")
    ):
        replace()
    assert namespace.run(["tc", "qdisc", "show", "dev", "lo"]) == before


def test_a_qdisc_and_a_sysctl_are_put_back_after_a_kill(
    journal_state: Path, namespace: NamespaceHost
) -> None:
    program = f"""
import time
from pathlib import Path
from ccmix.agent.journal import Journal
from ccmix.conditions.qdisc import replaced_qdisc
from ccmix.conditions.sysctl import changed_sysctls
from ccmix.hosts import NamespaceHost
with Journal(Path({str(journal_state)!r})) as journal:
    host = NamespaceHost({namespace.name!r}, journal)
    with changed_sysctls(host, {{"net.ipv4.tcp_sack": "0"}}), replaced_qdisc(host, "lo", {FIFO}):
        print("changed", flush=True)
        time.sleep(60)
"""
    before = kinds(namespace)
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    assert process.stdout.readline() == "changed\n"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert (kinds(namespace), sysctl(namespace, "net.ipv4.tcp_sack")) == (["pfifo"], ["0"])
    told = [(undo.what, reason) for undo, reason in restore(journal_state)]
    assert told == [
        (f"qdisc pfifo of lo on {namespace.name}", None),
        (f"sysctls net.ipv4.tcp_sack on {namespace.name}", None),
    ]
    assert (kinds(namespace), sysctl(namespace, "net.ipv4.tcp_sack")) == (before, ["1"])


@pytest.mark.parametrize(("limit", "shown"), [(1514, "limit"), (1_000_000, "lat")])
def test_the_bottleneck_is_one_that_this_tc_takes(
    state: Path, namespace: NamespaceHost, limit: int, shown: str
) -> None:
    topology = one_sender(1e9, 0.0, None, Buffer(limit, "byte"), 1500, offloads=False)
    [[_, *wanted]] = qdisc.shaper(topology)
    try:
        namespace.run(["tc", "qdisc", "replace", "dev", "lo", *wanted])
    except CommandError as error:
        pytest.skip(f"this kernel has no tbf: {error}")
    [found] = qdisc.qdiscs(namespace, "lo")
    options = found["options"]
    assert options["rate"] == 125_000_000  # tc says bytes per second
    assert shown in options, "what the verdict on the buffer reads"


def test_netem_and_fq_as_tc_takes_them() -> None:
    assert qdisc.netem(0.0441234567, Loss("random", (0.00025,))) == [
        "netem",
        "delay",
        "44123us",
        "loss",
        "random",
        "0.025%",
        "limit",
        "10000000",
    ]
    assert qdisc.netem(0.005, Loss("gemodel", (0.01, 0.1)), jitter_s=0.001, reorder=0.002) == [
        "netem",
        "delay",
        "5000us",
        "1000us",
        "loss",
        "gemodel",
        "1%",
        "10%",
        "reorder",
        "0.2%",
        "limit",
        "10000000",
    ]
    assert qdisc.sender_queue(Queue("fq"))[:3] == ["fq", "limit", "10000000"]
    assert qdisc.sender_queue(Queue("fq", ("limit", "9"))) == [
        "fq",
        "flow_limit",
        "10000000",
        "limit",
        "9",
    ]
    assert qdisc.sender_queue(Queue("pfifo")) == ["pfifo"]
