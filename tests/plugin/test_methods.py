"""Tests the five methods that send nothing, with pScheduler's input and with bad input."""

import contextlib
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iperf3mix.results import merge as merge_results
from iperf3mix.spec import SpecError, read
from support.plugin_runner import CONF, Tool, check, throughput


def test_enumerate(tool: Tool) -> None:
    answer = tool.call("enumerate", "")
    check(answer, "enumerate")
    assert answer["name"] == "iperf3mix"
    assert answer["tests"] == ["throughput"]
    assert answer["preference"] > 10  # iperf3's


ACCEPTED = [
    {"congestion": mix}
    for mix in (
        "cubic,bbr",
        "cubic:8,bbr:8",
        "bbr:1",
        "-",
        "bbr@1G",
        "bbr+0",
        "cubic:2@2.4g,bbr+250ms",
        "nosuch,bbr",
    )
] + [
    {"parallel": 128},
    {"schema": 7, "fq-rate": 10**11, "bandwidth": 10**9},
    {"schema": 1},
    {"duration": "P1D", "omit": "PT10M", "interval": "PT0.01S"},
    {
        "udp": False,
        "reverse-connections": False,
        "bandwidth-strict": False,
        "reverse": False,
        "zero-copy": False,
    },
    {"single-ended": True, "single-ended-port": 5300},
    {
        "window-size": 512 << 20,
        "mss": 32767,
        "buffer-length": 1 << 20,
        "ip-tos": 255,
        "flow-label": 1,
        "ip-version": 6,
    },
    {"client-cpu-affinity": 0, "server-cpu-affinity": 1024, "no-delay": True, "zero-copy": True},
    {
        "source": "ps1",
        "source-node": "ps1:8443",
        "dest-node": "[fd99::1]:443",
        "local-address": "fd99::1",
    },
    {"parallel": 2.0},
]

# Changes of the spec (None removes a key), and the beginning of the reason
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"congestion": None}, "no congestion is asked for"),
    (
        {"congestion": "bbr"},
        "congestion 'bbr' is one algorithm for all streams: a test for stock iperf3",
    ),
    ({"congestion": "cubic,"}, "congestion 'cubic,': column 7, at '': each name must have"),
    ({"congestion": ""}, "congestion is '', not a text"),
    ({"congestion": "a\0,b"}, "congestion is 'a\\x00,b', not a text"),
    ({"udp": True}, "udp is not supported: UDP has no congestion control"),
    ({"loopback": True}, "loopback is not supported: both ends"),
    (
        {"loopback": False},
        "loopback is not supported: both ends",
    ),  # even so, the test has one participant
    (
        {"reverse-connections": True},
        "reverse-connections is not supported: iperf3 connects from the source",
    ),
    ({"bandwidth-strict": True}, "bandwidth-strict is not supported"),
    ({"burst-size": 10}, "burst-size is not supported"),
    ({"colour": "blue"}, "colour is not supported: this tool doesn't know it"),
    ({"schema": 8}, "the spec's schema is 8, and the newest that this tool knows is 7"),
    ({"schema": "4"}, "the spec's schema is '4', not a number"),
    ({"schema": 0}, "the spec's schema is 0"),
    ({"parallel": 129}, "parallel is 129, not a whole number from 1 to 128"),
    ({"parallel": 0}, "parallel is 0"),
    ({"parallel": 1.5}, "parallel is 1.5"),
    ({"parallel": None, "dest": None}, "the test has no dest"),
    ({"dest": 7}, "dest is 7, not a text"),
    ({"duration": "PT1.5S"}, "duration is PT1.5S: iperf3 takes whole seconds"),
    ({"duration": "PT0S"}, "duration is PT0S: iperf3 takes whole seconds from 1"),
    ({"duration": "P1M"}, "duration 'P1M' is not an ISO 8601 duration"),
    ({"duration": "PT"}, "duration 'PT' is not"),
    ({"duration": 30}, "duration is 30, not a text"),
    ({"omit": "PT601S"}, "omit is PT601S"),
    ({"interval": "PT61S"}, "interval is PT61S"),
    ({"interval": "PT0.001S"}, "interval is PT0.001S"),
    ({"reverse": "yes"}, "reverse is 'yes', not true or false"),
    ({"ip-version": 5}, "ip-version is 5"),
    ({"ip-version": 4, "flow-label": 7}, "a flow-label is for IPv6"),
    ({"flow-label": 1 << 20}, "flow-label is 1048576"),
    ({"mss": 40_000}, "mss is 40000"),
    ({"window-size": 1 << 30}, "window-size is"),
    ({"buffer-length": 2 << 20}, "buffer-length is"),
    ({"ip-tos": 256}, "ip-tos is 256"),
    ({"bandwidth": -1}, "bandwidth is -1"),
    ({"fq-rate": 1e400}, "fq-rate is inf"),
    ({"client-cpu-affinity": -1}, "client-cpu-affinity is -1"),
    ({"single-ended-port": 70_000}, "single-ended-port is 70000"),
    ({"single-ended": True, "server-cpu-affinity": 1}, "server-cpu-affinity needs a participant"),
]


