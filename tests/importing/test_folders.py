"""Folders with results among other files, and results within other JSON or compressed files."""

import bz2
import gzip
import json
import lzma
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ccmix.tools import find_iperf3
from support.imports import DATA, Here, Import, written
from support.ports import await_listening, free_port

REPORTS = DATA / "reports"
MONROE = json.loads((REPORTS / "a9-monroe.json").read_text())
RESULT: Mapping[str, Any] = MONROE["Results"]
TEXT = """\
Connecting to host 192.0.2.2, port 5201
[  5] local 192.0.2.1 port 50000 connected to 192.0.2.2 port 5201
[ ID] Interval           Transfer     Bitrate         Retr  Cwnd
[  5]   0.00-1.00   sec   112 MBytes   941 Mbits/sec    0    372 KBytes
- - - - - - - - - - - - - - - - - - - - - - - - -
[ ID] Interval           Transfer     Bitrate         Retr
[  5]   0.00-1.00   sec   112 MBytes   941 Mbits/sec    0             sender
[  5]   0.00-1.00   sec   112 MBytes   940 Mbits/sec                  receiver
"""
QUOTED = f"# Notes\nRun it:\n```\n{TEXT}```\n" + "It was fast.\n" * 5
NOT_RESULTS = {
    "plots/rate.png": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
    "paper.pdf": b"%PDF-1.5\n[  5] stream\n{\n",
    "frame.pkl": b"\x80\x04\x95\x10\0\0\0{\n",
    "plot.ipynb": json.dumps({"cells": [{"source": [TEXT]}]}, indent=1).encode(),
    "plot.py": b'"""Plots.\n\n' + TEXT.encode() + b'"""\n' + b"import json\nprint(1)\n" * 20,
    "parse.c": b"#include <stdio.h>\nint main(void)\n{\n\treturn 0;\n}\n",
    "README.md": QUOTED.encode(),
    "doc.md": b"# Format\n```json\n" + json.dumps(RESULT, indent=1).encode() + b"\n```\n",
    "settings.json": b'{\n  "a": 1, // why\n  "b": [1, 2]\n}\n',
    "tsconfig.json": b'// settings\n{ "compilerOptions": {} }\n',
    "cut.json": b'{"start": {"version": ',
    "numbers.json": b"[[1, 2], [3, 4]]",
    "cut.json.gz": gzip.compress(b"{}" * 1000)[:20],
    "pyproject.toml": b'[project]\nname = "x"\n\n[[tool.x]]\na = [\n  "b",\n]\n',
    "latin1.txt": TEXT.encode() + b"\xe9\n",
}


