"""Tests how large a receive buffer makes a window."""

from dataclasses import replace

import pytest

from ccmix.conditions.sysctl import TCP_ECN, TCP_RMEM, of_ends, tcp_rmem
from ccmix.model import Buffer
from support.model import one_sender

PLAIN = one_sender(1e8, 0.005, None, Buffer(100, "packet"), 1500, offloads=False)


@pytest.mark.parametrize(
    ("mtu_bytes", "offloads", "window_bytes", "sysctl"),
    [
        (1500, False, 1_620_000, "4096 131072 2560000"),  # 1448 of 2280 bytes are 162 of 256
        (9000, False, 2_340_000, "4096 131072 2560000"),  # 8948 of 9780
        (1500, True, 1_980_000, "4096 131072 2560000"),  # 2896 of 3728
        (
            576,
            False,
            1_280_000,
            "4096 131072 2560000",
        ),  # half, as no packet has more than 536 bytes
        (1500, False, 65_536, "4096 103564 103564"),
    ],
)
def test_a_window_is_a_share_of_the_buffer(
    mtu_bytes: int, offloads: bool, window_bytes: int, sysctl: str
) -> None:
    path = replace(PLAIN, mtu_bytes=mtu_bytes, offloads=offloads)
    assert tcp_rmem(path, window_bytes) == sysctl
    assert tcp_rmem(path, None) == "4096 131072 536870912"


def test_the_buffer_is_read_back_where_a_window_is_given() -> None:
    assert of_ends(PLAIN) == (TCP_ECN,)
    assert of_ends(
        replace(PLAIN, senders=(replace(PLAIN.senders[0], receiver_window_bytes=10**6),))
    ) == (
        TCP_ECN,
        TCP_RMEM,
    )