def spec_with(changes: dict[str, Any]) -> dict[str, Any]:
    test = throughput()
    test["spec"] = {
        name: value for name, value in (test["spec"] | changes).items() if value is not None
    }
    return test


@pytest.mark.parametrize("changes", ACCEPTED, ids=str)
def test_can_run(tool: Tool, changes: dict[str, Any]) -> None:
    answer = tool.call("can-run", spec_with(changes))
    check(answer, "can-run")
    assert answer == {"can-run": True, "reasons": []}


@pytest.mark.parametrize(("changes", "reason"), REFUSED, ids=str)
def test_can_not_run(tool: Tool, changes: dict[str, Any], reason: str) -> None:
    answer = tool.call("can-run", spec_with(changes))
    check(answer, "can-run")
    assert not answer["can-run"]
    assert any(each.startswith(reason) for each in answer["reasons"]), answer


def test_can_run_gives_every_reason(tool: Tool) -> None:
    reasons = tool.call("can-run", spec_with({"udp": True, "parallel": 500, "congestion": "bbr"}))[
        "reasons"
    ]
    assert len(reasons) == 3


@pytest.mark.parametrize(
    "text",
    [
        *("", "no JSON", "[]", "{}", '"text"', "null", "[" * 100_000),
        *(
            '{"type": "rtt", "spec": {}}',
            '{"type": "throughput"}',
            '{"type": "throughput", "spec": []}',
        ),
    ],
    ids=lambda text: text[:40],
)
def test_can_run_of_something_else(tool: Tool, text: str) -> None:
    answer = tool.call("can-run", text)
    check(answer, "can-run")
    assert not answer["can-run"]


@settings(max_examples=150, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(sorted({key for changes, _ in REFUSED for key in changes})),
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats()
        | st.text()
        | st.lists(st.integers())
        | st.just({}),
    )
)
def test_a_spec_of_any_types_is_read_or_refused(spec: dict[str, Any]) -> None:
    with contextlib.suppress(SpecError):
        read({"type": "throughput", "spec": spec})


@pytest.mark.parametrize(
    ("changes", "seconds"),
    [
        # 2 s to start and 2 s to end; 10 round trips, and one for each stream; 200 ms by default
        ({"link-rtt": "PT0.1S", "parallel": 2, "duration": "PT30S"}, 2 + 1.2 + 30 + 2),
        ({"link-rtt": None, "parallel": 16, "duration": "PT1M", "omit": "PT5S"}, 2 + 5.2 + 65 + 2),
        ({"link-rtt": "PT0.01S", "parallel": 1, "duration": None}, 2 + 0.11 + 10 + 2),
        ({"link-rtt": "PT0S", "duration": "PT1S", "congestion": "cubic,bbr+0.5s"}, 2 + 1 + 2),
    ],
)
def test_duration(tool: Tool, changes: dict[str, Any], seconds: float) -> None:
    answer = tool.call("duration", spec_with(changes))
    check(answer, "duration")
    assert 0 <= int(answer["duration"][2:-1]) - seconds < 1


