"""Files with arbitrary content: the outcome is an archive that reports can read, or one clear line."""

import contextlib
import copy
import io
import json
import math
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ccmix.analysis.results import load_results
from ccmix.archive import ArchiveError, Campaign
from ccmix.cli.import_ import MOST_NAMED, ImportOptions, import_into_archive
from ccmix.failures import Failure
from ccmix.importing.sources import KINDS
from support.commands import REPOSITORY
from support.imports import DATA, Import, Outputs, read_json, written

pytestmark = pytest.mark.slow

OFTEN = settings(
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
LONG = settings(OFTEN, max_examples=1500)
WRONG = [
    None,
    True,
    -1,
    -1e308,
    1e308,
    10**40,
    float("nan"),
    float("inf"),
    "",
    "x" * 5000,
    "NaN",
    "\ud800",
    "../..",
    [],
    {},
    [[]],
    0,
    0.5,
    2**63,
]


def outcome(content: bytes, kind: str | None = None, name: str = "file") -> str | None:
    """Imports a file. Returns the message if nothing was imported; otherwise checks the archive and
    returns None.
    """
    with tempfile.TemporaryDirectory() as place:
        file, outdir = Path(place, name), Path(place, "out")
        file.write_bytes(content)
        said = io.StringIO()
        try:
            with contextlib.redirect_stderr(said):
                import_into_archive(ImportOptions((file,), outdir, kind))
        except (ArchiveError, Failure) as error:
            assert not outdir.exists()
            refusal = str(error)
            assert 0 < len(refusal) < 2000
            assert "\n" not in refusal
            lines = [*said.getvalue().splitlines(), refusal]
            assert all(0 < len(line) < 2000 for line in lines)
            assert len(lines) <= MOST_NAMED + 2
            return "\n".join(lines)
        for finished, folder in Campaign.load(outdir).finished():
            assert folder.resolve().is_relative_to(outdir.resolve())
            assert finished.verdict.status in ("unknown", "limited")
            assert finished.run.iteration >= 1
            for path, number in numbers(asdict(finished.metrics)):
                assert math.isfinite(number), path
                assert number >= 0 or path.endswith("overshoot"), path
            json.dumps(asdict(finished), allow_nan=False)
        assert load_results([outdir]).rows
        return None


def numbers(value: Any, path: str = "") -> Iterator[tuple[str, float]]:
    if isinstance(value, dict):
        for name, below in value.items():
            yield from numbers(below, f"{path}.{name}")
    elif isinstance(value, list):
        for below in value:
            yield from numbers(below, path)
    elif isinstance(value, int | float):
        yield path, value


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yields the path of every value in a JSON document."""
    below = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, one in below:
        yield (*path, key)
        yield from places(one, (*path, key))


def changed(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    """Returns the document with another value at this path, or without the value."""
    made = copy.deepcopy(document)
    at = made
    for key in path[:-1]:
        at = at[key]
    if value is LEFT_OUT:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return made


LEFT_OUT = object()


@pytest.fixture(scope="module")
def documents(iperf3_outputs: dict[str, Outputs]) -> list[Any]:
    """Documents of real tests, with few intervals."""
    found = [read_json(iperf3_outputs[name].client) for name in ("tcp", "bidir", "udp", "mix")]
    found.append(read_json(iperf3_outputs["tcp"].server))
    pscheduler = json.loads(
        (REPOSITORY / "tests" / "data" / "pscheduler" / "iperf3mix" / "forward.json").read_text()
    )
    bare = {"test": pscheduler["test"], "run": {"result-merged": dict(pscheduler["result"])}}
    del bare["run"]["result-merged"]["diags"]
    return [*found, pscheduler, bare]


def of_json(documents: list[Any], data: st.DataObject) -> None:
    document = data.draw(st.sampled_from(documents))
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(list(places(document))))
        document = changed(document, path, data.draw(st.sampled_from([*WRONG, LEFT_OUT])))
    outcome(json.dumps(document).encode())


@OFTEN
@given(data=st.data())
def test_json_with_wrong_values(documents: list[Any], data: st.DataObject) -> None:
    of_json(documents, data)


@pytest.mark.long
@LONG
@given(data=st.data())
def test_json_with_many_wrong_values(documents: list[Any], data: st.DataObject) -> None:
    of_json(documents, data)


@pytest.fixture(scope="module")
def files(iperf3_outputs: dict[str, Outputs], logs: dict[str, Path]) -> list[bytes]:
    """One file of each kind of text."""
    log = b"# " + b"# ".join(logs["two"].read_bytes().split(b"# ")[1:6])
    return [
        iperf3_outputs["tcp"].text.read_bytes(),
        iperf3_outputs["udp"].text.read_bytes(),
        iperf3_outputs["stream"].client.read_bytes(),
        iperf3_outputs["mix"].client.read_bytes(),
        log,
        (DATA / "tierney-2021-excerpt.csv").read_bytes()[:1500],
    ]


def of_text(files: list[bytes], data: st.DataObject) -> None:
    """Files that are cut off, or contain a piece of another file, garbage or huge numbers."""
    content = data.draw(st.sampled_from(files))
    at, end = sorted(data.draw(st.tuples(*[st.integers(0, len(content))] * 2)))
    pieces = [b"", b"\n", b"-", b"9" * 400, b"1e999", b"nan", b"\x00", b"\xff\xfe", b"{" * 50]
    times = [b"\n# 1\n", b"\n# 9999999999.9\n"]
    garbage = st.binary(max_size=50) | st.sampled_from([*pieces, *times])
    outcome(
        content[:at]
        + data.draw(garbage)
        + content[data.draw(st.sampled_from([at, end, len(content)])) :]
    )


@OFTEN
@given(data=st.data())
def test_text_that_is_damaged(files: list[bytes], data: st.DataObject) -> None:
    of_text(files, data)


@pytest.mark.long
@LONG
@given(data=st.data())
def test_text_that_is_much_damaged(files: list[bytes], data: st.DataObject) -> None:
    of_text(files, data)


@OFTEN
@given(content=st.binary(max_size=300), kind=st.sampled_from(sorted(set(KINDS) - {"harness"})))
def test_garbage_that_is_said_to_be_something(content: bytes, kind: str) -> None:
    assert outcome(content, kind) is not None


@OFTEN
@given(
    info=st.lists(
        st.tuples(
            st.sampled_from(
                [
                    "bytes_acked",
                    "bytes_sent",
                    "cwnd",
                    "mss",
                    "retrans",
                    "rtt",
                    "minrtt",
                    "busy",
                    "rwnd_limited",
                    "data_segs_out",
                    "rto",
                ]
            ),
            st.integers(0, 10**25) | st.floats() | st.just("-") | st.just("1/2") | st.just("0/-3"),
        )
    ),
    times=st.lists(st.floats(1e8, 9e9), min_size=2, max_size=6),
)
def test_any_counters_of_ss(info: list[tuple[str, Any]], times: list[float]) -> None:
    words = " ".join(f"{name}:{value}" for name, value in info)
    socket = (
        "ESTAB 0 0 10.0.0.1:40000 10.0.0.2:5201\n\t cubic rto:204 {words} bytes_acked:{acked}\n"
    )
    lines = [
        f"# {time_s:.6f}\n" + socket.format(words=words, acked=number * 10**6)
        for number, time_s in enumerate(times)
    ]
    outcome("".join(lines).encode(), "ss")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            b'{"start": {"test_start": ',
            "file:1: is not valid JSON: Expecting value, where the text ends: it was cut off",
        ),
        (b'\n\n{"start": {},\n "end": x}', "file:4: is not valid JSON"),
        (b'{"start":' * 200_000, "is nested too deeply"),
        (b"[" * 200_000, "is nested too deeply"),
        (b'{"start": {"a": ' + b"9" * 5000 + b"}}", "file:1: has an invalid number"),
        (b'{"hello": "world"}', "file:1: is not the result of a test"),
        (b"\x1f\x8b\x08\x00" + bytes(range(256)), "file: can't be decompressed: "),
        (b"\x28\xb5\x2f\xfd" + bytes(range(256)), "file: can't be decompressed: "),
        (b"\xfd7zXZ\x00" + bytes(range(256)), "file: can't be decompressed: "),
        (b"# How\n{\n  braces\n}\n", "is of an unknown kind"),
        (b'{\n  // a comment\n  "a": 1\n}', "is of an unknown kind"),
        (b"\x7fELF" + bytes(5000), "is of an unknown kind"),
        (b"", "is of an unknown kind"),
    ],
)
def test_what_is_said_of_it(content: bytes, said: str) -> None:
    assert said in (outcome(content) or "")


def test_enormous_lines(tmp_path: Path) -> None:
    """Files of 10 MB, whose parts must not be read again and again."""
    for line in (b"[  5] " * 1_600_000, b"{" + b" " * 10**7, b"# " + b"1" * 10**7, b"\n" * 10**7):
        assert outcome(line) is not None
        assert outcome(b"# 1628535057.69\nState Recv-Q\n" + line, "ss") is not None


def test_a_file_that_is_too_large_to_be_read_whole(
    tmp_path: Path, refused: Callable[..., str]
) -> None:
    file = tmp_path / "large.json"
    with file.open("wb") as out:
        out.write(b'{"start": {}')
        out.truncate(2**28 + 1)
    assert "large.json: is larger than 256 MiB: split it" in refused(file)


def test_numbers_that_are_none_are_gaps(
    iperf3_outputs: dict[str, Outputs], imported: Import, tmp_path: Path
) -> None:
    """One stream has only a rate at the sender."""
    test = read_json(iperf3_outputs["tcp"].client)
    first = test["end"]["streams"][0]
    first["sender"] |= {"retransmits": -5, "bytes": "many"}
    first["receiver"]["bits_per_second"] = 1e308
    file = written(tmp_path / "odd.json", test)
    summary = imported(file).summary
    odd, good = summary["metrics"]["flows"]
    assert (odd["retransmits"], odd["goodput_bps"]) == (None, first["sender"]["bits_per_second"])
    assert good["goodput_bps"] == test["end"]["streams"][1]["receiver"]["bits_per_second"]
    assert "goodput_bps" in summary["facts"]["imported"]["estimated"]
