#!/usr/bin/env python3
"""Measure `ccmix index` against the same node fed with bulk files that were made before.

    .venv/bin/python bench/index.py [--rounds N] [--seconds N]

Makes runs of 16 flows at 10 samples a second in the lab (in 5 virtual minutes, or --seconds), and
in each round
- sends the documents of the first one into empty indices, in turn from ready-made files and by the
  client, over as many connections and in requests as large; both end when all can be searched;
- lets the process that `ccmix run` starts for `index = URL` see the next one finish, and measures
  until all of it can be searched, as the time and over that of the ready-made files.
Processor time is told too, since it depends less on what else the machine does. Needs what the
tests need: Maven and Java.
"""

import argparse
import contextlib
import http.client
import json
import os
import queue
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from ccmix.analysis.results import Result
from ccmix.archive import Campaign
from ccmix.index import context, target
from ccmix.index.bulk import BulkDocuments, bodies, finished, run_lines, send_run
from ccmix.index.sender import CONNECTIONS, BulkSender
from ccmix.index.server import ElasticsearchServer
from ccmix.index.spool import Spool
from ccmix.index.target import Target
from support.elasticsearch_node import Node, elasticsearch_node

REPOSITORY = Path(__file__).resolve().parents[1]
INI = """
[topology path]
rate = 20mbit
delay = 10ms

[bench]
type = iperf3
topology = path
streams = 16
cca = cubic,bbr
interval = 100ms
duration = {seconds}s
iterations = {runs}
"""
ENTRY = "bench"


@dataclass
class Taken:
    """Time by the clock and by the processors; complete when the block of `measuring` has ended."""

    s: float = 0.0
    client_s: float = 0.0
    node_s: float = 0.0

    def __str__(self) -> str:
        return (
            f"{self.s:.2f} s (processors: client {self.client_s:.1f} s, node {self.node_s:.1f} s)"
        )


@contextlib.contextmanager
def measuring(node: Node) -> Iterator[Taken]:
    """Of this process and its child processes that have ended."""
    taken = Taken()
    own, of_node, begin = time.process_time(), node.cpu_s, time.monotonic()
    yield taken
    taken.s = time.monotonic() - begin
    taken.client_s, taken.node_s = time.process_time() - own, node.cpu_s - of_node


def campaign_of(seconds: int, runs: int, folder: Path) -> Campaign:
    ini, outdir = folder / "bench.ini", folder / "out"
    ini.write_text(INI.format(seconds=seconds, runs=runs))
    argv: list[str | Path] = [REPOSITORY / ".venv/bin/ccmix", "run", ini, "--lab", "-o", outdir]
    subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return Campaign.load(outdir)


def by_client(node: Node, campaign: Campaign, result: Result, folder: Path) -> Taken:
    with measuring(node) as taken:
        server = ElasticsearchServer(Target(node.url))
        with Spool(folder / "spool") as spool, BulkSender(server, spool, 600) as sender:
            server.check_set_up()
            send_run(sender, campaign, result)
            sender.finish()
    return taken


def from_files(node: Node, files: list[Path]) -> Taken:
    waiting: queue.SimpleQueue[Path] = queue.SimpleQueue()
    for file in files:
        waiting.put(file)

    def send() -> None:
        connection = http.client.HTTPConnection(urlsplit(node.url).netloc)
        while True:
            try:
                file = waiting.get_nowait()
            except queue.Empty:
                return
            connection.request(
                "POST",
                "/_bulk?filter_path=errors",
                file.read_bytes(),
                {"Content-Type": "application/x-ndjson"},
            )
            answer = connection.getresponse().read()
            assert json.loads(answer) == {"errors": False}, answer

    with measuring(node) as taken:
        threads = [threading.Thread(target=send) for _ in range(CONNECTIONS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        node("POST", "/ccmix-*/_refresh")
    return taken


def as_runs_finish(node: Node, campaign: Campaign, folder: Path) -> Generator[float, None, None]:
    """Seconds from when a run is in the archive until all of it can be searched, for each run after
    the first."""
    followed = folder / "followed"
    shutil.copytree(campaign.outdir, followed)
    copied = Campaign.load(followed)
    first, *results = finished(copied)
    shutil.rmtree(first.folder)
    expected = [counted(copied, result) for result in results]
    for result in results:
        result.folder.rename(f"{result.folder}.partial")
    with target.sending(followed, {node.url: [ENTRY]}, print):
        for result, documents in zip(results, expected, strict=True):
            run = context.run_id(context.campaign_id(copied), result.run)
            begin = time.monotonic()
            Path(f"{result.folder}.partial").rename(result.folder)
            while (
                node("POST", "/ccmix-*/_count", {"query": {"term": {"ccmix.run.id": run}}})["count"]
                < documents
            ):
                time.sleep(0.05)
            yield time.monotonic() - begin


def lines_of(campaign: Campaign, result: Result) -> Iterator[BulkDocuments]:
    return run_lines(context.run_id(context.campaign_id(campaign), result.run), campaign, result)


def counted(campaign: Campaign, result: Result) -> int:
    return sum(lines.documents for lines in lines_of(campaign, result))


def emptied(node: Node) -> None:
    node.clear()
    ElasticsearchServer(Target(node.url)).set_up()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=300)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ccmix-bench-") as name, elasticsearch_node() as node:
        folder = Path(name)
        os.environ["CCMIX_STATE"] = str(folder / "state")
        campaign = campaign_of(options.seconds, options.rounds + 2, folder)
        result = next(finished(campaign))
        files = []
        for number, body in enumerate(bodies(lines_of(campaign, result))):
            files.append(folder / f"{number}.bulk")
            files[-1].write_bytes(body.content)
        documents = counted(campaign, result)
        size = sum(file.stat().st_size for file in files)
        print(
            f"{documents} documents, {size / 1e6:.0f} MB, {os.cpu_count()} processors, load "
            f"{os.getloadavg()[0]:.1f}"
        )
        ratios, clients, ready, within = [], [], [], []
        following = None
        for number in range(options.rounds + 1):
            emptied(node)
            by_files = from_files(node, files)
            emptied(node)
            client = by_client(node, campaign, result, folder)
            assert node("GET", "/ccmix-*/_count")["count"] == documents
            following = following or as_runs_finish(node, campaign, folder)
            searchable_s = next(following)
            if number:  # the first round warms the node up
                clients.append(client.s)
                ready.append(by_files.s)
                within.append(searchable_s)
                ratios.append(by_files.s / client.s)
                print(
                    f"client {client}, files {by_files}, ratio {ratios[-1]:.2f}; "
                    f"searchable within {searchable_s:.2f} s, {searchable_s / by_files.s:.2f} "
                    "times the files' time; "
                    f"load {os.getloadavg()[0]:.1f}",
                    flush=True,
                )
        if following:
            following.close()
        print(
            f"median: client {statistics.median(clients):.2f} s, files "
            f"{statistics.median(ready):.2f} s, "
            f"{documents / statistics.median(clients):.0f} documents/s; ratio median "
            f"{statistics.median(ratios):.2f}; "
            f"searchable within {statistics.median(within):.2f} s"
        )
        print(
            f"best: client {min(clients):.2f} s, files {min(ready):.2f} s, "
            f"ratio of these {min(ready) / min(clients):.2f}; "
            f"searchable within {min(within):.2f} s"
        )


if __name__ == "__main__":
    main()
