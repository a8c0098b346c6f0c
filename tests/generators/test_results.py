"""Tests the results that commands print: real outputs of iperf3, and the shapes of pScheduler's."""

import json
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccmix.generators.results import GeneratorError, read_result
from ccmix.tools import find_iperf3

ERROR = "unable to connect to server"
IPERF3 = {
    "start": {"connected": [], "connecting_to": {"host": "h"}, "version": "iperf 3.18"},
    "intervals": [],
    "end": {"streams": []},
}
SERVER = {
    "start": {"connected": [], "accepted_connection": {"host": "h"}},
    "intervals": [],
    "end": {"streams": []},
}
DIAGS = (
    f"Participant 0:\n/usr/bin/iperf3 -c 10.0.0.2 -p 5201\n\n{json.dumps(IPERF3, indent=4)}\n"
    f"Participant 1:\n/usr/bin/iperf3 -s -1\n\n{json.dumps(SERVER, indent=4)}\n"
)


def test_iperf3_s_own_result() -> None:
    result = read_result(json.dumps(IPERF3, indent=1))
    assert (result.kind, result.client, result.server, result.error) == (
        "iperf3",
        IPERF3,
        None,
        None,
    )


def test_the_server_s_result_in_the_client_s() -> None:
    assert read_result(json.dumps(IPERF3 | {"server_output_json": SERVER})).server == SERVER


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999"])
def test_a_number_that_is_not_finite_is_refused(number: str) -> None:
    text = json.dumps(IPERF3 | {"end": {"streams": [], "seconds": 0.5}}).replace("0.5", number)
    with pytest.raises(GeneratorError, match=rf"can't be used: {number} is not a finite number"):
        read_result(text)


def test_an_error_in_iperf3_s_result() -> None:
    result = read_result(
        json.dumps({"start": {}, "intervals": [], "end": {}, "error": f"{ERROR}\nsecond line"})
    )
    assert (result.kind, result.error) == ("iperf3", f"{ERROR} second line")


def test_what_the_patched_iperf3_writes_when_nobody_listens() -> None:
    argv = [find_iperf3(), "-c", "127.0.0.1", "-p", "1", "-t", "1"]
    for form in ("--json", "--json-stream"):
        done = subprocess.run([*argv, form], capture_output=True, text=True, check=False)
        result = read_result(done.stdout)
        assert result.kind == "iperf3"
        assert "unable to connect" in (result.error or "")


def test_a_result_in_pieces() -> None:
    pieces = [
        {"event": "start", "data": IPERF3["start"]},
        {"event": "interval", "data": {"sum": 1}},
        {"event": "interval", "data": {"sum": 2}},
        {"event": "end", "data": IPERF3["end"]},
    ]
    result = read_result("".join(json.dumps(piece) + "\n" for piece in pieces))
    assert result.client == IPERF3 | {"intervals": [{"sum": 1}, {"sum": 2}]}


def test_pscheduler_s_result_has_both_ends() -> None:
    result = read_result(
        json.dumps({"succeeded": True, "summary": {}, "intervals": [], "diags": DIAGS})
    )
    assert (result.kind, result.client, result.server) == ("pscheduler", IPERF3, SERVER)


def test_a_failed_run_of_pscheduler_whose_exit_status_is_0() -> None:
    result = read_result(json.dumps({"succeeded": False, "error": "Run was missed", "diags": ""}))
    assert (result.kind, result.error) == ("pscheduler", "Run was missed")


def test_pscheduler_with_another_tool() -> None:
    result = read_result(
        json.dumps({"succeeded": True, "diags": "Participant 0:\nnuttcp -T 10\n\n1 MB\n"})
    )
    assert (result.kind, result.client, result.error) == ("pscheduler", None, None)


@pytest.mark.parametrize(
    "output",
    [
        "",
        "error: no\n",
        "[1]",
        "12",
        "null",
        "{",
        '{"a": 1}',
        '{"start": {}}',
        "no error here\n",
        "[" * 100_000,
    ],
)
def test_the_word_error_is_no_error(output: str) -> None:
    result = read_result(output)
    assert (result.kind, result.error) == ("other", None)


def test_a_long_reason_is_cut() -> None:
    result = read_result(json.dumps({"succeeded": False, "error": "x" * 5000}))
    assert len(result.error or "") < 400


@given(
    st.text()
    | st.recursive(
        st.none() | st.booleans() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "start",
                        "end",
                        "error",
                        "succeeded",
                        "diags",
                        "event",
                        "data",
                        "server_output_json",
                    ]
                ),
                inner,
            )
        ),
    ).map(json.dumps)
)
def test_any_output_is_read(output: str) -> None:
    assert read_result(output).kind in ("iperf3", "pscheduler", "other")


def test_the_archived_run_s_shape(tmp_path: Path) -> None:
    """Builds a result as `pscheduler task --format json` prints it, around a real test of
    this iperf3.
    """
    server = subprocess.Popen(
        [find_iperf3(), "-s", "-1", "-p", "5398", "--json"], stdout=subprocess.PIPE, text=True
    )
    try:
        for _ in range(100):
            argv = [find_iperf3(), "-c", "127.0.0.1", "-p", "5398", "-t", "1", "--json"]
            client = subprocess.run(argv, capture_output=True, text=True, check=False)
            if "Connection refused" not in client.stdout:
                break
        output = server.communicate(timeout=20)[0]
    finally:
        server.kill()
    diags = f"Participant 0:\niperf3\n\n{client.stdout}\nParticipant 1:\niperf3\n\n{output}\n"
    result = read_result(json.dumps({"succeeded": True, "diags": diags}))
    assert result.client == json.loads(client.stdout)
    assert result.server == json.loads(output)
