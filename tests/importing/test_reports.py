"""Files in forms that users reported: iperf3's text with something before its lines, of servers and
of old versions; iperf 2; totals that contradict the intervals; missing numbers; UDP of pScheduler.
"""

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ccmix.importing.iperf3_documents import is_iperf2, is_text, read_tests
from ccmix.importing.iperf3_tests import read_run
from ccmix.importing.pscheduler_results import read_run as read_result
from ccmix.importing.sources import KINDS
from ccmix.importing.values import ForeignRun, LeftOut, read_documents
from ccmix.model.results import ImportOverrides
from support.imports import DATA, Import, Outputs, read_json, written

REPORTS = DATA / "reports"
OVERRIDES = ImportOverrides(None, None, None, None, None, None, (), None, None)
TITLED = REPORTS.joinpath("b1-title-reverse.txt").read_text().replace("client:  ", "")
VERBOSE = (
    REPORTS.joinpath("b2-timestamps-verbose.txt")
    .read_text()
    .replace("Tue Nov 14 22:13:20 2023 ", "")
)
PREFIXES = [
    "client:  ",
    "[bbr 7]:  ",
    "[7]:  ",
    "iperf 3.16:  ",
    "Linux 6.1 sender:  ",
    "Tue Nov 14 22:13:{:02} 2023 ",
    "Tue Nov 14 22:13:{:02} 2023 client:  ",
    "22:13:{:02}",
    "17000000{:02} ",
    "17000000{:02}.123456 ",
    "[2023-11-14 22:13:{:02}] ",
    "2023-11-14T22:13:{:02}.123456789Z ",
    "2023-11-14T22:13:{:02}.123456789Z stdout F ",
    "Nov 14 22:13:{:02} ",
    "Nov 14 22:13:{:02} host1 iperf3[123]: ",
    "<14>1 2023-11-14T22:13:{:02}.5Z host1 iperf3 123 - - ",
    "iperf3-1  | ",
]


def runs_of(text: str) -> list[ForeignRun]:
    runs = [
        read_run(document.content, document.location, OVERRIDES, "iperf3-text")
        for document in read_tests(text, "x.txt")
    ]
    assert all(isinstance(run, ForeignRun) for run in runs)
    return [run for run in runs if isinstance(run, ForeignRun)]


def flow_of(run: ForeignRun | LeftOut) -> dict[str, Any]:
    """The only flow of a run."""
    assert isinstance(run, ForeignRun)
    assert not isinstance(run.results, tuple)
    (flow,) = run.results.flows.rows(named=True)
    return flow


@pytest.mark.parametrize("text", [TITLED, VERBOSE], ids=["reverse", "verbose"])
@pytest.mark.parametrize("prefix", PREFIXES)
def test_anything_before_the_lines_changes_nothing(prefix: str, text: str) -> None:
    lines = enumerate(text.splitlines())
    prefixed = "".join(f"{prefix.format(number)}{line}\r\n" for number, line in lines)
    assert is_text(prefixed)
    (plain,), (found,) = (read_tests(some, "x") for some in (text, prefixed))
    assert found.content == plain.content


def test_titles_and_clocks_of_reports(imported: Import) -> None:
    outcome = imported(REPORTS / "b1-title-reverse.txt", REPORTS / "b2-timestamps-verbose.txt")
    reverse, verbose = sorted(outcome.summaries, key=lambda summary: summary["began_s"] or 0)
    assert (reverse["run"]["path"]["src"], reverse["run"]["dst"]) == ("192.0.2.2", "unknown")
    assert (verbose["run"]["path"]["src"], verbose["run"]["dst"]) == ("h1", "192.0.2.2")
    assert verbose["began_s"] == 1700000000
    assert verbose["metrics"]["groups"][0]["cca"] == "bbr"
    assert verbose["metrics"]["goodput_bps"] == reverse["metrics"]["goodput_bps"] == 75.5e6


