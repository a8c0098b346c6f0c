"""Tables as CSV: an excerpt of the table published with Tierney et al. 2021, and possible mistakes
in tables.
"""

import csv
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.imports import DATA, Here, Import, rows, written

TIERNEY = DATA / "tierney-2021-excerpt.csv"


def of_tierney(host: str, test: str, streams: str, cca: str) -> list[dict[str, str]]:
    with TIERNEY.open() as file:
        want = {"host": host, "test": test, "streams": streams, "cca": cca}
        return [row for row in csv.DictReader(file) if want.items() <= row.items()]


@pytest.mark.parametrize(
    ("host", "test", "streams", "ccas"),
    [
        ("psl01.pic.es", "bbr2", "1", ("bbr2",)),
        ("perfsonar.oshean.org", "cubic", "16", ("cubic",)),
        ("psl01.pic.es", "both", "16", ("cubic", "bbr2")),
    ],
)
def test_a_published_table_is_reported_as_it_stands(
    host: str, test: str, streams: str, ccas: tuple[str, ...], imported: Import, here: Here
) -> None:
    outcome = imported(TIERNEY, "--src", "bost-dtn")
    condition = {"cca": ",".join(ccas), "streams": streams}
    for cca in ccas:
        there = of_tierney(host, test, streams, cca)
        (row,) = [
            row
            for row in rows(here, outcome.outdir)
            if (row["dst"], row["condition"], row["cca"]) == (host, condition, cca)
        ]
        assert (row["runs"], row["invalid"], row["streams"]) == (
            len(there),
            0,
            int(streams) // len(ccas),
        )
        rates = [float(one["throughput_Gbps"]) * 1e9 for one in there]
        assert row["goodput_mean_bps"] == pytest.approx(statistics.fmean(rates), rel=1e-12)
        assert row["goodput_cv"] == pytest.approx(statistics.stdev(rates) / statistics.fmean(rates))
        again = statistics.fmean(float(one["retransmit_rate"]) for one in there)
        assert row["retransmission_rate_mean"] == pytest.approx(again)
        assert row["rtt_median_s"] == pytest.approx(
            statistics.fmean(float(one["rtt_ms"]) for one in there) / 1e3
        )


def test_what_a_table_lacks_is_marked_and_nothing_is_made_up(imported: Import, here: Here) -> None:
    outcome = imported(TIERNEY)
    assert len(outcome.summaries) == 50  # 60 lines, of which 20 are two of a mixed test
    for summary in outcome.summaries:
        assert summary["verdict"]["status"] == "unknown"
        (finding,) = summary["verdict"]["findings"]
        assert (finding["kind"], finding["accepted"]) == ("imported", True)
        assert (
            "no probe observed the hosts; a table has no series, the duration is not known"
            in finding["detail"]
        )
        assert (summary["began_s"], summary["ended_s"], summary["ping_rtt_s"]) == (None, None, {})
        assert summary["facts"]["imported"]["estimated"] == ["goodput_bps"]
        unknown = (
            "utilisation",
            "fairness",
            "bytes_sent",
            "rtt_p95_s",
            "convergence_s",
            "bottleneck",
            "startup_s",
        )
        assert {summary["metrics"][name] for name in unknown} == {None}
        assert summary["metrics"]["flows"] == []
    assert not list(outcome.outdir.rglob("*.parquet"))
    told = here("report", outcome.outdir)
    assert (
        "50 runs were imported: ccmix did not check whether their hosts limited them" in told.stderr
    )


def table_rows(summary: dict[str, Any]) -> list[dict[str, str]]:
    """Returns the lines of the table that the run keeps."""
    rows: dict[str, dict[str, str]] = {}
    for name, text in summary["facts"]["imported"]["details"]:
        _, number, column = name.split(" ", 2)
        rows.setdefault(number, {})[column] = text
    return list(rows.values())


