"""Tests which programs a host is sent, and that connections that were lost are forgotten."""

import weakref
from pathlib import Path
from typing import cast

from ccmix.hosts.host import RealHost
from ccmix.run.programs import HostPrograms


class Remote:
    """Stands in for a host that takes programs."""

    is_this_machine = False

    def __init__(self) -> None:
        self.taken: list[str] = []

    def put(self, program: Path, name: str) -> str:
        self.taken.append(name)
        return f"/there/{name}"


def test_programs_are_sent_once_a_connection_and_forgotten_with_it() -> None:
    programs = HostPrograms(Path("/here/iperf3"), Path("/here/sockmon"), Path("/here/rtt"))
    host = Remote()
    for _ in range(2):
        assert programs.iperf3_on(cast(RealHost, host)) == "/there/iperf3"
        assert programs.rtt_on(cast(RealHost, host)) == "/there/ccmix-rtt"
    assert host.taken == ["iperf3", "ccmix-rtt"]
    lost = weakref.ref(host)
    del host
    assert lost() is None
