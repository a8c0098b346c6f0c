"""Profile files: what is read, what is told of mistakes, and that any text, also a hostile one, is one or the other."""

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
    assert found["WAN"] == Profile("enp0s3", Netem(pytest.approx(0.08), Loss("random", (0.001 / 100,)), 10000, 1e9))
    assert found["lan"] == Profile("eth200", Netem(0.003, Loss("random", (0.001,))))
    assert found["10"] == found["empty"] == Profile("eth1", Netem())


BOMB = (
    "a: &a [x,x,x,x,x,x,x,x,x]\n"
    + "".join(f"{new}: &{new} [{','.join(['*' + old] * 9)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True))
    + "profiles: {WAN: {interface: *i}}\n"
)


def tells(error: ConfigError) -> None:
    assert error.problems
    assert len(str(error).splitlines()) == len(error.problems)


MISTAKES: dict[str, tuple[str | bytes, int | None, str]] = {
    "empty": ("", None, "the file is no mapping: write profiles:"),
    "a word": ("profiles", 1, "the file is no mapping"),
    "a list": ("- a\n- b\n", 1, "the file is no mapping"),
    "no profiles": ("{}", 1, "has no profiles"),
    "another top": ("profile:\n  WAN: {interface: a}\n", 1, "'profile' is an unknown key; known is profiles"),
    "profiles a list": ("profiles: [a]\n", 1, "profiles is no mapping"),
    "profiles null": ("profiles:\n", 1, "profiles is no mapping"),
    "a profile a word": ("profiles:\n  WAN: fast\n", 2, "profile 'WAN' is no mapping"),
    "unknown key": ("profiles:\n  W:\n    interface: a\n    latnecy: 1\n", 4, "did you mean 'latency'?"),
    "a key twice": ("profiles:\n  W:\n    interface: a\n    interface: b\n", 4, "'interface' stands twice"),
    "a profile twice": ("profiles:\n  W: {interface: a}\n  W: {interface: b}\n", 3, "'W' stands twice"),
    "no interface": ("profiles:\n  W: {latency: 1ms}\n", 2, "has no interface"),
    "wrong interface": ("profiles:\n  W: {interface: a;b}\n", 2, "interface: 'a;b' has"),
    "wrong latency": ("profiles:\n  W: {interface: a, latency: soon}\n", 2, "latency: 'soon' is not a number"),
    "wrong loss": ("profiles:\n  W: {interface: a, loss: 101}\n", 2, "loss: '101' is more than 100%"),
    "wrong limit": ("profiles:\n  W: {interface: a, limit: 1.5}\n", 2, "limit: '1.5' is not a whole number"),
    "wrong rate": ("profiles:\n  W: {interface: a, rate: 5}\n", 2, "rate: '5' has no unit"),
    "a list as value": ("profiles:\n  W: {interface: [a]}\n", 2, "interface is a list or mapping"),
    "a list as key": ("profiles:\n  ? [a]\n  : {interface: a}\n", 2, "a key of profiles is no text"),
    "truncated": ("profiles:\n  WAN: {interface: a", 2, "is not YAML: expected ',' or '}'"),
    "tabs": ("profiles:\n\tWAN:\n", 2, "is not YAML: found character '\\t'"),
    "two documents": ("profiles: {}\n---\nprofiles: {}\n", 2, "but found another document"),
    "a character": ("profiles: \x01", None, "has a character that YAML doesn't allow"),
    "not UTF-8": (b"profiles: \xff", 1, "byte 0xff is not UTF-8"),
    "a bomb": (BOMB, 2, "is not YAML: aliases (*) are not taken"),
    "an alias": ("profiles:\n  W: &w {interface: a}\n  V: *w\n", 3, "aliases"),
    "a merge": ("profiles:\n  W: &w {interface: a}\n  V: {<<: *w}\n", 3, "aliases"),
    "too deep": ("[" * 50_000, None, "too deep"),
    "too long": ("#" * 100_001, None, "is longer than 100000 bytes"),
}


@pytest.mark.parametrize(("text", "line", "sentence"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_told_with_its_line(tmp_path: Path, text: str | bytes, line: int | None, sentence: str) -> None:
    began_s = time.process_time()
    with pytest.raises(ConfigError) as caught:
        profiles(tmp_path, text)
    [problem] = caught.value.problems
    assert problem.line == line
    assert sentence in str(problem)
    assert len(str(problem).splitlines()) == 1
    assert time.process_time() - began_s < 10


def test_no_object_is_made_from_a_tag(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    text = f"profiles:\n  W: {{interface: !!python/object/apply:os.system ['touch {marker}']}}\n"
    with pytest.raises(ConfigError, match="interface is a list or mapping"):
        profiles(tmp_path, text)
    assert not marker.exists()


PARTS = st.sampled_from(
    ["profiles:", "WAN:", "interface:", "latency:", "loss:", "eth0", "80ms", "0.1%", "\n", "\n  ", "\n    ", "{", "}",
     "[", "]", ",", "&a ", "*a", "<<: ", "!!int ", "!!timestamp ", "? ", "- ", "'", '"', "|", ">", "#", "%", "---", "~",
     "9" * 5000, "\t", "\x85", "\ufeff", "ü"]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode(errors="replace"))
       | st.lists(PARTS, max_size=25).map(lambda parts: ("profiles:\n  WAN: " + "".join(parts)).encode()))  # fmt: skip
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
