"""Tests how nested data become names and values."""

from ccmix.flattening import flattened


def test_nested_data_as_names_and_values() -> None:
    data = {
        "sysctls": {"net.tcp_rmem": "4096\t131072"},
        "cpus": [1, 2],
        "nics": [{"name": "eth0", "up": True}],
        "no": {},
    }
    assert flattened(data) == [
        ("sysctls net.tcp_rmem", "4096 131072"),
        ("cpus", "1, 2"),
        ("nics 1 name", "eth0"),
        ("nics 1 up", "yes"),
        ("no", "–"),
    ]
