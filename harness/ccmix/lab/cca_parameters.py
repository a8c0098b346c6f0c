"""Lists the module parameters of bbr2 and bbr3 in the lab's own kernel, whose file does not tell them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Parameter:
    """Describes the values that a parameter takes: whole numbers from `least` to `most`, so many as it has elements."""

    least: int
    most: int
    elements: int = 1
    read_only: bool = False


_MOST: Final = 2**32 - 1
# cca/core/bbr_constants.h
_SETTINGS: Final = {
    "startup_pacing_gain": (256, 2_048),
    "drain_gain": (16, 256),
    "startup_cwnd_gain": (256, 2_048),
    "cwnd_gain": (256, 2_048),
    "up_cwnd_gain": (256, 2_048),
    "probe_rtt_cwnd_gain": (16, 256),
    "cwnd_min_target": (2, 64),
    "full_bw_thresh": (257, 1_024),
    "full_bw_cnt": (1, 100),
    "full_loss_cnt": (1, 1_000),
    "drain_max_rounds": (0, 1_000),
    "bw_probe_base_us": (1000, 600_000_000),
    "bw_probe_rand_us": (1, 600_000_000),
    "bw_probe_max_rounds": (1, 10_000),
    "bw_probe_rand_rounds": (1, 1_000),
    "precautionary_probe": (0, 1),
    "inflight_headroom": (0, 256),
    "cruise_quanta": (0, 64),
    "cruise_prior_inflight": (0, 1),
    "pacing_in_flight": (0, 1),
    "loss_thresh": (1, 255),
    "beta": (1, 255),
    "packet_conservation": (0, 1),
    "min_rtt_win_sec": (1, 3_600),
    "probe_rtt_win_ms": (1, 3_600_000),
    "refresh_equal_rtt": (0, 1),
    "probe_rtt_mode_ms": (0, 60_000),
    "extra_acked_gain": (0, 1_024),
    "extra_acked_win_rtts": (2, 255),
    "pacing_margin_percent": (0, 50),
    "min_tso_rate": (0, 2_000_000_000),
    "ecn_enable": (0, 1),
    "ecn_alpha_gain": (1, 256),
    "ecn_factor": (0, 256),
    "ecn_thresh": (1, 256),
}
# cca/module/tcp_bbr_parameters.h
_BOTH: Final = {name: Parameter(least, most) for name, (least, most) in _SETTINGS.items()} | {
    "pacing_gain": Parameter(16, 2048, elements=4),
    "max_sockets": Parameter(0, _MOST),
    "sockets": Parameter(0, _MOST, read_only=True),
    "fallbacks": Parameter(0, _MOST, read_only=True),
}
PARAMETERS: Final[Mapping[str, Mapping[str, Parameter]]] = {
    "tcp_bbr2": _BOTH | {"draft": Parameter(0, 1)},
    "tcp_bbr3": _BOTH,
}
"""The parameters by the name of the module below /sys/module."""
