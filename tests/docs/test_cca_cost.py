"""Tests the results that bench/cca.py computes from the kernel's counts."""

from pathlib import Path

from support.commands import REPOSITORY, loaded

SCRIPT = loaded(REPOSITORY / "bench" / "cca.py")
START = """\
overhead 40
bbr2 cong_control 144 1
"""
END = """\
overhead 40
bbr cong_control 240 7
bbr2 cong_control 144 2
bbr2 cong_control 340 3
bbr2 cong_control 32760 5
bbr2 min_tso_segs 32 2
bbr2 min_tso_segs 60 8
"""


def test_cycles_are_those_between_two_readings(tmp_path: Path) -> None:
    """The overhead is subtracted from each call, but never more than the call; the longest calls
    are left out.
    """
    for name, text in (("start", START), ("end", END)):
        (tmp_path / name).write_text(text)
    _, before = SCRIPT.read_counts(tmp_path / "start")
    overhead, after = SCRIPT.read_counts(tmp_path / "end")
    hooks = 104 + 3 * 300 + 8 * 20
    assert SCRIPT.cost("bbr2", after - before, overhead) == SCRIPT.Cost(
        4, (104 + 3 * 300) / 4, hooks / 4
    )


def test_its_longest_calls_are_the_last_class_of_the_patch() -> None:
    text = SCRIPT.PATCH.read_text()
    width, classes = (
        int(text.split(f"#define {name} ")[1].split()[0]) for name in ("WIDTH", "CLASSES")
    )
    assert width * (classes - 1) == SCRIPT.LONGEST_CYCLES
