"""Tests which results are one experiment: of tests that ended early, ran together, overlapped other
tests, or differ.
"""

import json
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from support.commands import wait_for
from support.imports import Here, Import, Outcome, Outputs, later, read_json, rows, written
from support.ports import await_listening, free_port

Outcomes = dict[str, Outputs]
PLANNED_S, SECONDS, RATE_MBPS = 300, 2.3, 20


def acknowledged_bytes(port: str) -> int:
    """Returns how much a test's stream has carried, in either direction."""
    argv = ["ss", "-tinH", f"( sport = :{port} or dport = :{port} )"]
    shown = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    return max(map(int, re.findall(r"bytes_acked:(\d+)", shown)), default=0)


@pytest.fixture(scope="session")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Outputs of Debian's iperf3 whose client got SIGINT after 2.3 of 300 s, or later."""
    folder = tmp_path_factory.mktemp("interrupted")
    files = {
        name: folder / f"{name}.out"
        for name in ("client", "server", "text", "server-text", "reverse", "other")
    }
    started: list[tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]]] = []
    ports = []
    for client, server, words in (
        ("client", "server", ["-J"]),
        ("text", "server-text", []),
        ("reverse", "other", ["-J", "-R"]),
    ):
        port = str(free_port())
        ports.append(port)
        with files[client].open("w") as out, files[server].open("w") as other:
            listening = subprocess.Popen(
                ["iperf3", "-s", "-1", "-p", port, *words[:1]], stdout=other
            )
            await_listening(listening, int(port))
            argv = [
                "iperf3",
                "-c",
                "127.0.0.1",
                "-p",
                port,
                "-t",
                str(PLANNED_S),
                "-b",
                f"{RATE_MBPS}M",
                *words,
            ]
            started.append(
                (listening, subprocess.Popen(argv, stdout=out, stderr=subprocess.DEVNULL))
            )
    try:
        enough_bytes = RATE_MBPS * 1e6 / 8 * SECONDS
        wait_for(
            lambda: min(map(acknowledged_bytes, ports)) > enough_bytes,
            120,
            "the tests are under way",
        )
        for listening, process in started:
            process.send_signal(signal.SIGINT)
            process.wait(20)
            listening.wait(20)
    finally:
        for each in started:
            for process in each:
                process.kill()
    return files


@pytest.mark.parametrize("end", ["client", "server", "text", "reverse"])
def test_a_test_that_somebody_interrupted(
    end: str, interrupted: dict[str, Path], imported: Import
) -> None:
    """The other end never sent its count, so iperf3 prints 0; the intervals are right."""
    summary = imported(interrupted[end]).summary
    assert summary["metrics"]["goodput_bps"] == pytest.approx(RATE_MBPS * 1e6, rel=0.1)
    assert summary["verdict"]["status"] == "limited"
    early = summary["verdict"]["findings"][0]
    assert early["kind"] == "ended-early"
    asked = "" if end == "text" else f" of {PLANNED_S}"
    told = re.fullmatch(rf"the test ended after ([\d.]+){asked} s", early["detail"])
    assert told, early["detail"]
    assert 2 <= float(told[1]) < PLANNED_S
    assert summary["metrics"]["settling"] is None


def test_it_is_not_in_the_mean(
    interrupted: dict[str, Path],
    iperf3_outputs: Outcomes,
    imported: Import,
    here: Here,
    tmp_path: Path,
) -> None:
    cut = read_json(interrupted["client"])
    whole = read_json(iperf3_outputs["tcp"].client)
    cut["start"]["test_start"] = whole["start"]["test_start"] | {"num_streams": 1}
    cut["start"] |= {name: whole["start"][name] for name in ("connecting_to", "system_info")}
    for number in (1, 2):
        one = later(iperf3_outputs["tcp"].client, tmp_path / f"{number}.json", 100 * number)
    broken = read_json(one) | {"error": "interrupt - the client has terminated"}
    broken["intervals"] = broken["intervals"][:-2]
    for stream in broken["end"]["streams"]:
        stream["receiver"] |= {"bytes": 0, "bits_per_second": 0}
    broken["end"]["sum_sent"]["seconds"] = 1.0
    written(tmp_path / "3.json", broken)
    outcome = imported(*sorted(tmp_path.glob("?.json")))
    assert [summary["verdict"]["status"] for summary in outcome.summaries] == [
        "unknown",
        "unknown",
        "limited",
    ]
    assert all(summary["metrics"]["goodput_bps"] > 50e6 for summary in outcome.summaries)
    (row,) = rows(here, outcome.outdir)
    assert (row["runs"], row["invalid"]) == (3, 1)