def test_real_iperf3_with_title_and_clock(iperf3_outputs: dict[str, Outputs]) -> None:
    """The text of a real test, as --title and --timestamps write it."""
    text = iperf3_outputs["reverse"].text.read_text()
    (plain,), (found,) = (
        read_tests(some, "x")
        for some in (
            text,
            re.sub("^", "Tue Nov 14 22:13:20 2023 run 1:  ", text, flags=re.MULTILINE),
        )
    )
    assert found.content == plain.content
    assert found.content["start"]["test_start"]["reverse"] == 1


def test_services_of_docker_compose_in_turns() -> None:
    client, server = TITLED.splitlines(), serve(8, "sender", reverse=True).splitlines()
    turns = [line for pair in zip(client, server, strict=False) for line in pair]
    rest = client[len(server) :] + server[len(client) :]
    names = {id(line): "client-1" for line in client} | {id(line): "server-1" for line in server}
    text = "".join(f"{names[id(line)]}  | {line}\n" for line in [*turns, *rest])
    assert [flow_of(run)["port"] for run in runs_of(text)] == [40000, 40001]


def serve(mbytes: int, word: str, *, reverse: bool = False, port: int = 40001) -> str:
    """Text of a server, whose test had two intervals."""
    retransmits = "    3    639 KBytes" if reverse else ""
    rate = f"{mbytes * 8 * 1.024**2:.1f}"
    return (
        "Accepted connection from 192.0.2.1, port 40000\n"
        f"[  5] local 192.0.2.2 port 5201 connected to 192.0.2.1 port {port}\n"
        f"[  5]   0.00-1.00   sec  {mbytes}.0 MBytes  {rate} Mbits/sec{retransmits}\n"
        f"[  5]   1.00-2.00   sec  {mbytes}.0 MBytes  {rate} Mbits/sec{retransmits}\n"
        "- - - - - - - - - - - - -\n"
        f"[  5]   0.00-2.00   sec  {2 * mbytes}.0 MBytes  {rate} Mbits/sec    6   {word}\n"
        "-----------------------------------------------------------\n"
        "Server listening on 5201 (test #2)\n"
    )


def test_a_server_that_sends(imported: Import) -> None:
    summary = imported(REPORTS / "b14-server-reverse.txt").summary
    assert (summary["run"]["path"]["src"], summary["run"]["dst"]) == ("unknown", "192.0.2.1")
    (flow,) = summary["metrics"]["flows"]
    assert (flow["throughput_bps"], flow["retransmits"]) == (83.9e6, 5)
    assert "goodput_bps" in summary["facts"]["imported"]["estimated"]


def test_tests_of_a_server_one_after_the_other() -> None:
    """A client that connected without a result, uploads, and a download; then the server ends."""
    gone = "".join(serve(1, "receiver", port=39999).splitlines(keepends=True)[:2])
    text = (
        f"{gone}{serve(10, 'receiver')}{serve(30, 'sender', reverse=True, port=40003)}"
        f"{serve(20, 'receiver', port=40005)}"
    )
    ended = "iperf3: interrupt - the server has terminated\n"
    idle = text.rpartition("---\nServer")
    for whole in (
        text + ended,
        f"{idle[0]}\n{ended}Server{idle[2]}",
    ):  # stderr comes first, or last
        up, down, last = runs_of(whole)
        assert [flow_of(run)["port"] for run in (up, down, last)] == [40001, 40003, 40005]
        assert (up.src, up.dst, flow_of(up)["goodput_bps"]) == ("192.0.2.1", None, 83.9e6)
        assert flow_of(up)["throughput_bps"] is None
        assert (down.src, down.dst, flow_of(down)["throughput_bps"]) == (None, "192.0.2.1", 251.7e6)
        assert "goodput_bps" in down.estimated
        assert "goodput_bps" not in up.estimated
        assert last.ended_early == ""


