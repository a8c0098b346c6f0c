"""Logs of ss: from the real ss during a real test on loopback, and compared with the reader of
single samples as an oracle.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ccmix.importing import ss_logs
from ccmix.importing.ss_logs import read_samples
from ccmix.importing.values import ForeignRun
from ccmix.probes import sockets
from ccmix.terms import CCAS
from support.imports import DATA, RATE_MBPS, SECONDS, STREAMS, Here, Import, rows


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


INFO = (
    "cubic wscale:7,7 rto:223 rtt:22.5/1.2 mss:1448 cwnd:20 bytes_sent:{sent} bytes_acked:{acked} "
    "segs_out:{second} data_segs_out:{second} pacing_rate 12357328bps retrans:0/{second} minrtt:20"
)


def log_of(
    socket: str = "ESTAB 0 90316 192.0.2.1:38423 192.0.2.2:5201",
    info: str = f"\t {INFO}",
    before_output: str = "# {time}",
    before_line: str = "",
    header: str = "State Recv-Q Send-Q Local Address:Port Peer Address:Port Process",
    others: str = "",
    begin_s: int = 1700000000,
) -> str:
    """A log of 11 samples of a socket that sends 1 Mbyte/s."""
    lines = []
    for second in range(11):
        day_s = (begin_s + second) % 86400
        fields = {
            "time": f"{begin_s + second}.000000000",
            "epoch": begin_s + second,
            "clock": f"{day_s // 3600:02}:{day_s // 60 % 60:02}:{day_s % 60:02}",
            "second": second,
            "sent": second * 10**6 + 100_000,
            "acked": second * 10**6 + 1,
        }
        output = "\n".join(filter(None, (before_output, header, others, socket, info)))
        lines += [f"{before_line}{line}".format(**fields) for line in output.split("\n")]
    return "\n".join(lines) + "\n"


OTHERS = """\
LISTEN 0 4096 0.0.0.0:5201 0.0.0.0:*
\t cubic cwnd:10
TIME-WAIT 0 0 192.0.2.1:40000 192.0.2.2:5201
SYN-SENT 0 1 192.0.2.1:40001 198.51.100.1:443
\t cubic rto:1000 backoff:3 mss:524 cwnd:1 ssthresh:7 segs_out:4 unacked:1 retrans:1/3 lost:1
CLOSE-WAIT 1 0 192.0.2.1:40002 198.51.100.1:443
\t cubic wscale:7,7 rto:204 rtt:10/1 mss:1448 cwnd:10 bytes_sent:99999999 bytes_acked:99999999
FIN-WAIT-1 0 5 [2001:db8::1]:40003 [2001:db8::2]:443
\t bbr wscale:7,7 rto:204 rtt:10/1 mss:1448 cwnd:10 bytes_sent:500 bytes_acked:400"""
UDP = "udp UNCONN 0 0 127.0.0.1:323 0.0.0.0:*\nu_str ESTAB 0 0 * 1234 * 1235"
TABLE = "192.0.2.1:38423 192.0.2.2:5201"
FORMS: dict[str, dict[str, Any]] = {
    "two lines": {},
    "CR LF": {"info": f"\t {INFO}\r", "before_output": "# {time}\r"},
    "one line": {"socket": f"ESTAB 0 90316 {TABLE} {INFO}", "info": "", "header": ""},
    "no state": {"socket": f"0 90316 {TABLE}"},
    "Netid": {"socket": f"tcp   ESTAB 0 90316 {TABLE}", "others": UDP},
    "Netid, one line": {"socket": f"tcp ESTAB 0 90316 {TABLE} {INFO}", "info": ""},
    "processes": {"socket": f'ESTAB 0 9 {TABLE} users:(("iperf3",pid=58030,fd=4))'},
    "timers and more": {
        "socket": f"ESTAB 0 9 {TABLE} timer:(on,200ms,0) uid:1000 ino:7 sk:1001 cgroup:/a <->",
        "info": f"\t skmem:(r0,rb131072,t0,tb87040,f0,w0,o0,bl0,d0) ts sack {INFO}",
    },
    "services": {"socket": "ESTAB 0 9 192.0.2.1:38423 192.0.2.2:https"},
    "unknown services": {"socket": "ESTAB 0 9 192.0.2.1:some-name 192.0.2.2:a.service"},
    "names": {"socket": "ESTAB 0 9 h1.example.org:38423 h2.example.org:ssh"},
    "IPv6": {"socket": "ESTAB 0 9 [2001:db8::1]:38423 [2001:db8::2]:5201"},
    "old IPv6": {"socket": "ESTAB 0 9 2001:db8::1:38423 2001:db8::2:5201"},
    "IPv4 in IPv6": {"socket": "ESTAB 0 9 [::ffff:192.0.2.1]:38423 [::ffff:192.0.2.2]:5201"},
    "device": {"socket": "ESTAB 0 9 192.0.2.1%eth0:38423 192.0.2.2:5201"},
    "scope": {"socket": "ESTAB 0 9 [fe80::1]%eth0:38423 [fe80::2]%eth0:5201"},
    "scope within": {"socket": "ESTAB 0 9 [fe80::1%eth0]:38423 [fe80::2%eth0]:5201"},
    "all states": {"others": OTHERS},
    "MPTCP": {
        "info": f"\t {INFO} tcp-ulp-mptcp flags:MBec token:0000(id:0)/e45e(id:0) seq:1 sfseq:1",
        "others": f"mptcp ESTAB 0 0 {TABLE}\n\t subflows_max:2 token:e45e write_seq:1 snd_una:1",
        "socket": f"tcp ESTAB 0 0 {TABLE}",
    },
    "clock": {"before_output": "{clock}"},
    "marked clock": {"before_output": "=== {clock}.000 ==="},
    "clock over midnight": {"before_output": "{clock}", "begin_s": 1700006395},
    "ts with seconds": {"before_output": "", "before_line": "{time} "},
    "ts with whole seconds": {"before_output": "", "before_line": "{epoch} "},
    "ts": {"before_output": "", "before_line": "Nov 14 {clock} "},
    "ts with the date": {"before_output": "", "before_line": "2023-11-14T{clock}Z "},
    "ts in brackets": {"before_output": "", "before_line": "[2023-11-14 {clock}] "},
    "ts with a clock": {"before_output": "", "before_line": "{clock}.000 "},
    "ts as date": {"before_output": "", "before_line": "Tue Nov 14 {clock} UTC 2023 "},
    "ts, no state": {
        "before_output": "",
        "before_line": "{clock} ",
        "header": "",
        "socket": f"0 90316 {TABLE}",
    },
    "ts, Netid, a loop over lines": {
        "before_output": "",
        "before_line": "{time} ",
        "socket": f"tcp ESTAB 0 0 {TABLE}",
        "info": INFO,
        "others": UDP,
    },
}


def run_of(log: str, tmp_path: Path) -> ForeignRun:
    """The only run of a log."""
    assert ss_logs.is_log(log)
    (run,) = ss_logs.tests_in(read_samples(written(tmp_path, log), "ss"), "ss")
    assert isinstance(run, ForeignRun)
    return run


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_ss(form: str, tmp_path: Path) -> None:
    run = run_of(log_of(**FORMS[form]), tmp_path)
    assert not isinstance(run.results, tuple)
    (flow,) = run.results.flows.rows(named=True)
    assert (flow["goodput_bps"], flow["cca_used"], flow["retransmits"]) == (8e6, "cubic", 10)
    assert (run.duration_s, run.interval_s) == (10, 1)
    begin_s = None if "clock" in form or form in ("ts", "ts, no state") else 1700000000
    assert run.began_s == begin_s
    ends = {"h1.example.org": "h2.example.org", "2001:db8::1": "2001:db8::2", "fe80::1": "fe80::2"}
    assert run.dst == run.dst_address == ends.get(str(run.src), "192.0.2.2")
    assert run.src in (*ends, "192.0.2.1")


def test_ports_of_services(tmp_path: Path) -> None:
    samples = read_samples(written(tmp_path, log_of(**FORMS["services"])), "ss")
    assert isinstance(samples, pl.DataFrame)
    assert samples["remote_port"].unique().to_list() == [443]
    samples = read_samples(written(tmp_path, log_of(**FORMS["unknown services"])), "ss")
    assert isinstance(samples, pl.DataFrame)
    assert samples.filter(pl.col("remote_port") <= 65535).is_empty()
    assert samples["local_port"].n_unique() == 1
    assert samples["local_port"][0] != samples["remote_port"][0]


def test_a_socket_that_sends_on_after_its_other_end_closed(tmp_path: Path) -> None:
    """Its counters count as long as they grow."""
    half = log_of(socket=f"CLOSE-WAIT 0 90316 {TABLE}")
    idle = "".join(
        f"# {1700000010 + second}.5\n{half.rpartition('# ')[2].partition(chr(10))[2]}"
        for second in range(60)
    )
    run = run_of(half + idle, tmp_path)
    assert (run.duration_s, run.goodput_bps) == (9, 8e6)


def test_ts_at_each_line_of_several_sockets(tmp_path: Path) -> None:
    """The times of sockets in an output differ by less than a millisecond."""
    lines = [
        line
        for second in range(11)
        for port in range(3)
        for line in (
            f"{1700000000 + second}.000{port}1 ESTAB 0 9 192.0.2.1:{4000 + port} 192.0.2.2:5201",
            f"{1700000000 + second}.000{port}2 \t "
            + INFO.format(sent=second * 10**6, acked=second * 10**6, second=second),
        )
    ]
    run = run_of("\n".join(lines) + "\n", tmp_path)
    assert (run.streams, run.interval_s) == (3, 1)
    assert run.goodput_bps == pytest.approx(24e6, rel=1e-3)


@pytest.mark.parametrize(
    "state",
    [
        "bbr:(bw:9Mbps,mrtt:20,pacing_gain:1.25,cwnd_gain:2)",
        "bbr:(version:3,bw:9Mbps,bw_hi:10Mbps,bw_lo:18446744073709.6Mbps,mrtt:20,mode:2,phase:1,"
        "pacing_gain:1.25,cwnd_gain:2,inflight_lo:4294967295,inflight_hi:90,extra_acked:3)",
        "bbr:(bw_hi:10Mbps,bw_lo:8Mbps,bw:9Mbps,min_rtt:19,mrtt:20,cwnd_gain:2,pacing_gain:1.25)",
    ],
)
def test_state_of_bbr(state: str, tmp_path: Path) -> None:
    info = INFO.replace("cubic", "bbr").replace("pacing_rate", f"{state} pacing_rate")
    samples = read_samples(written(tmp_path, log_of(info=f"\t {info}")), "ss")
    assert isinstance(samples, pl.DataFrame)
    names = ("cca", "bbr_bandwidth_bps", "bbr_min_rtt_s", "bbr_pacing_gain", "bbr_cwnd_gain")
    assert samples.select(names).unique().rows() == [("bbr", 9e6, 0.02, 1.25, 2)]


def test_parts_of_a_large_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each sample is whole, wherever a part of the log ends."""
    for form in ("two lines", "Netid", "all states", "ts", "ts, Netid, a loop over lines"):
        log = written(tmp_path, log_of(**FORMS[form]))
        whole = read_samples(log, "ss")
        assert isinstance(whole, pl.DataFrame)
        for size in (700, 1013):
            with monkeypatch.context() as changed:
                changed.setattr("ccmix.importing.ss_logs.CHUNK_BYTES", size)
                assert whole.equals(read_samples(log, "ss")), (form, size)


@pytest.mark.parametrize("name", ["c2-ts-each-line", "c3-netid", "c5-scope"])
def test_reported_logs(name: str, imported: Import) -> None:
    summary = imported(DATA / "reports" / f"{name}.log").summary
    assert summary["metrics"]["goodput_bps"] == 8e6
    assert summary["began_s"] == 1700000000
    path = summary["run"]["path"]
    ends = ("192.0.2.1", "192.0.2.2") if name == "c5-scope" else ("2001:db8::1", "2001:db8::2")
    assert (path["src"], path["dst"]["name"], path["dst"]["address"]) == (*ends, ends[1])