def test_each_run_keeps_its_lines(imported: Import) -> None:
    summaries = imported(TIERNEY).summaries
    kept = [row for summary in summaries for row in table_rows(summary)]
    with TIERNEY.open() as file:
        assert kept == list(csv.DictReader(file))
    with TIERNEY.open() as file:
        lines = file.read().splitlines()
    for summary in summaries:
        number = int(summary["facts"]["imported"]["source"].rpartition(":")[2])
        assert lines[number - 1] == ",".join(table_rows(summary)[0].values())


def test_what_the_user_tells_is_taken(imported: Import) -> None:
    outcome = imported(
        TIERNEY, "--src", "a", "--dst", "b", "--entry", "e", "--rtt", "5ms", "--rate", "40gbit"
    )
    summary = outcome.summaries[0]
    assert (summary["run"]["entry"], summary["run"]["dst"], summary["run"]["path"]["src"]) == (
        "e",
        "b",
        "a",
    )
    assert summary["facts"]["imported"]["base_rtt_s"] == 0.005
    assert summary["metrics"]["utilisation"] == summary["metrics"]["goodput_bps"] / 40e9


def test_the_cca_that_the_user_tells_is_of_tests_without_one(
    imported: Import, tmp_path: Path
) -> None:
    table = written(tmp_path / "t.csv", "host,test,cca,throughput_Gbps\nh,1,bbr,1\nh,2,,1\n")
    summaries = imported(table, "--cca", "cubic").summaries
    assert [summary["run"]["condition"]["cca"] for summary in summaries] == ["bbr", "cubic"]


def test_an_entry_for_each_path(imported: Import) -> None:
    outcome = imported(TIERNEY, "--entry", "{dst}-{streams} {x}")
    hosts, streams = ("psl01.pic.es", "perfsonar.oshean.org"), ("1", "16")
    assert {summary["run"]["entry"] for summary in outcome.summaries} == {
        f"{host}-{count} {{x}}" for host in hosts for count in streams
    }


def test_base_rtts_that_the_user_tells_make_buckets(imported: Import, here: Here) -> None:
    outcome = imported(TIERNEY, "--rtt", "88ms")
    told = here("report", outcome.outdir, "--rtt-buckets")
    assert "≥ 30ms" in told.stdout
    assert (
        "unknown" not in told.stdout.partition("┏")[2]
    )  # the heading says that the sender has no name


def test_columns_that_are_settings(imported: Import, tmp_path: Path) -> None:
    table = written(
        tmp_path / "sweep.csv",
        "buffer_KB,test,cca,goodput_mean_Mbps,trials\n100,1,bbr,9.5,5\n100,1,cubic,9.6,5\n1000,2,bbr,9.7,5\n",
    )
    outcome = imported(table, "--setting", "buffer_KB", "--dst", "h2")
    assert outcome.conditions == [
        {"cca": "bbr,cubic", "streams": "unknown", "buffer_KB": "100"},
        {"cca": "bbr", "streams": "unknown", "buffer_KB": "1000"},
    ]
    assert [group["goodput_bps"] for group in outcome.summaries[0]["metrics"]["groups"]] == [
        9.5e6,
        9.6e6,
    ]
    assert outcome.summaries[0]["facts"]["imported"]["estimated"] == []


def test_without_a_test_each_line_is_one_and_what_is_unclear_is_told(
    imported: Import, here: Here, tmp_path: Path
) -> None:
    """Only a column 'test' can tell whether CCAs ran at the same time."""
    table = written(
        tmp_path / "t.csv", "host,cca,throughput_Gbps\na,bbr,1\na,cubic,2\nb,cubic,3\nc,cubic,4\n"
    )
    outcome = imported(table)
    assert [summary["run"]["condition"]["cca"] for summary in outcome.summaries] == [
        "bbr",
        *["cubic"] * 3,
    ]
    assert outcome.stderr.count("t.csv: consecutive lines differ only in CCA and results") == 1
    told = [len(summary["execution"]["diagnostics"]) for summary in outcome.summaries]
    assert told == [2, 2, 1, 1]  # one says that goodput is from the sender
    table.write_text("host,test,cca,throughput_Gbps\na,1,bbr,1\na,1,cubic,2\na,,bbr,3\n")
    tests = here("import", table, "-o", tmp_path / "tests", "--dry-run")
    assert (tests.exit_code, tests.stderr.strip(), len(tests.stdout.splitlines())) == (0, "", 1 + 2)