@pytest.mark.parametrize(
    ("sender", "receiver", "server_sends"),
    [
        ("0.00 Bytes  0.00", "8.00 MBytes  33.6", False),
        ("8.00 MBytes  33.6", "0.00 Bytes  0.00", True),
    ],
)
def test_a_server_whose_system_counts_no_retransmissions(
    sender: str, receiver: str, server_sends: bool
) -> None:
    lines = serve(4, "x").splitlines()
    summary = [
        f"[  5]   0.00-2.00   sec  {counted} Mbits/sec                  {end}"
        for end, counted in (("sender", sender), ("receiver", receiver))
    ]
    (run,) = runs_of("\n".join([*lines[:4], "- - - - - -", *summary]))
    flow = flow_of(run)
    assert (flow["throughput_bps"] == 33.6e6) is server_sends
    assert (run.dst == "192.0.2.1") is server_sends


def test_directions_of_real_servers(iperf3_outputs: dict[str, Outputs]) -> None:
    for name, server_sends in (("tcp", False), ("reverse", True), ("udp", False)):
        text = iperf3_outputs[name].server_text.read_text()
        without_v = re.sub(r"^(?:Starting|Time|iperf 3|Linux).*\n", "", text, flags=re.MULTILINE)
        (run,) = runs_of(without_v)
        assert (run.dst == "127.0.0.1") is server_sends
        assert run.udp_bps is None or name == "udp"


def test_udp_without_the_words_of_the_ends(imported: Import) -> None:
    """As iperf3 3.0 and 3.1 print it."""
    summary = imported(REPORTS / "b5-udp-old-summary.txt").summary
    (group,) = summary["metrics"]["groups"]
    assert (group["group"], group["goodput_bps"]) == ("udp", pytest.approx(8.39e6 * 0.75))
    assert group["throughput_bps"] == 8.39e6
    (flow,) = summary["metrics"]["flows"]
    assert flow["retransmits"] is None
    assert summary["verdict"]["status"] == "unknown"
    assert summary["run"]["traffic"]["duration_s"] == 4


def test_udp_without_the_words_reversed() -> None:
    text = REPORTS.joinpath("b5-udp-old-summary.txt").read_text()
    text = text.replace(
        "[  4] local", "Reverse mode, remote host 192.0.2.2 is sending\n[  4] local"
    )
    text = text.replace("Total Datagrams", "Jitter    Lost/Total Datagrams", 1)
    text = text.replace(
        "1.00 MBytes  8.39 Mbits/sec  128", "768 KBytes  6.29 Mbits/sec  0.1 ms  32/128 (25%)"
    )
    (run,) = runs_of(text)
    flow = flow_of(run)
    assert (run.src, run.udp_bps) == ("192.0.2.2", 0)
    assert (flow["group"], flow["goodput_bps"]) == ("udp", pytest.approx(8.39e6 * 0.75))
    assert not isinstance(run.results, tuple)
    assert run.results.intervals["goodput_bps"].to_list() == [768 * 1024 * 8] * 4


def test_a_number_that_text_lacks() -> None:
    text = TITLED.replace("45.0 MBytes  75.5 Mbits/sec", "45.0 MBytes  -nan Mbits/sec")
    (run,) = runs_of(text)
    flow = flow_of(run)
    assert (flow["throughput_bps"], flow["goodput_bps"]) == (83.9e6, 83.9e6)
    assert "goodput_bps" in run.estimated


def test_totals_that_contradict_the_receiver(imported: Import) -> None:
    summary = imported(REPORTS / "a4-reverse-omit.json").summary
    assert summary["metrics"]["goodput_bps"] == pytest.approx(3.68e6)
    (flow, _) = summary["metrics"]["flows"]
    assert (flow["throughput_bps"], flow["retransmits"]) == (None, 5)
    detail = summary["verdict"]["findings"][0]["detail"]
    assert "its totals contradict the receiver's intervals" in detail
    assert summary["verdict"]["status"] == "unknown"


