"""Words of other tools: the message names the key that is meant, with its unit."""

from pathlib import Path

import pytest

from ccmix.config import load
from ccmix.config.keys import ALL_KEYS
from ccmix.config.other_words import MEANT
from ccmix.config.problems import ConfigError

TOPOLOGY = "[topology t]\nrate = 100mbit\n"
HERE = "[e]\ntype = iperf3\ntopology = t\n"
HOSTS = "[e]\ntype = iperf3\ndst = dtn.example.org\n"
MESH = "[e]\ntype = perfSONAR\nsrc = a.example.org\ndst = b.example.org\n"


def problems(tmp_path: Path, text: str) -> str:
    file = tmp_path / "test.ini"
    file.write_text(text)
    with pytest.raises(ConfigError) as raised:
        load(file)
    return str(raised.value)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (f"[topology t]\nbandwidth = 10\n{HERE}", "bandwidth: is an unknown key; write rate = 1gbit (rate of the bott"),
        (f"[topology t]\nBW = 10\n{HERE}", "bw: is an unknown key; write rate = 1gbit"),
        (f"{TOPOLOGY}latency = 10\n{HERE}", "latency: is an unknown key; write delay = "),
        (f"{TOPOLOGY}base_rtt = 10ms\n{HERE}", "base_rtt: is an unknown key; write rtt = 60ms (base RTT, half of it"),
        (f"{TOPOLOGY}queue_size = 10\n{HERE}", "queue_size: is an unknown key; write buffer = 100kb"),
        (
            f"{TOPOLOGY}{HERE}bandwidth = 10\n",
            "write in the [topology NAME] section rate = 1gbit (rate of the bottlene",
        ),
        (f"{TOPOLOGY}{HERE}bw = 10\n", "bw: is an unknown key; write in the [topology NAME] section rate = 1gbit"),
        (f"{TOPOLOGY}{HERE}rtt = 10ms\n", "rtt: belongs to a [topology NAME] section; to vary it here write sweep.rtt"),
        (f"{TOPOLOGY}{HERE}parallel = 4\n", "parallel: is an unknown key; write streams = 8 (parallel TCP flows of"),
        (f"{TOPOLOGY}{HERE}time = 4\n", "time: is an unknown key; write duration = 60s (measured time of a run"),
        (f"{TOPOLOGY}{HERE}congestion = bbr\n", "congestion: is an unknown key; write cca = "),
        (f"{TOPOLOGY}{HERE}sweep.bandwidth = 1, 2\n", "sweeps an unknown key; write sweep.rate = 1gbit"),
        (f"{TOPOLOGY}{HERE}sweep.latency = 1, 2\n", "sweeps an unknown key; write sweep.delay = "),
        (f"{HOSTS}rtt = 10ms\n", "and this entry has none; write netem-lat = 44ms (delay in each direction)"),
        (f"{HOSTS}latency = 10ms\n", "latency: is an unknown key; write netem-lat = 44ms (delay in each direction)"),
        (
            f"{HOSTS}bandwidth = 1\n",
            "bandwidth: is an unknown key; write pacing = 2.4gbit (rate that fq on the sending",
        ),
        (f"{HOSTS}loss = 1%\n", "and this entry has none; write netem-loss = 0.001% (loss in the data direction"),
        (f"{HOSTS}sweep.rtt = 1ms, 2ms\n", "rtt has no effect in this entry: remove the sweep; write sweep.netem-lat"),
        (f"{MESH}parallel = 4\n", "parallel: is an unknown key; write streams = 8"),
        (f"{HOSTS}src-cmd = x\nparallel = 4\n", "; the key is streams, and beside src-cmd the command decides it"),
        (f"[DEFAULT]\nbandwidth = 1\n{TOPOLOGY}{HERE}", "[DEFAULT] bandwidth: is an unknown key; write rate = 1gbit"),
        (f"{TOPOLOGY}{HERE}sterams = 4\n", "sterams: is an unknown key; did you mean 'streams'?"),
    ],
)
def test_the_key_that_is_meant_is_named(text: str, hint: str, tmp_path: Path) -> None:
    assert hint in problems(tmp_path, text)


def test_every_named_key_exists_and_each_word_means_one_thing() -> None:
    words = [word for _, others in MEANT for word in others]
    assert len(words) == len(set(words))
    assert all(key in ALL_KEYS for keys, _ in MEANT for key in keys)
