"""Tests the layout of topologies, and that the guest's kernel and tc accept all of its settings."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ccmix.conditions.layout import Place, layout
from ccmix.config import queues
from ccmix.model import AckBottleneck, Buffer, Policer, Queue, Sender, Topology
from support.commands import REPOSITORY, Ccmix
from support.model import one_sender

PLAIN = one_sender(1e8, 0.005, None, Buffer(100, "packet"), 1500, offloads=False)
THREE = replace(PLAIN, senders=tuple(Sender(f"h{number}", 0.005 * number) for number in (1, 2, 3)))


def test_one_sender_and_one_receiver() -> None:
    plan = layout(PLAIN)
    assert plan.namespaces == ("h1", "delay", "bottleneck", "receiver")
    assert [device.what for device in plan.emulating] == [
        "sender-queue",
        "data-delay",
        "ack-delay",
        "bottleneck",
    ]
    assert [device.place for device in plan.emulating] == [
        Place("h1", "eth0"),
        Place("delay", "east"),
        Place("delay", "west"),
        Place("bottleneck", "east"),
    ]


def test_each_sender_has_a_receiver_or_all_have_one() -> None:
    each, one = layout(THREE), layout(replace(THREE, receivers="one"))
    assert each.receivers == ("h1-receiver", "h2-receiver", "h3-receiver")
    assert "exit" in each.namespaces
    assert one.receivers == ("receiver",)
    assert "exit" not in one.namespaces
    for plan in (each, one):
        addresses = [pair.receiver_address for pair in plan.pairs]
        assert len(set(addresses)) == 3, (
            "by which the delay router tells the senders' packets apart"
        )
        assert [
            device.place.device for device in plan.emulating if device.what.startswith("data")
        ] == [
            "east1",
            "east2",
            "east3",
        ]


def test_no_address_and_no_device_is_there_twice() -> None:
    many = replace(PLAIN, senders=tuple(Sender(f"h{number}", 0.005) for number in range(254)))
    for plan in (layout(many), layout(replace(many, receivers="one"))):
        ends = [end for link in plan.links for end in link]
        places = [end.place for end in ends]
        addresses = [address for end in ends for address in end.addresses]
        assert len(set(places)) == len(places)
        assert len(set(addresses)) == len(addresses)


def test_a_fifo_of_packets_gets_its_limit_in_packets() -> None:
    lines = layout(replace(PLAIN, queue=Queue("pfifo"))).bottleneck.lines("add")
    assert lines == [
        "qdisc add dev east root handle 1: tbf rate 100000000bit burst 3028 limit 100",
        "qdisc add dev east parent 1:1 handle 2: pfifo limit 100",
    ]


@pytest.mark.parametrize("topology", [PLAIN, THREE, replace(THREE, receivers="one")])
def test_acks_of_all_pass_one_device_on_their_way_back(topology: Topology) -> None:
    plan = layout(replace(topology, ack_bottleneck=AckBottleneck(2e5, Buffer(20, "packet"))))
    assert plan.ack_bottleneck
    assert plan.ack_bottleneck.place == Place("exit", "west")
    assert plan.ack_bottleneck.lines("add") == [
        "qdisc add dev west root handle 1: tbf rate 200000bit burst 3028 limit 20",
        "qdisc add dev west parent 1:1 handle 2: pfifo limit 20",
    ]
    places = [end.place for link in plan.links for end in link]
    assert len(set(places)) == len(places)
    assert plan.emulating[-1] is plan.ack_bottleneck


def test_a_policer_stands_before_the_queue_of_the_bottleneck() -> None:
    lines = layout(replace(PLAIN, policer=Policer(5e7, 200_000))).bottleneck.lines("add")
    assert lines[-2:] == [
        "qdisc add dev east clsact",
        "filter add dev east egress matchall action "
        "police rate 50000000bit burst 200000 mtu 1514 conform-exceed drop/ok",
    ]
    assert lines[:-2] == layout(PLAIN).bottleneck.lines("add")


def test_a_fifo_of_bytes_for_acks_is_the_bucket_s_own() -> None:
    plan = layout(replace(PLAIN, ack_bottleneck=AckBottleneck(2e5, Buffer(4000, "byte"))))
    assert plan.ack_bottleneck
    assert plan.ack_bottleneck.lines("add") == [
        "qdisc add dev west root handle 1: tbf rate 200000bit burst 3028 limit 4000"
    ]


EACH_QUEUE = f"""
import sys
sys.path.insert(0, {str(REPOSITORY / "harness")!r})
from dataclasses import replace
from ccmix.agent.journal import Journal
from ccmix.conditions import qdisc
from ccmix.conditions.dumbbell import dumbbell
from ccmix.config.queues import read_queue
from ccmix.model import Buffer, Loss, Queue, Sender, Topology

hosts = (Sender("h1", 0.005, Loss("gemodel", (0.01, 0.1, 0.7, 0.001)), 0.001, 0.01), Sender("h2", 0.01, rate_bps=5e7))
path = Topology(1e8, hosts, Buffer(100, "packet"), 1500, offloads=False, ecn=True)
for text in sys.argv[1:]:
    for shaper in ("tbf", "htb"):
        topology = replace(path, queue=read_queue(text), shaper=shaper, name="t")
        with Journal() as journal, dumbbell(topology, journal) as up:
            for pair in up.pairs:
                up.sender(pair).run(["ping", "-q", "-c", "20", "-i", "0.1", pair.receiver_address])
            found = qdisc.qdiscs(up.host("bottleneck"), "east")
            print(shaper, *(one["kind"] for one in found), found[-1].get("options", {{}}).get("limit"))
