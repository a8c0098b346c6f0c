"""Tests how ccmix-sockmon reads the file of BBR's states, on texts that a test wrote, with the
sanitizers on.
"""

import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ccmix.probes.stream.format import BBR_PHASES
from support.commands import REPOSITORY

HEADER = "cookie phase cycle bw_lo_bps inflight_hi_packets inflight_lo_packets\n"
INFO_HEADER = HEADER.rstrip() + " bw_bytes_per_s min_rtt_us pacing_gain cwnd_gain\n"
GOOD = "77 startup 0 - - -\n"
NO_U32, NO_U64 = 2**32 - 1, 2**64 - 1

State = tuple[int, ...]


class Parser:
    """Passes texts to bbr_parse() of probes/sockmon/bbr_file.c; a process that crashes gives
    no answer.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def __call__(self, text: bytes) -> tuple[list[State], int]:
        """Returns the states, and the number of the first line that is not understood."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(struct.pack("=I", len(text)) + text)
        self._process.stdin.flush()
        states: list[State] = []
        for line in iter(self._process.stdout.readline, b""):
            if line.startswith(b"= "):
                return states, int(line[2:])
            states.append(tuple(map(int, line.split())))
        raise AssertionError(f"no answer to {text!r}")


@pytest.fixture(scope="module")
def binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    probes, here = REPOSITORY / "probes", Path(__file__).parent
    binary = tmp_path_factory.mktemp("bbr") / "bbr_lines"
    sources = [
        here / "bbr_lines.c",
        *(probes / "sockmon" / f"{name}.c" for name in ("bbr_file", "bpf", "netns", "text")),
    ]
    flags = [
        "-std=c11",
        "-D_GNU_SOURCE",
        "-g",
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=all",
    ]
    include = [f"-I{probes / 'sockmon'}", f"-I{probes / 'common'}"]
    subprocess.run(
        ["gcc", *flags, *include, "-o", binary, *sources, *(probes / "common").glob("*.c"), "-lm"],
        check=True,
    )
    return binary


