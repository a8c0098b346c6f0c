"""Tests profile files: the profiles that are read, the messages about mistakes, and that any text,
even a hostile one, gives one or the other.
"""

import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ccmix.config import ConfigError
from ccmix.config.profiles import Profile, read_profiles
from ccmix.model import Loss, Netem

RIGHT = """\
# comment
profiles:
  WAN:
    interface: enp0s3
    latency: 80ms
    loss: 0.001%
    limit: 10000
    rate: 1Gbit
  lan: {interface: eth200, latency: 3, loss: "0.1"}
  '10': {interface: eth1}
  empty:
    interface: eth1
    latency:
"""


def profiles(folder: Path, text: str | bytes) -> dict[str, Profile]:
    file = folder / "profiles.yml"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_profiles(file)


def test_profiles(tmp_path: Path) -> None:
    found = profiles(tmp_path, RIGHT)
    assert list(found) == ["WAN", "lan", "10", "empty"]
    assert found["WAN"] == Profile(
        "enp0s3", Netem(pytest.approx(0.08), Loss("random", (0.001 / 100,)), 10000, 1e9)
    )
    assert found["lan"] == Profile("eth200", Netem(0.003, Loss("random", (0.001,))))
    assert found["10"] == found["empty"] == Profile("eth1", Netem())


def tells(error: ConfigError) -> None:
    assert error.problems
    assert len(str(error).splitlines()) == len(error.problems)


def test_no_object_is_made_from_a_tag(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    text = f"profiles:\n  W: {{interface: !!python/object/apply:os.system ['touch {marker}']}}\n"
    with pytest.raises(ConfigError, match="interface is a list or mapping"):
        profiles(tmp_path, text)
    assert not marker.exists()


PARTS = st.sampled_from(
    [
        "profiles:",
        "WAN:",
        "interface:",
        "latency:",
        "loss:",
        "eth0",
        "80ms",
        "0.1%",
        "\n",
        "\n  ",
        "\n    ",
        "{",
        "}",
        "[",
        "]",
        ",",
        "&a ",
        "*a",
        "<<: ",
        "!!int ",
        "!!timestamp ",
        "? ",
        "- ",
        "'",
        '"',
        "|",
        ">",
        "#",
        "%",
        "---",
        "~",
        "9" * 5000,
        "\t",
        "\x85",
        "\ufeff",
        "ü",
    ]
)


@settings(max_examples=300, deadline=None)
@given(
    st.binary(max_size=200)
    | st.text(max_size=200).map(lambda text: text.encode(errors="replace"))
    | st.lists(PARTS, max_size=25).map(
        lambda parts: ("profiles:\n  WAN: " + "".join(parts)).encode()
    )
)
@example(RIGHT.encode())
@example(b"profiles: " + b"{a: " * 20_000)
@example(b"? " * 40_000)
@example(b"- " * 40_000)
def test_any_bytes(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        began_s = time.process_time()
        try:
            found = profiles(Path(folder), content)
        except ConfigError as error:
            tells(error)
        else:
            assert all(isinstance(profile, Profile) for profile in found.values())
        assert time.process_time() - began_s < 20


@pytest.mark.parametrize("end", range(0, len(RIGHT), 7))
def test_a_file_that_was_cut(tmp_path: Path, end: int) -> None:
    try:
        profiles(tmp_path, RIGHT[:end])
    except ConfigError as error:
        tells(error)
