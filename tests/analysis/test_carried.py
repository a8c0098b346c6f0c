"""What sockets carried between two moments, from counters made by hand."""

import polars as pl
import pytest
from ccmix.analysis.carried import carried


def socket(port: int, *counters: tuple[float, int], cookie: int = 1) -> pl.DataFrame:
    """Samples (time_s, bytes) of one socket, all of whose bytes are acknowledged at once."""
    rows = [
        {"time_s": time_s, "host": "h1", "port": port, "peer_port": 80, "peer_address": "10.0.3.2", "cookie": cookie,
         "cca": "reno", "bytes_acked": count, "bytes_sent": count, "retransmits": 0}
        for time_s, count in counters
    ]  # fmt: skip
    return pl.DataFrame(rows, schema_overrides={"bytes_acked": pl.UInt64, "bytes_sent": pl.UInt64, "cookie": pl.UInt64})


@pytest.mark.parametrize(
    ("counters", "expected"),
    {
        "all the time": ([(0.0, 0), (2.0, 200), (10.0, 1000)], 400),
        "edges between samples": ([(1.0, 0), (3.0, 400), (5.0, 400), (7.0, 800)], 400 - 200 + 200),
        "began within": ([(3.0, 300), (5.0, 500)], 500),
        "too short for a sample": ([(4.0, 123)], 123),
        "ended before": ([(0.0, 0), (1.0, 777)], 0),
        "began afterwards": ([(6.5, 777)], 0),
        "ended within": ([(1.0, 100), (3.0, 300)], 100),
    }.values(),
)
def test_bytes_from_2_s_to_6_s(counters: list[tuple[float, int]], expected: float) -> None:
    [found] = carried(socket(1000, *counters), 2.0, 6.0).to_dicts()
    assert (found["acked"], found["sent"]) == (expected, expected)


def test_a_port_that_comes_again_is_another_socket() -> None:
    both = pl.concat([socket(1000, (3.0, 500)), socket(1000, (5.0, 300), cookie=2)])
    assert carried(both, 2.0, 6.0)["acked"].sum() == 800
    assert carried(both.drop("cookie"), 2.0, 6.0)["acked"].sum() == 300, "without cookies nothing tells"