def test_duration_of_what_can_not_run(tool: Tool) -> None:
    """The answer has no place for an error, and pScheduler shows standard error."""
    answer = tool.say("duration", spec_with({"udp": True}))
    assert answer.returncode == 1
    assert answer.stdout == ""
    assert answer.stderr == "iperf3mix: udp is not supported: UDP has no congestion control\n"


def test_participant_data(tool: Tool) -> None:
    for participant in (0, 1):
        data = tool.call("participant-data", {"participant": participant, "test": throughput()})
        check(data, "participant-data")
        assert "error" not in data
        assert ("port" in data, "_token" in data) == (participant == 1, participant == 1)
        for which in ("available", "allowed"):
            kernel = Path(f"/proc/sys/net/ipv4/tcp_{which}_congestion_control").read_text().split()
            assert data["congestion"][which] == kernel
        assert not data["net-admin"]


def test_tokens_are_of_one_run_only(tool: Tool) -> None:
    data = [
        tool.call("participant-data", {"participant": 1, "test": throughput()}) for _ in range(2)
    ]
    assert data[0]["_token"] != data[1]["_token"]


@pytest.mark.parametrize(
    "given_",
    ["", "[]", "{}", '{"participant": 2}', '{"participant": "0"}', '{"participant": true}'],
)
def test_participant_data_for_nobody(tool: Tool, given_: str) -> None:
    answer = tool.say("participant-data", given_)
    assert answer.returncode == 1
    assert answer.stderr.startswith("iperf3mix: ")


@pytest.mark.parametrize(
    ("conf", "error"),
    [
        ("[iperf3mix]\niperf3 = /nowhere/iperf3\n", "No such file or directory: '/nowhere/iperf3'"),
        ("[iperf3mix]\niperf3 = iperf3\n", "iperf3 is 'iperf3', not an absolute path"),
        ("[iperf3mix]\niperf3 = /usr/bin/iperf3\n", "without the patches that mix CCAs"),
        ("[iperf3mix]\niperf3 = /bin/true\n", "/bin/true --version ends with status 0 and writes"),
        ("[iperf3mix]\nport = 0\n", "port is '0', not a number from 1 to 65535"),
        ("[iperf3mix]\nserver_port = 5201\n", "the key 'server_port' is unknown"),
        ("[iperf3]\nport = 5201\n", "the section [iperf3] is unknown"),
        ("[iperf3mix]\nallow = bbr ../x\n", "allow: '../x' is not a name"),
        ("port = 5201\n", "no section headers"),
        ("[iperf3mix]\n\udcff\n", "can't decode"),
    ],
)
def test_a_wrong_configuration_fails_the_run_with_a_sentence(
    tool: Tool, tmp_path: Path, package: Path, conf: str, error: str
) -> None:
    file = package / "wrong.conf"
    file.write_bytes(conf.encode(errors="surrogateescape"))
    data = Tool(tool.root, environment={"IPERF3MIX_CONF": str(file)}).call(
        "participant-data", {"participant": 1}
    )
    check(data, "participant-data")
    assert error in data["error"]


def test_the_configured_port_is_told(tool: Tool, package: Path) -> None:
    file = package / "port.conf"
    file.write_text((package / CONF).read_text() + "port = 5999\n")
    configured = Tool(tool.root, environment={"IPERF3MIX_CONF": str(file)})
    assert configured.call("participant-data", {"participant": 1})["port"] == 5999