def test_two_tests_together_are_one_run(
    iperf3_outputs: Outcomes, imported: Import, here: Here, tmp_path: Path
) -> None:
    """Tests of cubic and reno between the same hosts began in the same second from different ports:
    each is a group.
    """
    one = later(iperf3_outputs["tcp"].client, tmp_path / "reno.json", 0)
    other = json.loads(
        later(iperf3_outputs["tcp"].client, tmp_path / "cubic.json", 1, port=7).read_text()
    )
    other["end"]["sender_tcp_congestion"] = "cubic"
    for stream in other["end"]["streams"]:
        stream["sender"].pop("congestion", None)
        stream["receiver"]["bits_per_second"] *= 3
    written(tmp_path / "cubic.json", other)
    outcome = imported(one, tmp_path / "cubic.json")
    summary = outcome.summary
    groups = {group["group"]: group for group in summary["metrics"]["groups"]}
    assert summary["run"]["condition"] == {"cca": "reno,cubic", "streams": "4", "bitrate": "50mbit"}
    assert groups["cubic"]["goodput_bps"] == pytest.approx(3 * groups["reno"]["goodput_bps"])
    assert (groups["cubic"]["share"], groups["cubic"]["fair_share"]) == (pytest.approx(0.75), 0.5)
    assert len({flow["port"] for flow in summary["metrics"]["flows"]}) == 4
    assert sorted(file.name for file in (outcome.folders[0] / "generators").iterdir()) == [
        "1-iperf3.json",
        "2-iperf3.json",
    ]
    text = here("report", outcome.outdir).stdout
    assert "cubic" in text
    assert "alone" not in text


def test_a_test_that_is_there_twice_counts_once_in_a_joined_run(
    iperf3_outputs: Outcomes, imported: Import, tmp_path: Path
) -> None:
    """Two files are of one test, and one of them was cut: only one becomes part of the run with the
    simultaneous test.
    """
    later(iperf3_outputs["tcp"].client, tmp_path / "reno.json", 0)
    other = json.loads(
        later(iperf3_outputs["tcp"].client, tmp_path / "cubic.json", 1, port=7).read_text()
    )
    other["end"]["sender_tcp_congestion"] = "cubic"
    for stream in other["end"]["streams"]:
        stream["sender"].pop("congestion", None)
    written(tmp_path / "cubic.json", other)
    written(tmp_path / "cubic-again.json", other | {"title": "again"})
    outcome = imported(*sorted(tmp_path.glob("*.json")))
    streams = [summary["run"]["condition"]["streams"] for summary in outcome.summaries]
    assert sorted(streams) == ["2", "4"]


@pytest.mark.parametrize(
    ("seconds", "port", "changes", "beside"),
    [
        (0, 7, {"target_bitrate": 10_000_000}, ("reno:2", "reno:2")),
        (2, 7, {"duration": 5}, ("reno:2 +2s", "reno:2 -2s")),
        (3, 7, {}, (None, None)),  # the first has ended
        (0, 0, {"target_bitrate": 10_000_000}, (None, None)),  # the same ports: the same test
    ],
)
def test_tests_that_overlap(
    seconds: int,
    port: int,
    changes: dict[str, int],
    beside: tuple[str | None, str | None],
    iperf3_outputs: Outcomes,
    imported: Import,
    tmp_path: Path,
) -> None:
    first = later(
        iperf3_outputs["tcp"].client,
        tmp_path / "first.json",
        0,
        **({"duration": 5} if seconds == 2 else {}),
    )
    second = later(iperf3_outputs["tcp"].client, tmp_path / "second.json", seconds, port, **changes)
    summaries = imported(first, second).summaries
    assert tuple(summary["run"]["condition"].get("beside") for summary in summaries) == beside


