"""Reads a policer: `policer = 500mbit burst 1mb`."""

from dataclasses import dataclass

from ccmix.config.named_values import settings
from ccmix.config.problems import quoted
from ccmix.config.senders import read_path_rate
from ccmix.config.values import BYTES, Kind, units
from ccmix.model import ETHERNET_HEADER_BYTES, Policer
from ccmix.model.emulated import BUCKET_PACKETS, SUPER_PACKET_BYTES
from ccmix.units import RATE_BPS, SIZE_BYTES

DEFAULT_BURST_S, LEAST_BURST_PACKETS = 0.005, 10


@dataclass(frozen=True)
class AskedPolicer:
    """Holds a policer as the file has it. `burst_bytes` is None where it is not given."""

    rate_bps: float
    burst_bytes: int | None

    def on_link(self, link_bps: float, mtu_bytes: int, offloads: bool) -> Policer:
        """Returns the policer before a link of `link_bps`. Without a burst it has the one that a vendor recommends.

        That is what the link carries in 5 ms, and ten packets at least (Juniper, "Determining Proper Burst Size for
        Traffic Policers"). With offloads it holds two super-packets at least, since a policer never takes one apart.
        """
        if self.burst_bytes is not None:
            return Policer(self.rate_bps, self.burst_bytes)
        packets_bytes = LEAST_BURST_PACKETS * (mtu_bytes + ETHERNET_HEADER_BYTES)
        joined_bytes = BUCKET_PACKETS * SUPER_PACKET_BYTES if offloads else 0
        return Policer(self.rate_bps, max(round(link_bps * DEFAULT_BURST_S / 8), packets_bytes, joined_bytes))


def read_policer(text: str) -> AskedPolicer | None:
    """Reads '500mbit', '500mbit burst 1mb' or 'none'. Raises ValueError."""
    if text.lower() == "none":
        return None
    rate, *words = text.split() or [""]
    burst = settings(words, ("burst",)).get("burst")
    try:
        return AskedPolicer(read_path_rate(rate), None if burst is None else BYTES.read(burst))
    except ValueError as error:
        what, value = ("rate", rate) if burst is None else ("burst", burst)
        raise ValueError(f"has for {what} {quoted(value)}, which {error}") from None


POLICER = Kind("rate, then burst and a size; or none", f"{units(RATE_BPS)}; {units(SIZE_BYTES)}", read_policer)