def result(number: int, *, sends: bool) -> dict[str, Any]:
    """Returns a good result of one participant, whose numbers identify the participant."""
    sums = {"start": 0, "end": 1, "throughput-bits": number, "throughput-bytes": number}
    sums |= {"retransmits": number} if sends else {"receiver-throughput-bits": number}
    group = {"group": 1, "congestion": "bbr", "streams": 1} | sums
    group |= {} if sends else {"receiver-throughput-bytes": number}
    stream = {"stream-id": "1:bbr:1"} | sums
    interval = {
        "streams": [
            {
                key: stream[key]
                for key in ("stream-id", "start", "end", "throughput-bits", "throughput-bytes")
            }
        ]
    }
    interval |= {"summary": interval["streams"][0], "groups": [group]}
    return {
        "succeeded": True,
        "diags": f"of {number}",
        "intervals": [interval],
        "summary": {
            "streams": [stream],
            "summary": sums,
            "congestion": {"1:bbr:1": "bbr"},
            "groups": [group],
        },
    }


def merge(tool: Tool, results: object, **options: object) -> dict[str, Any]:
    merged = tool.call("merged-results", {"test": throughput(**options), "results": results})
    check(merged, "result")
    return dict(merged)


def test_merging_takes_the_clients_sums_and_the_senders_view(tool: Tool) -> None:
    forward = merge(tool, [result(1, sends=True), result(2, sends=False)])
    assert forward["succeeded"]
    assert forward["summary"]["summary"]["throughput-bits"] == 1
    assert forward["diags"] == "Participant 0:\nof 1\nParticipant 1:\nof 2\n"
    reverse = merge(tool, [result(1, sends=False), result(2, sends=True)], reverse=True)
    for got in (
        reverse["summary"]["summary"],
        reverse["summary"]["streams"][0],
        reverse["summary"]["groups"][0],
    ):
        assert got["throughput-bits"] == 2
        assert got["retransmits"] == 2
        assert got["receiver-throughput-bits"] == 1
    assert reverse["intervals"] == result(2, sends=True)["intervals"]


def test_streams_are_joined_by_the_clients_ports(tool: Tool) -> None:
    """The server accepted the streams in another order than the client made them; both belong to
    the same group.
    """
    ends = []
    for number, (first, second), port in (
        (1, (5001, 5002), "local_port"),
        (2, (5002, 5001), "remote_port"),
    ):
        side = result(number, sends=number == 2)
        stream = side["summary"]["streams"][0]
        both = [
            stream | {"stream-id": f"{at}:bbr:1", "throughput-bits": 10 * number + at}
            for at in (1, 2)
        ]
        if number == 1:
            both = [each | {"receiver-throughput-bits": each["throughput-bits"]} for each in both]
        side["summary"] |= {
            "streams": both,
            "congestion": {each["stream-id"]: "bbr" for each in both},
        }
        side["intervals"][0]["streams"] = both
        other = "remote_port" if port == "local_port" else "local_port"
        connected = [{"id": 1, port: first, other: 5201}, {"id": 2, port: second, other: 5201}]
        side["diags"] = "iperf3 -J\n\n" + json.dumps(
            {"start": {"connected": connected}}, separators=(",", ":")
        )
        ends.append(side)
    got = merge(tool, ends, reverse=True)
    # The server's second stream is the client's first
    expected = [("2:bbr:1", 21, 12), ("1:bbr:1", 22, 11)]
    keys = ("stream-id", "throughput-bits", "receiver-throughput-bits")
    *streams, _sum = got["summary"]["streams"]
    assert [tuple(stream[key] for key in keys) for stream in streams] == expected
    in_interval = got["intervals"][0]["streams"]
    assert [(s["stream-id"], s["throughput-bits"]) for s in in_interval] == [
        ("2:bbr:1", 21),
        ("1:bbr:1", 22),
    ]


