"""Makes a path with an RTT of 200 ms in a guest of the lab, and a run over it in the slot that the
tool requests.

    guest_long_path.py ROOT STREAMS [reverse]

Prints the time of the run and its result as JSON.
"""

import json
import subprocess
import sys
from pathlib import Path

from support.plugin_runner import Tool, start_run, throughput

COMMANDS = """
ip netns add a
ip netns add b
ip link add va netns a type veth peer name vb netns b
ip -n a address add 10.99.7.1/24 dev va
ip -n b address add 10.99.7.2/24 dev vb
ip -n a link set va up
ip -n b link set vb up
tc -n a qdisc add dev va root netem delay 100ms limit 10000
tc -n b qdisc add dev vb root netem delay 100ms limit 10000
"""


def main() -> None:
    root, streams, *rest = sys.argv[1:]
    for command in COMMANDS.strip().splitlines():
        subprocess.run(command.split(), check=True)
    ends = [Tool(Path(root), "a"), Tool(Path(root), "b")]
    # The link's RTT is the one that the tool takes where the test has none; a little traffic is
    # enough
    mix = "reno:1" if streams == "1" else "reno:1,bbr:1"
    test = throughput(
        congestion=mix,
        parallel=int(streams),
        link_rtt=None,
        bandwidth=100_000,
        reverse=bool(rest) or None,
    )
    run = start_run(ends, test)
    results = run.results()
    merged = ends[0].call("merged-results", {"test": test, "results": results})
    print(
        json.dumps(
            {
                "slot_s": run.seconds,
                "took_s": max(participant.ended_at for participant in run.participants) - run.start,
                "succeeded": merged["succeeded"],
                "error": merged.get("error"),
                "goodput_bps": merged.get("summary", {})
                .get("summary", {})
                .get("receiver-throughput-bits"),
            }
        )
    )


if __name__ == "__main__":
    main()
