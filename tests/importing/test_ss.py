"""Logs of ss: from the real ss during a real test on loopback, and compared with the reader of
single samples as an oracle.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ccmix.importing.ss_logs import read_samples
from ccmix.probes import sockets
from ccmix.terms import CCAS
from support.imports import RATE_MBPS, SECONDS, STREAMS, Here, Import, rows


@pytest.mark.parametrize("form", ["two", "one"])
def test_a_log_beside_a_real_test(form: str, logs: dict[str, Path], imported: Import) -> None:
    outcome = imported(logs[form], "--dst", "loop")
    summary = outcome.summary
    (group,) = summary["metrics"]["groups"]
    assert (group["cca"], group["streams"]) == ("bbr", STREAMS)
    assert group["goodput_bps"] == pytest.approx(
        STREAMS * RATE_MBPS * 1e6, rel=0.2
    )  # by the last sample, not the end
    samples = pl.read_parquet(outcome.folders[0] / "sockets.parquet")
    assert {"rtt_s", "cwnd_packets", "pacing_rate_bps", "bbr_bandwidth_bps"} <= set(samples.columns)
    first_s = float(logs[form].read_text()[2:].split("\n")[0])
    assert first_s - 0.001 <= summary["began_s"] <= first_s + 1.5
    assert summary["run"]["traffic"]["duration_s"] == pytest.approx(SECONDS, abs=0.5)
    assert summary["run"]["traffic"]["interval_s"] == pytest.approx(0.12, abs=0.1)
    assert summary["facts"]["imported"]["base_rtt_s"] == samples["min_rtt_s"].min()
    assert summary["metrics"]["rtt_median_s"] is not None
    intervals = pl.read_parquet(outcome.folders[0] / "intervals.parquet")
    assert (intervals["goodput_bps"] >= 0).all()
    assert intervals["port"].n_unique() == STREAMS


def oracle(file: Path) -> list[dict[str, Any]]:
    """Reads each line of `ss -tinHO` with the reader of single samples, which expects no state."""
    rows, time_s = [], 0.0
    for line in file.read_text().splitlines():
        if line.startswith("# "):
            time_s = float(line[2:])
        elif line.startswith("ESTAB"):
            (found,) = sockets.parse(line.partition(" ")[2], CCAS)
            rows.append({"time_s": time_s} | vars(found))
    return rows


def test_columns_are_read_as_single_samples_are(logs: dict[str, Path]) -> None:
    table = read_samples(logs["one"], "ss")
    rows = oracle(logs["one"])
    assert table.height == len(rows) > STREAMS * 10
    for column in table.columns:
        wanted = [row[column] for row in rows]
        if column == "cca":
            wanted = [cca or None for cca in wanted]
        known = table[column].is_not_null().to_list()
        assert known == [value is not None for value in wanted], column
        found, wanted = (
            [value for value in values if value is not None] for values in (table[column], wanted)
        )
        assert found == (
            wanted if table[column].dtype == pl.String else pytest.approx(wanted, rel=1e-12)
        ), column
    assert set(rows[0]) == set(table.columns)


def test_both_forms_say_the_same(logs: dict[str, Path], tmp_path: Path) -> None:
    """The line of each socket is split into two."""
    two = tmp_path / "two"
    lines = []
    for line in logs["one"].read_text().splitlines():
        head, _, rest = line.partition(" skmem") if "skmem" in line else line.partition(" bbr ")
        lines += [line] if not rest else [head, f"\t bbr {rest}"]
    two.write_text("\n".join(lines) + "\n")
    one = read_samples(logs["one"], "ss").filter(pl.col("cca") == "bbr")
    assert one.equals(read_samples(two, "ss").filter(pl.col("cca") == "bbr"))


def of_time(time_s: float, *told: str) -> str:
    return f"# {time_s:.6f}\nState Recv-Q Send-Q Local Address:Port Peer Address:Port\n" + "".join(
        told
    )


def of_socket(port: int, info: str, to: str = "10.0.0.2") -> str:
    return f"ESTAB 0 0 10.0.0.1:{port} {to}:5201\n\t {info}\n"


def acked(cca: str, port: int, size: int, to: str = "10.0.0.2", more: str = "") -> str:
    return of_socket(
        port, f"{cca} wscale:7,7 rto:204 rtt:10/1 mss:1448 bytes_acked:{size} minrtt:9.5 {more}", to
    )


def written(tmp_path: Path, *parts: str) -> Path:
    file = tmp_path / "ss.log"
    file.write_text("".join(parts))
    return file


def test_counters_by_hand(imported: Import, tmp_path: Path) -> None:
    """Two flows of 10 s, the first with 1 Mbyte/s and the second with half of that; a control
    connection.
    """
    file = written(
        tmp_path,
        *(
            of_time(
                1000000000 + at,
                acked("cubic", 4000, at * 10**6, more=f"data_segs_out:{at * 1000} retrans:0/{at}"),
                acked("bbr", 4001, at * 500_000, more=f"data_segs_out:{at * 500}"),
                acked("cubic", 4002, 400),
            )
            for at in range(11)
        ),
    )
    summary = imported(file).summary
    groups = {group["group"]: group for group in summary["metrics"]["groups"]}
    assert groups["cubic"]["goodput_bps"] == 8e6
    assert groups["bbr"]["goodput_bps"] == 4e6
    assert (groups["cubic"]["streams"], groups["bbr"]["streams"]) == (1, 1)
    assert groups["cubic"]["retransmission_rate"] == 1e-3
    assert groups["bbr"]["retransmission_rate"] == 0
    assert groups["bbr"]["throughput_bps"] is None  # this ss says no bytes_sent
    assert summary["metrics"]["bytes_sent"] is None
    assert summary["run"]["condition"] == {"cca": "cubic,bbr", "streams": "2"}
    assert summary["facts"]["imported"]["base_rtt_s"] == 0.0095


def test_tests_after_each_other_and_to_several_hosts(imported: Import, tmp_path: Path) -> None:
    file = written(
        tmp_path,
        *(of_time(10**9 + at, acked("cubic", 4000, at * 10**6)) for at in range(5)),
        *(of_time(10**9 + 60 + at, acked("cubic", 4010, at * 10**6)) for at in range(5)),
        *(
            of_time(10**9 + 90 + at, acked("cubic", 4000, at * 10**6, to="10.0.0.3"))
            for at in range(5)
        ),
    )
    runs = [
        (one["run"]["dst"], one["run"]["iteration"], one["began_s"])
        for one in imported(file).summaries
    ]
    assert runs == [("10.0.0.2", 1, 1e9 + 1), ("10.0.0.2", 2, 1e9 + 61), ("10.0.0.3", 1, 1e9 + 91)]


def test_a_log_that_shows_a_limit(imported: Import, tmp_path: Path) -> None:
    """The receiver's window was the limit for half of the time: the run does not measure the path,
    and tables leave it out.
    """
    file = written(
        tmp_path,
        *(
            of_time(
                10**9 + at,
                acked(
                    "cubic",
                    4000,
                    at * 10**6,
                    more=f"busy:{at * 1000}ms rwnd_limited:{at * 500}ms(50%)",
                ),
            )
            for at in range(8)
        ),
    )
    summary = imported(file).summary
    assert summary["verdict"]["status"] == "limited"
    details = [finding["detail"] for finding in summary["verdict"]["findings"]]
    assert details[0] == "the receiver's window: 50% of the busy time"
    assert "no probe observed the hosts" in details[1]


def test_a_port_that_was_used_again(imported: Import, tmp_path: Path) -> None:
    file = written(
        tmp_path,
        *(of_time(10**9 + at, acked("cubic", 4000, 5 * 10**6 + at)) for at in range(3)),
        *(of_time(10**9 + 3 + at, acked("cubic", 4000, at * 10**6)) for at in range(5)),
    )
    summary = imported(file).summary
    assert summary["metrics"]["goodput_bps"] == 8e6


def test_logs_of_about_the_same_step_are_iterations(
    imported: Import, here: Here, tmp_path: Path
) -> None:
    """A loop slept 1 s each time, so samples of two CCAs are 1 s to 1.002 s apart; they can be
    compared.
    """
    for cca, size in (("cubic", 10**6), ("bbr", 3 * 10**6)):
        for number in range(3):
            step_s = 1 + 0.001 * number
            file = written(
                tmp_path,
                *(
                    of_time(1e9 + at * step_s, acked(cca, 4000, at * (size + number)))
                    for at in range(9)
                ),
            )
            file.rename(tmp_path / f"{cca}{number}.log")
    outcome = imported(*sorted(tmp_path.glob("*.log")), "--entry", "e")
    steps = [summary["run"]["traffic"]["interval_s"] for summary in outcome.summaries]
    assert steps == [1.0] * 6
    assert [(row["cca"], row["runs"]) for row in rows(here, outcome.outdir)] == [
        ("bbr", 3),
        ("cubic", 3),
    ]
    page = tmp_path / "page.html"
    assert here("report", outcome.outdir, "--format", "html", "-o", page).exit_code == 0
    assert "bbr alone gets 3 times cubic" in " ".join(page.read_text().split())


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (of_time(10**9) * 3, "no socket was there"),
        (of_time(10**9, of_socket(1, "cubic rto:204")) * 3, "shows no bytes_acked"),
        (of_time(10**9, acked("cubic", 1, 5)) * 3, "no socket sent data"),
    ],
)
def test_logs_without_a_test(
    content: str, said: str, refused: Callable[..., str], tmp_path: Path
) -> None:
    assert said in refused(written(tmp_path, content))


def test_dates_and_a_cut_end(imported: Import, tmp_path: Path) -> None:
    parts = [
        of_time(0, acked("cubic", 4000, at * 10**6)).replace(
            "# 0.000000", f"2021-08-09T18:50:{at:02}.250"
        )
        for at in range(9)
    ]
    whole = "".join(parts)
    summary = imported(written(tmp_path, whole[:-60])).summary
    assert summary["began_s"] == 1628535001.25  # of the first sample with data
    assert summary["metrics"]["goodput_bps"] == 8e6


@pytest.mark.parametrize(
    ("line", "begins_s"),
    [
        ("==== Time 1628535050.25 ====", 1628535051.25),
        ("==== Time 12 ====", None),  # of a clock that begins with the loop
        ("time:1628535050250000000", 1628535051.25),
        ("# 1628535050250", 1628535051.25),
        ("1628535050", 1628535051),
        ("Time: 0.5", None),
        ("2021-08-09T18:50:50.25Z", 1628535051.25),
        ("2021-08-09T20:50:50.250000000+02:00", 1628535051.25),
        ("2021-08-09 14:50:50,250 -0400", 1628535051.25),
        ("--- 2021-08-09_18:50:50 UTC ---", 1628535051),
        ("Mon Aug  9 18:50:50 UTC 2021", 1628535051),
        ("Mon Aug  9 20:50:50 CEST 2021", 1628535051),
        ("Mon 09 Aug 2021 06:50:50 PM UTC", 1628535051),
        ("Mon 09 Aug 2021 02:50:50 PM EDT", 1628535051),
        ("Mon, 09 Aug 2021 20:50:50 +0200", 1628535051),
        ("Monday, August 9, 2021 18:50:50", 1628535051),
        ("date: Mon Aug 9 18:50:50 2021", 1628535051),
    ],
)
def test_forms_of_the_time(
    line: str, begins_s: float | None, imported: Import, tmp_path: Path
) -> None:
    """A log has nine samples, each a second after the one before."""
    begin = (
        line.replace("1628535050", "162853505{}")
        .replace("50:50", "50:5{}")
        .replace("Time 12 ", "Time 1{} ")
    )
    begin = begin.replace("0.5", "{}.5") if "{}" not in begin else begin
    parts = [
        f"{begin.format(second)}\n"
        + of_time(0, acked("cubic", 4000, second * 10**6)).partition("\n")[2]
        for second in range(9)
    ]
    summary = imported(written(tmp_path, *parts)).summary
    assert summary["metrics"]["goodput_bps"] == 8e6
    assert summary["run"]["traffic"]["interval_s"] == 1
    assert summary["began_s"] == begins_s


@pytest.mark.parametrize(
    "line",
    [
        "",
        "and now:",
        "99:99:99",
        "12",
        "Mon Aug 9 never",
        "2021-02-30T18:50:50",
        "TIME-WAIT 12",
        "9" * 30,
        "Mon Feb 30 18:50:50 UTC 2021",
        "Mon Aug 9 98:99:50 UTC 2021",
        "Mon Aug 9 18:50:50 +9999 2021",
    ],
)
def test_a_log_without_times_says_so(
    line: str, refused: Callable[..., str], tmp_path: Path
) -> None:
    parts = [
        f"{line}\n" + of_time(0, acked("cubic", 4000, at * 10**6)).partition("\n")[2]
        for at in range(5)
    ]
    error = refused(written(tmp_path, *parts))
    assert "no line before its sockets has a time in a known form" in error
    assert "date '+# %s.%N'" in error


def test_a_log_without_times_beside_another(imported: Import, tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    written(
        folder, *(of_time(10**9 + at, acked("cubic", 4000, at * 10**6)) for at in range(5))
    ).rename(folder / "1")
    written(folder, acked("cubic", 4000, 10**6), acked("cubic", 4000, 2 * 10**6))
    outcome = imported(folder)
    assert len(outcome.summaries) == 1
    assert "left out: logs/ss.log: no line before its sockets has a time" in outcome.stderr