@pytest.mark.parametrize("reverse", [None, True])
def test_a_server_that_is_missing_takes_nothing_away(tool: Tool, reverse: bool | None) -> None:
    """The client knows the sums of both sides."""
    for missing in (
        None,
        {"succeeded": False, "error": "killed", "diags": ""},
        "502 Bad Gateway",
        {},
        7,
    ):
        got = merge(tool, [result(1, sends=not reverse), missing], reverse=reverse)
        assert got["succeeded"]
        assert got["summary"] == result(1, sends=not reverse)["summary"]


@pytest.mark.parametrize(
    ("results", "error"),
    [
        ([None, None], "both participants: there is no result"),
        (
            [None, 7],
            "participant 0 (source ps1): there is no result; participant 1 (dest ps2): its "
            "result is",
        ),
        (None, "there is no result"),
        ([None, result(1, sends=False)], "participant 0 (source ps1): there is no result"),
        (
            [{"succeeded": False, "error": "no way"}, None],
            "participant 0 (source ps1): no way; participant 1",
        ),
        ([{"succeeded": False}, None], "failed without an error message"),
        ([{"succeeded": True}, None], "its result is not one of this tool"),
        (
            [{"succeeded": True, "intervals": [], "summary": {}}, None],
            "its result is not one of this tool",
        ),
        (["<html>502</html>", None], "its result is '<html>502</html>'"),
        ([result(1, sends=True)] * 3, "the run has 3 results, and 2 participants"),
    ],
)
def test_merging_what_is_missing_or_wrong_is_a_failure_as_data(
    tool: Tool, results: object, error: str
) -> None:
    got = merge(tool, results, source="ps1", dest="ps2")
    assert not got["succeeded"]
    assert error in got["error"]


def test_merging_one_result(tool: Tool) -> None:
    got = merge(tool, [result(1, sends=True)], single_ended=True)
    assert got["succeeded"]
    assert got["diags"] == "Participant 0:\nof 1\n"


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(
            st.sampled_from(
                [
                    "succeeded",
                    "summary",
                    "intervals",
                    "streams",
                    "groups",
                    "spec",
                    "reverse",
                    "diags",
                    "error",
                    "stream-id",
                ]
            )
            | st.text(max_size=3),
            inner,
        )
    ),
    max_leaves=20,
)


@settings(max_examples=150, deadline=None)
@given(JSON_VALUES, JSON_VALUES)
def test_merging_anything_says_something(test: object, results: object) -> None:
    got = merge_results(test, results)
    assert isinstance(got["succeeded"], bool)
    json.dumps(got)


@settings(max_examples=25, deadline=None)
@given(JSON_VALUES)
def test_a_damaged_result_of_the_sender_is_merged_or_left_out(damage: object) -> None:
    """A future version may write such results; in a reverse test they are joined with
    the client's.
    """
    for key in ("streams", "groups", "summary"):
        sender = result(2, sends=True)
        sender["summary"][key] = damage if key == "summary" else [damage]
        got = merge_results(throughput(reverse=True), [result(1, sends=False), sender])
        assert got["succeeded"]
        check(got, "result")


@pytest.mark.parametrize("text", ["", "[]", "no JSON"])
def test_merging_no_input(tool: Tool, text: str) -> None:
    got = tool.call("merged-results", text)
    check(got, "result")
    assert not got["succeeded"]


def test_they_run_without_anything_else(tool: Tool) -> None:
    """The tool needs neither ccmix nor pScheduler's library: Python's isolated mode has no
    packages of a user.
    """
    script = (
        f"import sys; sys.path.insert(0, {str(tool.root)!r} + "
        "'/usr/lib/pscheduler/classes/tool/iperf3mix')\n"
    )
    script += "from iperf3mix import methods; methods.can_run()"
    answer = subprocess.run(
        ["/usr/bin/python3", "-I", "-S", "-c", script],
        input=json.dumps(throughput()),
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(answer.stdout)["can-run"]