@pytest.fixture(scope="module")
def parse(binary: Path) -> Iterator[Parser]:
    with subprocess.Popen([binary], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield Parser(process)
        assert process.stdin
        process.stdin.close()
        assert process.wait(60) == 0


def test_every_phase(parse: Parser) -> None:
    lines = [
        f"{number} {phase} {10 * number} 8000 20 10\n" for number, phase in enumerate(BBR_PHASES)
    ]
    states = [(number, number, 10 * number, 8000, 20, 10) for number in range(len(BBR_PHASES))]
    assert parse((HEADER + "".join(lines)).encode()) == (states, 0)


@pytest.mark.parametrize(
    ("line", "state"),
    [
        (GOOD, (77, 0, 0, NO_U64, NO_U32, NO_U32)),
        (
            f"{NO_U64} drain {NO_U32} {NO_U64 - 1} {NO_U32 - 1} 0\n",
            (NO_U64, 1, NO_U32, NO_U64 - 1, NO_U32 - 1, 0),
        ),
        ("5 probe_rtt 1 - 7 - of a later version\n", (5, 6, 1, NO_U64, 7, NO_U32)),
    ],
)
def test_bounds_and_extremes(line: str, state: State, parse: Parser) -> None:
    assert parse((HEADER + line).encode()) == ([state], 0)


@pytest.mark.parametrize(
    "line",
    [
        "\n",
        " \n",
        "77\n",
        "77 startup\n",
        "77 startup 0 - -\n",
        "77 startup 0 - - \n",
        " 77 startup 0 - - -\n",
        "77  startup 0 - - -\n",
        "77\tstartup 0 - - -\n",
        "-77 startup 0 - - -\n",
        "x startup 0 - - -\n",
        "77 start 0 - - -\n",
        "77 startups 0 - - -\n",
        "77  0 - - -\n",
        "77 STARTUP 0 - - -\n",
        "77 startup - - - -\n",
        "77 startup 0 -- - -\n",
        "77 startup 0 -1 - -\n",
        "77 startup 0 1.5 - -\n",
        "77 startup 0 - 0x10 -\n",
        "77 startup 0 - - -\r\n",
        "77 startup 0 - - -x\n",
        f"{NO_U64 + 1} startup 0 - - -\n",
        f"77 startup {NO_U32 + 1} - - -\n",
        f"77 startup 0 {NO_U64} - -\n",
        f"77 startup 0 - {NO_U32} -\n",
        f"77 startup 0 - - {NO_U32}\n",
        f"{'9' * 500} startup 0 - - -\n",
        f"77 {'startup' * 500} 0 - - -\n",
        "77 startup 0 - - - \0\n",
        "\x7f\xff\n",
        "77 startup 0 - - -",
    ],
)
def test_a_line_that_the_kernel_does_not_write(line: str, parse: Parser) -> None:
    """It is left out; all lines before it count, and so do those after it, unless the text
    ends with it.
    """
    good = (77, 0, 0, NO_U64, NO_U32, NO_U32)
    ends = "\0" in line or not line.endswith("\n")
    assert parse((HEADER + GOOD + line + ("" if ends else GOOD)).encode("latin-1")) == (
        [good] * (1 if ends else 2),
        3,
    )


@pytest.mark.parametrize(
    "header",
    [
        "",
        "\n",
        "cookie phase\n",
        HEADER.rstrip(),
        HEADER.replace("bps", "kbps"),
        HEADER.upper(),
        GOOD,
    ],
)
def test_below_another_header_nothing_is_understood(header: str, parse: Parser) -> None:
    assert parse((header + GOOD).encode()) == ([], 1)


def test_a_header_of_a_later_version(parse: Parser) -> None:
    assert parse((HEADER.rstrip() + " more\n" + GOOD).encode()) == (
        [(77, 0, 0, NO_U64, NO_U32, NO_U32)],
        0,
    )


@pytest.mark.parametrize(
    ("more", "info"),
    [
        ("125000 44000 320 576", (125000, 0, 44000, 320, 576)),
        (f"{NO_U64} - 0 {NO_U32}", (NO_U32, NO_U32, NO_U32, 0, NO_U32)),
        ("4294967296 0 0 0 of a later version", (0, 1, 0, 0, 0)),
    ],
)
def test_the_members_of_tcp_bbr_info(more: str, info: State, parse: Parser) -> None:
    """An iterator of BPF has them, and the header says so."""
    line = f"{GOOD.rstrip()} {more}\n"
    state = (77, 0, 0, NO_U64, NO_U32, NO_U32)
    assert parse((INFO_HEADER + line).encode()) == ([(*state, *info)], 0)
    assert parse((HEADER + line).encode()) == ([state], 0)


@pytest.mark.parametrize(
    "more",
    [
        "",
        " 1",
        " 1 2 3",
        " 1 2 3 ",
        " - 2 3 4",
        f" {NO_U64 + 1} 2 3 4",
        f" 1 {NO_U32} 3 4",
        " 1 2 1.25 4",
        " 1 2 3 4x",
    ],
)
def test_a_line_without_the_members_that_the_header_has(more: str, parse: Parser) -> None:
    assert parse((INFO_HEADER + GOOD.rstrip() + more + "\n").encode()) == ([], 2)


def test_no_sockets(parse: Parser) -> None:
    assert parse(HEADER.encode()) == ([], 0)


def test_an_absent_file_is_reported_once(binary: Path) -> None:
    done = subprocess.run(
        [binary, "bbr0"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=True
    )
    problem = "/proc/self/net/tcp_bbr0: No such file or directory; phases of bbr0 are not recorded"
    assert done.stdout.splitlines() == [problem, "-"]


WORDS = st.sampled_from(
    [
        "-",
        " ",
        "\n",
        "\0",
        "77",
        "9" * 19,
        "startup",
        "probe_bw_",
        "up",
        HEADER,
        INFO_HEADER,
        GOOD,
        "\xff",
    ]
)


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text(max_size=300), st.lists(WORDS, max_size=40).map("".join)), st.booleans())
def test_any_text_has_an_answer(parse: Parser, text: str, with_header: bool) -> None:
    data = ((HEADER if with_header else "") + text).encode()
    states, wrong = parse(data)
    assert 0 <= wrong <= data.count(b"\n") + 1
    assert len(states) <= data.count(b"\n")
    assert all(phase in range(len(BBR_PHASES)) for _, phase, *_ in states)