def test_two_columns_of_one_name_are_refused(refused: Callable[..., str], tmp_path: Path) -> None:
    table = written(tmp_path / "t.csv", "host,host,throughput_Gbps\na,b,1\n")
    assert "t.csv:1: several columns are named 'host'" in refused(table)


def test_a_long_setting_is_answered_with_what_shortens_it(
    refused: Callable[..., str], tmp_path: Path
) -> None:
    table = written(tmp_path / "t.csv", f"host,note,throughput_Gbps\na,{'n' * 300},1\n")
    assert "shorten note in the file or leave out its --setting" in refused(
        table, "--setting", "note"
    )
    table.write_text("host,throughput_Gbps\na,1\n")
    assert "bytes too long for a folder's name: give another one with --cca" in refused(
        table, "--cca", "c" * 300
    )
    table.write_text(f"host,src,throughput_Gbps\na,x,1\na,{'s' * 250},1\n")
    assert "bytes too long for a folder's name: give another one with --src" in refused(table)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("h,1,bbr,fast,5", "t.csv:3: throughput_Gbps: 'fast' is not a number"),
        ("h,1,bbr,1_000,5", "t.csv:3: throughput_Gbps: '1_000' is not a number"),
        ("h,1,bbr,١,5", "t.csv:3: throughput_Gbps: '١' is not a number"),
        ("h,1,bbr,1e308,5", "t.csv:3: throughput_Gbps: '1e308' is not a finite number"),
        ("h,1,bbr,-1,5", "t.csv:3: throughput_Gbps: '-1' is not from 0 to 1e+15"),
        ("h,1.5,bbr,1,5", "t.csv:3: streams: 1.5 is not a number of streams"),
        ("h,1,bbr,1", "t.csv:3: has 4 columns and the header 5"),
        ("h,1,bbr,1,-5", "t.csv:3: rtt_ms: '-5' is not from 0"),
        (
            f"{'h' * 300},1,bbr,1,5",
            "is 45 bytes too long for a folder's name: give another one with --dst",
        ),
        (f"h,1,{'c' * 300},1,5", "bytes too long for a folder's name: shorten cca in the file"),
        (f"{'h' * 200_000},1,bbr,1,5", "t.csv:3: is not CSV: field larger than field limit"),
    ],
)
def test_a_wrong_line_is_named_and_nothing_is_written(
    line: str, said: str, refused: Callable[..., str], tmp_path: Path
) -> None:
    table = written(
        tmp_path / "t.csv", f"host,streams,cca,throughput_Gbps,rtt_ms\nh,1,bbr,2,5\n{line}\n"
    )
    assert said in refused(table)


