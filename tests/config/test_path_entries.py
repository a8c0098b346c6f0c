"""Tests entries of type path: the keys that they need or refuse, and their defaults."""

from pathlib import Path

from ccmix.config import Condition, load
from ccmix.model import PathSource, RttProbe, UdpSource

TOPOLOGY = "[topology p]\nrate = 50mbit\ndelay = 10ms\n"
ENTRY = "[entry]\ntype = path\ntopology = p\nload-cap = 100mbit\n"
BETWEEN_HOSTS = "[entry]\ntype = path\ndst = dtn.example.org\nload-cap = 100mbit\n"


def read(text: str) -> Condition:
    return load(Path("a.ini"), text).entries[0].conditions[0]


def test_an_entry_measures_for_90_s_with_a_probe() -> None:
    traffic = read(TOPOLOGY + ENTRY).traffic
    assert traffic.sources == (PathSource("path", "h1", 100e6),)
    assert (traffic.duration_s, traffic.omit_s, traffic.interval_s) == (90, 0, 0.1)
    assert traffic.rtt_probe == RttProbe(97)


def test_between_hosts_it_is_the_only_source() -> None:
    assert read(BETWEEN_HOSTS).traffic.sources == (PathSource("", "src", 100e6),)


def test_what_the_file_says_counts() -> None:
    traffic = read(
        TOPOLOGY + ENTRY + "duration = 60s\ninterval = 50ms\nrtt-probe = tcp:22@10\n"
    ).traffic
    assert (traffic.duration_s, traffic.interval_s, traffic.rtt_probe) == (
        60,
        0.05,
        RttProbe(10, 22),
    )


def test_other_sources_are_cross_traffic() -> None:
    sources = read(
        TOPOLOGY + "host.h2 = delay 1ms\nhost.h1 = delay 1ms\n" + ENTRY + "flows.x = h2 udp@1M\n"
    ).traffic.sources
    assert [type(source) for source in sources] == [PathSource, UdpSource]


def test_values_of_default_that_its_steps_decide_do_not_count() -> None:
    traffic = read("[DEFAULT]\ncca = bbr\nomit = 3s\nstreams = 4\n" + TOPOLOGY + ENTRY).traffic
    assert traffic.omit_s == 0
    assert traffic.ccas == frozenset()