def test_totals_that_agree_with_the_intervals_count() -> None:
    document = read_json(REPORTS / "a4-reverse-omit.json")
    for stream in document["end"]["streams"]:
        for end in stream.values():
            end |= {"bytes": 1_150_000, "bits_per_second": 1.85e6}
    run = read_run(document, "x", OVERRIDES, "iperf3")
    assert isinstance(run, ForeignRun)
    assert run.goodput_bps == 3.7e6
    assert not run.missing


def test_text_whose_first_intervals_are_lost() -> None:
    """As with tail: the other intervals do not contradict the total."""
    lines = TITLED.splitlines()
    (run,) = runs_of("\n".join([*lines[:4], *lines[7:]]))
    assert flow_of(run)["goodput_bps"] == 75.5e6
    assert "contradict" not in " ".join(run.missing)


def test_udp_of_which_the_receiver_saw_nothing() -> None:
    text = REPORTS.joinpath("b5-udp-old-summary.txt").read_text()
    (run,) = runs_of(text.replace("128/512 (25%)", "0/0 (-nan%)"))
    assert "goodput_bps" in run.estimated


def test_omitted_lines_are_the_omitted_time(imported: Import) -> None:
    outcome = imported(REPORTS / "e1-two")
    conditions = {condition["omit"] for condition in outcome.conditions}
    assert conditions == {"2s", "0s"}
    assert sorted(traffic["omit_s"] for traffic in outcome.of_runs("traffic")) == [0, 2]


IPERF2 = [
    REPORTS.joinpath("b10-iperf21.txt").read_text(),
    "Server listening on TCP port 5001\nTCP window size: 85.3 KByte (default)\n",
    "Client connecting to 192.0.2.2, UDP port 5001\nSending 1470 byte datagrams\n",
    "[  4] local 192.0.2.2 port 5001 connected with 192.0.2.1 port 40000\n",
    "[ ID] Interval       Transfer     Bandwidth\n[  3]  0.0- 1.0 sec  112 MBytes   941 Mbits/sec\n",
    "Nov 14 22:13:20 [SUM]  0.0-10.0 sec  1.10 GBytes   941 Mbits/sec\n",
    "20231114221320,192.0.2.1,42177,192.0.2.2,5001,3,0.0-1.0,10485760,83886080\n",
    "+0000:20231114221320.123456,192.0.2.1,42177,192.0.2.2,5001,1,0.0,1.0,10485760,83886080,80,0\n",
]


@pytest.mark.parametrize("text", IPERF2)
def test_iperf2_is_refused_by_its_name(text: str, imported: Import, tmp_path: Path) -> None:
    assert is_iperf2(text)
    folder = tmp_path / "logs"
    folder.mkdir()
    written(folder / "iperf.txt", text)
    written(folder / "iperf3.txt", TITLED)
    (refused,) = KINDS["iperf2"].read(folder / "iperf.txt", "iperf.txt", OVERRIDES)
    assert isinstance(refused, LeftOut)
    assert "is the output of iperf 2" in refused.why
    outcome = imported(folder)
    assert outcome.summary["metrics"]["goodput_bps"] == 75.5e6
    assert "logs/iperf.txt: is the output of iperf 2" in outcome.stderr


@pytest.mark.parametrize("text", [TITLED, VERBOSE, "time,goodput_mbps\n20231114221320,5\n"])
def test_other_text_is_not_iperf2(text: str) -> None:
    assert not is_iperf2(text)


MISSING = ["-nan", "nan", "-NaN", "NaN", "nan(ind)", "-nan(snan)", "1.#IND", "-1.#QNAN", "inf"]
MISSING += ["-inf", "-Infinity", "", "-"]


@pytest.mark.parametrize("spelling", MISSING)
def test_a_missing_number_in_json(spelling: str) -> None:
    text = REPORTS.joinpath("a1-minus-nan.json").read_text().replace("-nan", spelling)
    text = text.replace('"jitter_ms": 0.02', f'"jitter_ms":{spelling}')
    (document,) = read_documents(text, "x.json", lambda _: True)
    assert document.content["end"]["sum"]["lost_percent"] is None
    run = read_run(document.content, "x", OVERRIDES, "iperf3")
    assert flow_of(run)["goodput_bps"] == 8e6


