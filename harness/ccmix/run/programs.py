"""Finds ccmix's own programs on a host: on this machine as built, elsewhere sent there."""

from pathlib import Path
from weakref import WeakKeyDictionary

from ccmix.conditions.bpf_cca import CcaProgram
from ccmix.hosts import CommandError
from ccmix.hosts.errors import HostLost
from ccmix.hosts.host import RealHost
from ccmix.probes import sockmon


class ProbeRefused(Exception):
    """Reports that a host can't run the probe; the message says why."""


class HostPrograms:
    """Sends each program once a connection, into the folder that goes with the agent."""

    def __init__(self, iperf3: Path | None, sockmon: Path, rtt: Path, cca: Path | None = None) -> None:
        """Takes the paths here; `iperf3` may be None if every entry has a src-cmd, `cca` if none has cca-load."""
        self._iperf3 = iperf3
        self._sockmon = sockmon
        self._rtt = rtt
        self._cca = cca
        # of a connection that was lost, nothing is kept
        self._sent: WeakKeyDictionary[RealHost, dict[Path, str]] = WeakKeyDictionary()
        self._refused: WeakKeyDictionary[RealHost, str | None] = WeakKeyDictionary()

    def iperf3_on(self, host: RealHost) -> str:
        """Returns the path of the patched iperf3. Raises CommandError."""
        assert self._iperf3
        return self._on(host, self._iperf3, "iperf3")

    def sockmon_on(self, host: RealHost) -> str:
        """Returns the path of the probe, which was tried there. Raises ProbeRefused and HostLost."""
        if host not in self._refused:
            self._refused[host] = self._refusal(host)
        if reason := self._refused[host]:
            raise ProbeRefused(reason)
        return self._on(host, self._sockmon, "ccmix-sockmon")

    def rtt_on(self, host: RealHost) -> str:
        """Returns the path of ccmix-rtt. Raises CommandError."""
        return self._on(host, self._rtt, "ccmix-rtt")

    def cca_on(self, host: RealHost) -> CcaProgram | None:
        """Returns ccmix-cca there; None without one here. Raises CommandError."""
        return CcaProgram(host, self._on(host, self._cca, "ccmix-cca")) if self._cca else None

    def _refusal(self, host: RealHost) -> str | None:
        try:
            binary = self._on(host, self._sockmon, "ccmix-sockmon")
        except HostLost:
            raise
        except CommandError as error:
            return error.reason
        return sockmon.refusal(host, [binary, "--sockets", "--counters", "--cpu"])

    def _on(self, host: RealHost, program: Path, name: str) -> str:
        if host.is_this_machine:
            return str(program)
        sent = self._sent.setdefault(host, {})
        if program not in sent:
            sent[program] = host.put(program, name)
        return sent[program]