def test_what_ran_beside_others_is_not_compared_as_if_alone(
    iperf3_outputs: Outcomes, imported: Import, here: Here, tmp_path: Path
) -> None:
    """Three tests of reno and three of cubic. Each has a simultaneous test of reno from the same
    host to another host.
    """
    files = []
    for number in range(6):
        cca = ("reno", "cubic")[number % 2]
        for port, host in ((0, "127.0.0.1"), (7, "other")):
            file = later(
                iperf3_outputs["tcp"].client, tmp_path / f"{number}-{port}.json", 100 * number, port
            )
            test = read_json(file)
            test["start"]["connecting_to"]["host"] = host
            test["end"]["sender_tcp_congestion"] = cca if not port else "reno"
            for stream in test["end"]["streams"]:
                stream["sender"].pop("congestion", None)
                stream["receiver"]["bits_per_second"] *= (
                    3 if cca == "cubic" else 1
                ) + 0.001 * number
            file.write_text(json.dumps(test))
            files.append(file)
    outcome = imported(*files)
    of_cca = [
        condition
        for condition, _ in conditions(outcome)
        if condition["beside"] == "reno:2 to other"
    ]
    assert [condition["cca"] for condition in of_cca] == ["reno", "cubic"] * 3
    page = tmp_path / "page.html"
    assert here("report", outcome.outdir, "--format", "html", "-o", page).exit_code == 0
    assert "cubic" in page.read_text()
    assert " alone " not in page.read_text()


@pytest.mark.parametrize(
    ("changes", "setting", "values"),
    [
        ({"target_bitrate": 10_000_000}, "bitrate", ["50mbit", "10mbit"]),
        ({"blksize": 1000}, "length", ["131072", "1000"]),
        ({"tos": 8}, "tos", ["0", "8"]),
        ({"duration": 20}, "duration", ["2s", "20s"]),
    ],
)
def test_tests_that_were_asked_differently_are_two_conditions(
    changes: dict[str, int],
    setting: str,
    values: list[str],
    iperf3_outputs: Outcomes,
    imported: Import,
    tmp_path: Path,
) -> None:
    first = later(iperf3_outputs["tcp"].client, tmp_path / "first.json", 0)
    second = later(iperf3_outputs["tcp"].client, tmp_path / "second.json", 100, **changes)
    summaries = imported(first, second).summaries
    assert [summary["run"]["condition"][setting] for summary in summaries] == values


def test_kernels_segment_sizes_and_windows(
    iperf3_outputs: Outcomes, imported: Import, tmp_path: Path
) -> None:
    first = later(iperf3_outputs["tcp"].client, tmp_path / "1.json", 0)
    for number, changes in enumerate(
        ({"system_info": "Linux vm 4.15.0 #1"}, {"tcp_mss": 1000}, {"sock_bufsize": 65536}), 2
    ):
        test = json.loads(later(first, tmp_path / f"{number}.json", 100 * number).read_text())
        test["start"] |= changes
        written(tmp_path / f"{number}.json", test)
    summaries = imported(*sorted(tmp_path.glob("?.json"))).summaries
    assert len({tuple(summary["run"]["condition"].items()) for summary in summaries}) == 4
    assert [summary["run"]["iteration"] for summary in summaries] == [1] * 4
    conditions = [summary["run"]["condition"] for summary in summaries]
    assert conditions[1]["kernel"] == "4.15.0"
    assert conditions[2]["mss"] == "1000"
    assert conditions[3]["window"] == "65536"


def test_an_older_document_that_lacks_a_setting_separates_nothing(
    iperf3_outputs: Outcomes, imported: Import, tmp_path: Path
) -> None:
    first = later(iperf3_outputs["tcp"].client, tmp_path / "1.json", 0)
    test = json.loads(later(first, tmp_path / "2.json", 100).read_text())
    del test["start"]["test_start"]["tos"]
    written(tmp_path / "2.json", test)
    assert imported(first, tmp_path / "2.json").of_runs("iteration") == [1, 2]


def named(folder: Path, names: list[str], source: Path) -> Path:
    """Writes a different test under each name."""
    folder.mkdir()
    for number, name in enumerate(names):
        (folder / name).parent.mkdir(exist_ok=True)
        later(source, folder / name, 100 * number)
    return folder


def conditions(outcome: Outcome) -> list[tuple[dict[str, str], int]]:
    return [
        (summary["run"]["condition"], summary["run"]["iteration"]) for summary in outcome.summaries
    ]