def test_names_from_a_table_stay_names(imported: Import, tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    names = ["../../../evil", "..", "/etc/passwd", "ü 漢", "[red]x[/]", ""]
    table.write_text("host,cca,throughput_Gbps\n" + "".join(f"{name},../..,1\n" for name in names))
    outcome = imported(table)
    assert outcome.of_runs("dst") == [*names[:-1], "unknown"]
    assert all(folder.resolve().is_relative_to(outcome.outdir) for folder in outcome.folders)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["imported", "t.csv"]


def test_control_characters_reach_no_terminal_and_no_chart(
    imported: Import, refused: Callable[..., str], tmp_path: Path
) -> None:
    table = written(
        tmp_path / "t\x1b.csv",
        "host,entry,cca,throughput_Gbps,a\x1b\nh\x1b[31m,e\x07,c\x00,\x1b[2J,v\x9b\n",
    )
    assert "t?.csv:2: throughput_Gbps: '\ufffd[2J' is not a number" in refused(
        table, "--setting", "a\x1b"
    )
    table.write_text(table.read_text().replace("\x1b[2J", "1"))
    summary = imported(table, "--setting", "a\x1b").summary
    run = summary["run"]
    assert (run["dst"], run["entry"]) == ("h?[31m", "e?")
    assert run["condition"] == {"cca": "c?", "streams": "unknown", "a?": "v?"}
    assert [group["group"] for group in summary["metrics"]["groups"]] == ["c?"]
    assert summary["verdict"]["findings"][0]["detail"].startswith("imported from t?.csv:2: ")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("ends", ["\n", "\r\n"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_tables_of_other_programs(
    encoding: str, ends: str, delimiter: str, imported: Import, tmp_path: Path
) -> None:
    lines = ["Host,CCA,Throughput (Mbps)", "zürich,cubic,10", "genève,bbr,20"]
    table = tmp_path / "t.csv"
    table.write_bytes((ends.join(lines) + ends).replace(",", delimiter).encode(encoding))
    summaries = imported(table).summaries
    assert [summary["run"]["dst"] for summary in summaries] == ["zürich", "genève"]
    assert [summary["metrics"]["goodput_bps"] for summary in summaries] == [10e6, 20e6]


def test_another_encoding_is_named(refused: Callable[..., str], tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_bytes("host,throughput_Gbps\nzürich,1\n".encode("latin-1"))
    assert "t.csv:2: is not text in UTF-8: convert the file" in refused(table)


DAT = """[["far", "bbr2", 1, "bbr2", 0.279, "0.00000872", 0, 117], ["far", "both", 16, "cubic", 0.052, "0.01", 0, 152],
 ["far", "both", 16, "bbr2", 0.297, "0.00748604", null, 152], ["near", "cubic", 2, "cubic", 7, "0", 3, 1]]
"""


def test_rows_of_the_harness_s_own_script(imported: Import, here: Here, tmp_path: Path) -> None:
    file = tmp_path / "20210803_bost_40g.dat"
    file.write_text(
        DAT + "far,bbr2,1,bbr2,0.279,0.00000872,0,117\n"
    )  # its CSV of the same rows follows
    outcome = imported(file, "--src", "bost")
    assert [
        (row["cca"], row["streams"], row["goodput_mean_bps"], row["rtt_median_s"])
        for row in rows(here, outcome.outdir)
    ] == [
        ("bbr2", 1, 279e6, 0.117),
        ("cubic", 8, 52e6, 0.152),
        ("bbr2", 8, 297e6, 0.152),
        ("cubic", 2, 7e9, 1e-3),
    ]
    assert outcome.of_runs("dst") == ["far", "far", "near"]


def test_rows_with_other_columns(imported: Import, here: Here, tmp_path: Path) -> None:
    file = written(tmp_path / "mine.dat", '[["far", "bbr", 25.5]]')
    assert [
        (row["cca"], row["goodput_mean_bps"])
        for row in rows(here, imported(file, "--columns", "dst, cca, goodput_mbps").outdir)
    ] == [("bbr", 25.5e6)]


THEIRS = """,ALIAS,TIMESTAMP,PACING,THROUGHPUT (Receiver),LATENCY (mean),CONGESTION (Sender)
0,hostA,2021-06-28T18:53:00.826Z,1gbit,1623276822,30185.5,cubic
1,hostA,2021-06-28T18:54:13.558Z,1gbit,1652145315,60378.5,cubic
2,hostA,,2gbit,983358400.3,91801,cubic
3,hostA,yesterday,2gbit,983358400.3,91801,cubic
"""
OURS = "THROUGHPUT (Receiver)=goodput_bps,LATENCY (mean)=rtt_us,CONGESTION (Sender)=cca,ALIAS=dst"


def test_columns_of_other_names(imported: Import, here: Here, tmp_path: Path) -> None:
    file = written(tmp_path / "statistics-5.csv", THEIRS)
    outcome = imported(file, "--columns", OURS)
    (row,) = rows(here, outcome.outdir)
    assert (row["cca"], row["runs"], row["goodput_mean_bps"]) == (
        "cubic",
        4,
        pytest.approx(1310534734.4),
    )
    assert outcome.summaries[0]["metrics"]["rtt_median_s"] == pytest.approx(0.0301855)
    assert [summary["began_s"] for summary in outcome.summaries] == [
        1624906380.826,
        1624906453.558,
        None,
        None,
    ]
    assert "PACING has several values" in here("report", outcome.outdir).output


def test_a_column_of_another_name_as_a_setting(
    imported: Import, here: Here, tmp_path: Path
) -> None:
    file = written(tmp_path / "statistics-5.csv", THEIRS)
    outcome = imported(file, "--columns", OURS, "--setting", "PACING")
    assert [row["condition"]["PACING"] for row in rows(here, outcome.outdir)] == ["1gbit", "2gbit"]
    assert "several values" not in here("report", outcome.outdir).output


@pytest.mark.parametrize(
    ("content", "columns", "why"),
    [
        (THEIRS, None, "--columns 'RATE=goodput_mbps'"),
        (THEIRS, "NOWHERE=goodput_bps", "has no column 'NOWHERE' for --columns"),
        (THEIRS, "goodput_bps", "is not THEIRS=OURS"),
        (THEIRS, "ALIAS=", "is not THEIRS=OURS"),
        (THEIRS, "", "is not THEIRS=OURS"),
        (DAT, "host=dst", "rows without a header need only the names"),
        (DAT, "dst,goodput_bps", "row 1 has 8 values for 2 columns"),
        ("[[1, 2], 3]", "dst,goodput_bps", "row 2 is not a list of values"),
        ("[[[1], 2]]", "dst,goodput_bps", "row 1 is not a list of values"),
        ("[[1, 2]", "dst,goodput_bps", "is not valid JSON"),
        ("[[]]", None, "row 1 has 0 values"),
        (
            '[["a", "both", 16, "cubic", "fast", 0, 0, 1]]',
            None,
            "throughput_Gbps: 'fast' is not a number",
        ),
    ],
)
def test_columns_that_are_none(
    content: str, columns: str | None, why: str, refused: Callable[..., str], tmp_path: Path
) -> None:
    file = written(tmp_path / "table.csv", content)
    options = ("--as", "table") if columns is None else ("--columns", columns)
    assert why in refused(file, *options)


def test_copies_of_a_table_are_one_observation_and_are_named(
    imported: Import, here: Here, tmp_path: Path
) -> None:
    """Equal lines of one table are different tests."""
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("dst,cca,goodput_mbps\nx,cubic,5\nx,cubic,5\n")
    (tmp_path / "c.csv").write_text("dst,cca,goodput_mbps\nx,cubic,6\nx,cubic,5\n")
    files = [tmp_path / name for name in ("a.csv", "b.csv", "c.csv")]
    named = "left out: b.csv: is a copy of a.csv"
    listed = here("import", *files, "-o", tmp_path / "listed", "--dry-run")
    assert named in listed.stderr
    assert listed.stdout.count("x") == 4 + listed.stdout.splitlines()[0].count("x")
    outcome = imported(*files)
    assert named in outcome.stderr
    assert len(outcome.summaries) == 4


def test_a_table_with_very_many_columns_is_refused(
    refused: Callable[..., str], tmp_path: Path
) -> None:
    names = ",".join(f"c{number}" for number in range(200_000))
    (tmp_path / "wide.csv").write_text(f"dst,goodput_bps,{names}\na,1e9{',1' * 200_000}\n")
    sentence = refused(tmp_path / "wide.csv")
    assert "wide.csv:1: has 200002 columns, but at most 2000 are read" in sentence
