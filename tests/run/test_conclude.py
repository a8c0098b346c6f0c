"""Tests raw files that are incomplete or not from the tool: the run fails with one line, never with
a traceback.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ccmix import payload
from ccmix.archive import RunFolder
from ccmix.archive.codec import MEASUREMENT
from ccmix.generators.results import GeneratorError
from ccmix.model import (
    CommandSource,
    Counters,
    Destination,
    Facts,
    HostFacts,
    HostPath,
    Measurement,
    ProbeReport,
    QdiscCounters,
    Run,
    Traffic,
)
from ccmix.model.results import Execution, FinishedRun
from ccmix.run.conclude import conclude

PATH = HostPath("localhost", Destination("h", "10.0.0.2", "h"), "x", mpstat_cores="0")
RUN = Run("one", {}, "h", 1, 7, Traffic((CommandSource("", "src", "x"),), 2.0, 0.0, 1.0), PATH)
HOST = HostFacts("localhost", "7", "dtn", 1, "bbr")
SOCKET = (
    "0 0 10.0.1.1:40000 10.0.0.2:5201 bbr rtt:10/1 bytes_sent:{0} bytes_acked:{0} "
    "data_segs_out:{1} retrans:0/2\n"
)
STAT = "cpu0 {0} 0 0 {1} 0 0 0 0\n"


def stream(fd: int) -> dict[str, Any]:
    return {"socket": fd, "bytes": 1000, "retransmits": 1, "bits_per_second": 8000.0}


def result() -> dict[str, Any]:
    sums = {"end": 1.0, "omitted": False, "seconds": 1.0}
    return {
        "start": {
            "connected": [{"socket": 5, "local_port": 40000}],
            "connecting_to": {},
            "version": "iperf 3.18",
        },
        "intervals": [
            {"streams": [stream(5)], "sum": sums},
            {"streams": [stream(5)], "sum": sums | {"end": 2.0}},
        ],
        "end": {
            "streams": [{"sender": stream(5), "receiver": stream(5)}],
            "sender_tcp_congestion": "bbr",
        },
    }


def measurement() -> Measurement:
    counters = Counters(
        qdiscs={"sender-queue": (QdiscCounters("eth0", "fq", "8001:", None, 0, 1, 0, 0, 0),)},
        netstat={"localhost": "TcpExt: TCPMemoryPressures\nTcpExt: 0\n"},
        softnet={"localhost": "00000001 00000000\n"},
    )
    return Measurement(
        facts=Facts(
            "7",
            kernel_version="7",
            iperf3="3",
            sysctls={},
            hosts={"src": HOST},
            offloads={},
            probes={"sockets": ProbeReport(3, 0)},
        ),
        started_s=1000.0,
        ended_s=1002.0,
        ping_rtt_s={},
        before=counters,
        after=counters,
    )


def files() -> dict[str, str]:
    def samples(*outputs: str) -> str:
        return "".join(
            json.dumps({"time_s": 1000.0 + at, "seconds": 0.01, "output": output}) + "\n"
            for at, output in enumerate(outputs)
        )

    return {
        "generators/src-cmd.out": json.dumps(result()),
        "logs/sockets.jsonl": samples(
            *(SOCKET.format(at * 100_000 + 2000, at + 1) for at in range(3))
        ),
        "logs/processors-src.jsonl": samples(*(STAT.format(at, at * 9) for at in range(3))),
    }


def concluded(folder: Path, texts: dict[str, str]) -> FinishedRun:
    run_folder = RunFolder.of(folder, RUN)
    partial = run_folder.begin()
    for name, text in texts.items():
        (partial / name).parent.mkdir(exist_ok=True)
        (partial / name).write_text(text)
    return conclude(RUN, run_folder, measurement(), Execution("hosts"))


def test_what_the_tools_wrote_is_a_run(tmp_path: Path) -> None:
    finished = concluded(tmp_path, files())
    assert finished.verdict.status == "valid", finished.verdict
    assert [group.cca for group in finished.metrics.groups] == ["bbr"]
    assert RunFolder.of(tmp_path, RUN).read() == finished


def test_a_run_names_the_installed_package_that_made_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert concluded(tmp_path / "clone", files()).execution.package is None
    (tmp_path / payload.MANIFEST).write_text("[]\n")
    monkeypatch.setattr(payload, "FOLDER", tmp_path)
    assert (
        concluded(tmp_path / "installed", files()).execution.package
        == hashlib.sha256(b"[]\n").hexdigest()
    )


@pytest.mark.parametrize("name", files())
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_any_file_cut_short_or_garbled(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
) -> None:
    texts = files()
    at = data.draw(st.integers(0, len(texts[name])))
    texts[name] = (
        texts[name][:at]
        + data.draw(st.text(max_size=8))
        + texts[name][at + data.draw(st.integers(0, 9)) :]
    )
    try_to_conclude(tmp_path_factory, texts)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_any_value_in_any_place(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    document = result()
    put_anywhere(document, data)
    try_to_conclude(tmp_path_factory, files() | {"generators/src-cmd.out": json.dumps(document)})


def put_anywhere(document: Any, data: st.DataObject) -> None:
    place = document
    while True:
        key = data.draw(
            st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place)))
        )
        if not isinstance(place[key], dict | list) or not place[key] or data.draw(st.booleans()):
            place[key] = data.draw(JSON)
            return
        place = place[key]


def try_to_conclude(factory: pytest.TempPathFactory, texts: dict[str, str]) -> None:
    message = ""
    try:
        concluded(factory.mktemp("run"), texts)
    except GeneratorError as error:
        message = str(error)
    assert "\n" not in message


def test_a_key_with_a_line_break_is_one_line_of_a_message() -> None:
    document = MEASUREMENT.encode(measurement()) | {"after": {"\n": None}}
    with pytest.raises(ValueError, match="after") as caught:
        MEASUREMENT.decode(json.dumps(document).encode())
    assert "\n" not in str(caught.value)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_any_value_in_any_place_of_what_a_guest_wrote(data: st.DataObject) -> None:
    """Expects that a value is either refused or a measurement."""
    document = MEASUREMENT.encode(measurement())
    put_anywhere(document, data)
    sentence = ""
    try:
        assert isinstance(MEASUREMENT.decode(json.dumps(document).encode()), Measurement)
    except ValueError as error:
        sentence = str(error)
    assert "\n" not in sentence