def test_settings_in_the_names_of_files(
    iperf3_outputs: Outcomes, imported: Import, here: Here, tmp_path: Path
) -> None:
    names = [
        f"{rate}_20ms_{buffer}_{number}_reno.json"
        for rate in ("10M", "100Mbps")
        for buffer in ("1BDP", "8BDP")
        for number in (1, 2, 10)
    ]
    folder = named(tmp_path / "logs", [*names, "notes_of_mine.json"], iperf3_outputs["tcp"].client)
    outcome = imported(folder, "--name-pattern", "{rate}_{rtt}_{buffer}_{iteration}_{cca}.json")
    assert len(outcome.summaries) == 12
    assert (
        "left out: logs/notes_of_mine.json: its name does not match the pattern" in outcome.stderr
    )
    assert len(rows(here, outcome.outdir)) == 4
    of_names = {
        (condition["rate"], condition["rtt"], condition["buffer"], number)
        for condition, number in conditions(outcome)
    }
    assert of_names == {
        (rate, "20ms", buffer, number)
        for rate in ("10M", "100Mbps")
        for buffer in ("1BDP", "8BDP")
        for number in (1, 2, 3)
    }
    imports = [summary["facts"]["imported"] for summary in outcome.summaries]
    assert {(facts["rate_bps"], facts["base_rtt_s"]) for facts in imports} == {
        (1e7, 0.02),
        (1e8, 0.02),
    }
    in_order = [facts["source"] for facts in imports if "10M_20ms_1BDP" in facts["source"]]
    assert [source.split("_")[3] for source in in_order] == ["1", "2", "10"]
    assert "--name-pattern" not in here("report", outcome.outdir).output


def test_a_cca_and_folders_in_names(
    iperf3_outputs: Outcomes, imported: Import, tmp_path: Path
) -> None:
    """The client's text without -V names no CCA and no time."""
    text = "\n".join(
        line
        for line in iperf3_outputs["tcp"].text.read_text().splitlines()
        if "congestion" not in line
    )
    cookie = text.partition("Cookie: ")[2].split()[0]
    for place in ("lossy/bbr", "clean/htcp"):
        (tmp_path / "logs" / place).mkdir(parents=True)
        (tmp_path / "logs" / place / "out-7.txt").write_text(text.replace(cookie, place))
    outcome = imported(
        tmp_path / "logs", "--name-pattern", "{loss}/{cca}/{_}-{_}.txt", "--entry", "e"
    )
    assert {(condition["cca"], condition["loss"]) for condition, _ in conditions(outcome)} == {
        ("bbr", "lossy"),
        ("htcp", "clean"),
    }


def test_a_name_that_contradicts_the_file(
    iperf3_outputs: Outcomes, imported: Import, tmp_path: Path
) -> None:
    folder = named(tmp_path / "logs", ["bbr-5.json"], iperf3_outputs["tcp"].client)
    outcome = imported(folder, "--name-pattern", "{cca}-{rtt}.json")
    assert conditions(outcome)[0][0]["cca"] == "reno"
    assert "names of files say bbr, but their content says reno, which counts" in outcome.stderr
    assert "{rtt} in the names of files has no known unit" in outcome.stderr


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("", "has no field"),
        ("name.json", "has no field"),
        ("{rate}{rtt}", "nothing between them"),
        ("{rate}_{rate}", "has {rate} twice"),
        ("{rate", "a brace without its counterpart"),
        ("{ra te}.json", "is not a field name"),
        ("{}", "is not a field name"),
        ("{a}_" * 200, "is longer than"),
        ("{nowhere}:{x}.csv", "its name does not match the pattern"),
    ],
)
def test_patterns_that_are_none(
    pattern: str, why: str, iperf3_outputs: Outcomes, refused: Callable[..., str], tmp_path: Path
) -> None:
    assert why in refused(iperf3_outputs["tcp"].client, "--name-pattern", pattern)


@pytest.mark.parametrize(
    ("names", "noted"),
    [
        (["10M_cubic_1.json", "10M_cubic_2.json"], False),
        (["run-2021-08-09T18:50:57.json", "run-2021-08-10_1850.json"], False),
        (["10M_cubic_1.json", "20M_cubic_1.json", "10M_cubic_2.json"], True),
        (["10.json", "20.json", "50.json", "100.json"], True),
        (["home.json", "office.json"], True),
    ],
)
def test_a_row_says_what_it_pools(
    names: list[str],
    noted: bool,
    iperf3_outputs: Outcomes,
    imported: Import,
    here: Here,
    tmp_path: Path,
) -> None:
    folder = named(tmp_path / "logs", names, iperf3_outputs["tcp"].client)
    outcome = imported(folder)
    assert [number for _, number in conditions(outcome)] == list(range(1, len(names) + 1))
    assert ("--name-pattern" in here("report", outcome.outdir).output) == noted