def test_a_missing_rate_is_counted_from_the_intervals(imported: Import, tmp_path: Path) -> None:
    text = REPORTS.joinpath("a1-minus-nan.json").read_text()
    head, end, tail = text.partition('"end": {\n\t\t"streams"')
    tail = tail.replace('"bits_per_second": 8000000.0', '"bits_per_second": -nan')
    summary = imported(written(tmp_path / "x.json", head + end + tail)).summary
    assert summary["metrics"]["goodput_bps"] == 8e6


def test_a_missing_number_in_json_within_a_string() -> None:
    """Diagnostics of pScheduler have iperf3's JSON as a string."""
    inner = REPORTS.joinpath("a1-minus-nan.json").read_text()
    text = json.dumps({"diags": inner, "succeeded": True})
    (document,) = read_documents(text, "x.json", lambda _: True)
    assert json.loads(document.content["diags"])["end"]["sum"]["lost_percent"] is None


@pytest.mark.parametrize("spelling", [*MISSING, "N/A", "null"])
def test_a_missing_number_in_a_table(spelling: str, imported: Import, tmp_path: Path) -> None:
    table = f"host,goodput_mbps,rtt_ms,duration_s\nh,5,{spelling},{spelling}\nh,{spelling},20,10\n"
    outcome = imported(written(tmp_path / "x.csv", table))
    assert outcome.summary["metrics"]["goodput_bps"] == 5e6
    assert outcome.summary["run"]["traffic"]["duration_s"] is None
    assert "left out: x.csv:3: has neither goodput nor throughput" in outcome.stderr


def test_udp_of_pscheduler(imported: Import) -> None:
    summary = imported(REPORTS / "d7-udp.json").summary
    (group,) = summary["metrics"]["groups"]
    assert (group["group"], group["goodput_bps"], group["throughput_bps"]) == ("udp", 6e6, 8e6)
    assert summary["run"]["condition"]["cca"] == "udp"
    assert summary["facts"]["imported"]["estimated"] == []


def edit_reverse(document: dict[str, Any]) -> None:
    document["test"]["spec"]["reverse"] = True


def edit_bare(document: dict[str, Any]) -> None:
    """No specification, and only the sum of several streams."""
    del document["test"]
    document["run"]["result-merged"]["summary"]["streams"] = []


def edit_intervals(document: dict[str, Any]) -> None:
    stream = {"stream-id": 5, "throughput-bits": 8e6, "sent": 1000, "lost": 500}
    document["run"]["result-merged"]["intervals"] = [
        {"streams": [stream | {"start": second, "end": second + 1}]} for second in range(10)
    ]


@pytest.mark.parametrize(
    ("edit", "ends", "interval_bps"),
    [
        (edit_reverse, ("ps2.example.org", "ps1.example.org"), None),
        (edit_bare, ("ps1.example.org", None), None),
        (edit_intervals, ("ps1.example.org", "ps2.example.org"), 4e6),
    ],
)
def test_forms_of_udp_of_pscheduler(
    edit: Callable[[dict[str, Any]], None], ends: tuple[str, str | None], interval_bps: float | None
) -> None:
    document = copy.deepcopy(read_json(REPORTS / "d7-udp.json"))
    edit(document)
    run = read_result(document, "x", OVERRIDES)
    assert isinstance(run, ForeignRun)
    assert (run.src, run.dst) == ends
    flow = flow_of(run)
    assert (flow["group"], flow["goodput_bps"], flow["udp"]) == ("udp", 6e6, True)
    assert run.udp_bps is not None
    assert not isinstance(run.results, tuple)
    goodputs = run.results.intervals["goodput_bps"].unique().to_list()
    assert goodputs == ([interval_bps] if interval_bps else [])
    assert isinstance(run.results.intervals, pl.DataFrame)
