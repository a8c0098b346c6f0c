"""Figures 2 to 6 of Datta and Fund 2023: heat maps over bandwidth and RTT, and the same cells against the buffer."""

from ccmix.charts.sweep import SweptAxis
from ccmix.papers.experiment import ALTERNATIVES, Quantity
from ccmix.papers.figure import BufferPanel, Figure, MapRow, Maps, OverBuffer

RATES = {"10mbit": 10, "20mbit": 20, "50mbit": 50, "100mbit": 100, "250mbit": 250, "500mbit": 500, "750mbit": 750,
         "1gbit": 1000}  # fmt: skip
RTTS = {"5ms": 5, "10ms": 10, "25ms": 25, "50ms": 50, "75ms": 75, "100ms": 100, "150ms": 150, "200ms": 200}
RATE = SweptAxis("rate", "bandwidth (Mbit/s)", {text: float(value) for text, value in RATES.items()}, "log")
RTT = SweptAxis("ack-delay", "RTT (ms)", {text: float(value) for text, value in RTTS.items()}, "log")
NEW_IN = {"4.15": "bbr", "5.13": "bbr2"}  # the CCA beside CUBIC, by the testbed's kernel
SHALLOW = ALTERNATIVES.join(
    ("shallow", "shallow-again", "shallow-largest")
)  # the last two have more runs of some cells
BUFFERS = {"100 KB": SHALLOW, "10 MB": "deep"}


def _series(buffer: str, kernel: str) -> str:
    return f"{buffer}, kernel {kernel}"


def _gains(name: str, buffer: str, entry: str) -> Maps:
    rows = tuple(MapRow(_series(buffer, kernel), entry, cca, "cubic") for kernel, cca in NEW_IN.items())
    return Maps(name, f"goodput gain over CUBIC with a buffer of {buffer}", "goodput_bps", RATE, RTT, rows)


def _of_each(name: str, what: str, quantity: Quantity, buffer: str, entry: str) -> Maps:
    rows = tuple(
        MapRow(_series(buffer, kernel), entry, cca) for kernel, new in NEW_IN.items() for cca in ("cubic", new)
    )
    return Maps(name, f"{what} with a buffer of {buffer}", quantity, RATE, RTT, rows)


UTILISATION, RETRANSMITS = "utilisation of the link", "retransmitted segments in 60 s"
FIGURES: tuple[Figure, ...] = (
    _gains("Figure 2 (a)", "100 KB", SHALLOW),
    _of_each("Figure 2 (b)", UTILISATION, "utilisation", "100 KB", SHALLOW),
    _of_each("Figure 3", RETRANSMITS, "retransmits", "100 KB", SHALLOW),
    _gains("Figure 4 (a)", "10 MB", "deep"),
    _of_each("Figure 4 (b)", UTILISATION, "utilisation", "10 MB", "deep"),
    _of_each("Figure 5", RETRANSMITS, "retransmits", "10 MB", "deep"),
    OverBuffer(
        "Figure 6",
        "goodput gain, utilisation and retransmissions against the buffer over the BDP",
        RATE.key,
        RTT.key,
        tuple(
            BufferPanel(
                f"{cca} and cubic, published of kernel {kernel}",
                cca,
                "cubic",
                tuple((_series(buffer, kernel), entry) for buffer, entry in BUFFERS.items()),
            )
            for kernel, cca in NEW_IN.items()
        ),
        duration_s=60.0,
        segment_bytes=1448,
        note="The paper's figure 6 prints the ratio of buffer and BDP cell by cell; here the cells of both buffers "
        "stand over that ratio.",
    ),
    _of_each("Figure 2 (b) with fq at the sender", UTILISATION, "utilisation", "100 KB", "shallow-fq"),
    _of_each("Figure 4 (b) with fq at the sender", UTILISATION, "utilisation", "10 MB", "deep-fq"),
)