def filled(folder: Path, files: Mapping[str, bytes]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def test_results_among_other_files(imported: Import, tmp_path: Path, here: Here) -> None:
    folder = filled(tmp_path / "work", NOT_RESULTS)
    hidden = {".git/objects/a.json": RESULT, ".cache/b.json": RESULT, "logs/a.json": RESULT}
    filled(folder, {name: json.dumps(content).encode() for name, content in hidden.items()})
    filled(folder, {"logs/c.txt": TEXT.encode()})
    assert here("import", REPORTS / "c5-scope.log", "-o", folder / "other").exit_code == 0
    outcome = imported(folder)
    assert sorted(outcome.of_imports("source")) == ["work/logs/a.json:1", "work/logs/c.txt:1"]
    lines = outcome.stderr.splitlines()
    for name in NOT_RESULTS:
        suffix = Path(name).suffix
        assert any(f"work/{name}" in line or f"more {suffix}" in line for line in lines), name
    assert "left out: work/.cache and 1 more: is a hidden folder" in lines
    assert "left out: work/other: is an archive of ccmix, which" in outcome.stderr
    assert len(lines) <= len(NOT_RESULTS) + 3


def test_one_kind_is_one_line(imported: Import, tmp_path: Path) -> None:
    files = {f"scripts/{number}.py": b"import os\n" for number in range(50)}
    folder = filled(tmp_path / "work", files | {"a.txt": TEXT.encode()})
    assert imported(folder).stderr.splitlines()[0] == (
        "left out: work/scripts/0.py and 49 more .py: is of an unknown kind"
    )


def test_exit_statuses(outdir: Path, here: Here, tmp_path: Path) -> None:
    folder = filled(tmp_path / "work", {"notes.md": b"Notes\n"})
    assert here("import", folder, "-o", outdir).exit_code == 1
    filled(folder, {"a.txt": TEXT.encode()})
    strict = here("import", folder, "-o", outdir, "--strict")
    assert strict.exit_code == 1
    assert "left out: work/notes.md" in strict.stderr
    assert not outdir.exists()
    assert here("import", folder, "-o", outdir).exit_code == 0
    assert here("import", folder / "a.txt", "-o", tmp_path / "whole", "--strict").exit_code == 0


def test_a_bad_file_refuses_no_good_one(imported: Import, tmp_path: Path) -> None:
    good = written(tmp_path / "good.json", RESULT)
    bad = written(tmp_path / "bad.csv", "host,cca,throughput_Gbps\nh,cubic,fast\n")
    cut = written(tmp_path / "cut.json", json.dumps(RESULT)[:-300])
    outcome = imported(good, bad, cut)
    assert outcome.of_imports("source") == ["good.json:1"]
    assert "left out: bad.csv:2: throughput_Gbps: 'fast' is not a number" in outcome.stderr
    assert "left out: cut.json:1: is not valid JSON" in outcome.stderr


def other_test(number: int) -> dict[str, Any]:
    """The result as that of another test, so that it is not a copy."""
    return {**RESULT, "start": {**RESULT["start"], "cookie": f"test-{number}"}}


@pytest.mark.parametrize(
    ("content", "keys"),
    [
        ({"a": {"b": RESULT}}, "a.b"),
        ({"runs": [{"id": 7, "out": RESULT}]}, "runs.out"),
        (
            {"hits": {"hits": [{"_id": "x", "_source": {"iperf": RESULT}}]}},
            "hits.hits._source.iperf",
        ),
        ([{"message": json.dumps(RESULT)}], "message"),
        ({"stdout": json.dumps(RESULT, indent=1)}, "stdout"),
    ],
)
def test_within_other_json(content: Any, keys: str, imported: Import, tmp_path: Path) -> None:
    outcome = imported(written(tmp_path / "a.json", content))
    assert outcome.summary["metrics"]["goodput_bps"] == pytest.approx(8e6, rel=0.01)
    assert f"a.json: its results are under the key {keys}\n" in outcome.stderr
    assert json.loads((outcome.folders[0] / "generators/iperf3.json").read_text()) == RESULT


def test_several_within_other_json(imported: Import, tmp_path: Path) -> None:
    hits = [{"_source": other_test(number)} for number in range(3)]
    outcome = imported(written(tmp_path / "a.json", {"hits": {"total": 3, "hits": hits}}))
    assert len(outcome.summaries) == 3


def test_documents_around_a_broken_one(imported: Import, tmp_path: Path) -> None:
    documents = [json.dumps(other_test(number), indent=2) for number in range(3)]
    text = "\n".join(["warning: a line", documents[0], documents[1][:-400], documents[2], "done"])
    outcome = imported(written(tmp_path / "a.json", text))
    assert len(outcome.summaries) == 2
    assert "left out: a.json:" in outcome.stderr


def test_a_cut_stream(imported: Import) -> None:
    outcome = imported(REPORTS / "a12-stream-cut.jsonl")
    metrics, verdict = outcome.summary["metrics"], outcome.summary["verdict"]
    assert metrics["goodput_bps"] == pytest.approx(8e6, rel=0.01)
    assert (verdict["status"], verdict["findings"][0]["kind"]) == ("limited", "ended-early")
    assert "a12-stream-cut.jsonl:7: is not valid JSON" in outcome.stderr


def compressed(file: Path, program: str) -> Path:
    """Compresses a file next to it."""
    content = file.read_bytes()
    made = file.with_name(f"{file.name}.{program}")
    if program == "zst":
        subprocess.run(["zstd", "-q", str(file), "-o", str(made)], check=True)
    else:
        compress = {"gz": gzip.compress, "xz": lzma.compress, "bz2": bz2.compress}[program]
        made.write_bytes(compress(content))
    file.unlink()
    return made


@pytest.mark.parametrize("program", ["gz", "zst", "xz", "bz2"])
def test_compressed_files(program: str, imported: Import, tmp_path: Path) -> None:
    files = {
        "a.json": json.dumps(RESULT).encode(),
        "b.txt": TEXT.encode(),
        "c.csv": b"host,cca,throughput_Gbps\nh,cubic,2\n",
        "d.log": (REPORTS / "c5-scope.log").read_bytes(),
        "e.jsonl": (REPORTS / "a12-stream-cut.jsonl").read_bytes(),
    }
    folder = filled(tmp_path / "work", files)
    for name in files:
        compressed(folder / name, program)
    kinds = ["iperf3", "iperf3", "iperf3-text", "ss", "table"]
    assert sorted(imported(folder).of_imports("kind")) == kinds


@pytest.mark.parametrize("program", ["gz", "zst", "xz", "bz2"])
def test_a_cut_compressed_file(program: str, imported: Import, tmp_path: Path) -> None:
    many = "\n".join(json.dumps(other_test(number)) for number in range(300))
    file = compressed(written(tmp_path / "a.json", many), program)
    file.write_bytes(file.read_bytes()[:-20])
    good = written(tmp_path / "good.json", RESULT)
    outcome = imported(good, file)
    assert f"left out: {file.name}: can't be decompressed: " in outcome.stderr
    assert outcome.of_imports("source") == ["good.json:1"]


def test_a_real_stream_without_its_end(imported: Import, tmp_path: Path) -> None:
    port = str(free_port())
    binary = str(find_iperf3())
    with subprocess.Popen([binary, "-s", "-1", "-p", port], stdout=subprocess.DEVNULL) as server:
        await_listening(server, int(port))
        argv = [binary, "-c", "127.0.0.1", "-p", port, "--json-stream", "-t", "2", "-i", "0.5"]
        said = subprocess.run(
            [*argv, "-b", "40M"], capture_output=True, text=True, check=True
        ).stdout
    events = said.splitlines()
    cut = "\n".join([*events[:4], events[4][:100]])
    outcome = imported(written(tmp_path / "cut.jsonl", cut))
    assert outcome.summary["metrics"]["goodput_bps"] == pytest.approx(40e6, rel=0.2)
    assert outcome.summary["verdict"]["findings"][0]["kind"] == "ended-early"


def test_files_are_read_in_numeric_order(imported: Import, tmp_path: Path) -> None:
    sizes = ("10mb", "2mb", "1.5mb", "100mb")
    files = {
        f"runs/cubic-{size}.json": json.dumps(other_test(number)).encode()
        for number, size in enumerate(sizes)
    }
    folder = filled(tmp_path / "work", files)
    outcome = imported(folder, "--name-pattern", "{_}-{buffer}.json")
    buffers = [condition["buffer"] for condition in outcome.conditions]
    assert buffers == ["1.5mb", "2mb", "10mb", "100mb"]