"""
QUEUES = {
    "bfifo": 151400,
    "pfifo": 100,
    "pfifo_head_drop": 100,
    "codel ecn ce_threshold 24.2ms target 2ms": 100,
    "fq_codel ecn flows 64 quantum 1514b drop_batch 8": 100,
    "fq maxrate 50mbit ce_threshold 5ms": 100,
    "pie ecn alpha 2 beta 20 bytemode": 100,
    "fq_pie ecn ecn_prob 20%": 100,
    "red ecn min 30kb max 90kb": 151400,
    "red adaptive": 151400,
    "sfq perturb 10 headdrop": 100,
    "choke ecn min 20 max 60": 100,
    "sfb rehash 600 max 25 target 20": 100,
    "hhf hh_limit 100": 100,
    "cake rtt 20ms besteffort flowblind": None,
}


@pytest.fixture
def script(tmp_path: Path) -> Path:
    file = tmp_path / "each.py"
    file.write_text(EACH_QUEUE)
    return file


def test_every_queue_discipline_is_one_that_the_guest_takes(ccmix: Ccmix, script: Path) -> None:
    """Includes htb, and paths to it with bursts of loss, jitter, reordering, and a slow device."""
    done = ccmix(
        "lab", "exec", "--host-root", "--memory", 512, "--", sys.executable, script, *QUEUES
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = iter(done.stdout.splitlines())
    for text, limit in QUEUES.items():
        kind = text.split()[0]
        of_tbf = ["tbf"] if kind == "bfifo" else ["tbf", kind]  # tbf has a FIFO of bytes of its own
        *kinds, found = next(lines).split()
        assert (kinds, found) == (["tbf", *of_tbf], "None" if kind == "bfifo" else str(limit))
        assert next(lines).split() == ["htb", "htb", kind, str(limit)]


def test_what_tc_refuses_is_told_by_its_key(ccmix: Ccmix, script: Path) -> None:
    """tc has its own rule for RED's burst, which depends on min and on the size of packets."""
    done = ccmix(
        "lab",
        "exec",
        "--host-root",
        "--memory",
        512,
        "--",
        sys.executable,
        script,
        "red min 30kb max 90kb burst 1",
    )
    assert done.returncode == 1
    said = (
        "ccmix-bottleneck: [topology t] qdisc: tc refuses 'qdisc add dev east parent 1:1 "
        "handle 2: red limit"
    )
    assert said in done.stdout


EACH_END = f"""
import json, sys
sys.path.insert(0, {str(REPOSITORY / "harness")!r})
from ccmix.conditions.layout import BOTTLENECK, EmulatingDevice, Place, bottleneck_arguments
from ccmix.conditions.tc import run_tc
from ccmix.config.queues import read_queue
from ccmix.hosts import LocalHost
from ccmix.model import Buffer, Sender, Topology

machine = LocalHost()
machine.run(["ip", "link", "add", "d0", "type", "dummy"])
machine.run(["ip", "link", "set", "d0", "up"])
for text in sys.argv[1:]:
    topology = Topology(1e8, (Sender("h1", 0.005),), Buffer(1000, "packet"), 1500, False, queue=read_queue(text))
    device = EmulatingDevice(BOTTLENECK, Place("", "d0"), bottleneck_arguments(topology))
    run_tc(machine, topology, [(device, line) for line in device.lines("add")])
    found = json.loads(machine.run(["tc", "-j", "qdisc", "show", "dev", "d0"]))[-1]
    print(json.dumps([found["kind"], found["options"].get(text.split()[1])]))
    machine.run(["tc", "qdisc", "del", "dev", "d0", "root"])
"""
AVERAGING = (
    "min",
    "max",
    "burst",
    "avpkt",
    "probability",
    "redflowlimit",
)  # each of which depends on the others


@pytest.mark.deep
def test_the_ends_of_each_range_are_what_the_guest_takes_as_they_are(
    ccmix: Ccmix, tmp_path: Path
) -> None:
    file = tmp_path / "ends.py"
    file.write_text(EACH_END)
    ends = {
        f"{kind} {name} {end}": (kind, reader.parse(end))
        for kind, parameters in queues.QUEUES.items()
        for name, reader in parameters.items()
        if isinstance(reader, queues.Range) and (kind == "sfb" or name not in AVERAGING)
        for end in (reader.least, reader.most)
    }
    assert len(ends) > 80
    done = ccmix("lab", "exec", "--host-root", "--memory", 512, "--", sys.executable, file, *ends)
    assert done.returncode == 0, done.stdout[-2000:]
    for (text, (kind, value)), line in zip(ends.items(), done.stdout.splitlines(), strict=True):
        found, shown = json.loads(line)
        assert found == kind
        if isinstance(shown, int | float):
            assert any(
                shown == pytest.approx(value * unit, rel=0.01, abs=2)
                for unit in (1, 1 / 8, 100, 1e3, 1e6, 1e9)
            ), text
