"""Runs configurations in the lab with a second probe, which samples everything at a higher rate for
the recomputation.

Both probes watch the same run. Two runs with the same seed would not do, because each packet that
waits while a probe looks at its socket changes the run.
"""

import os
import subprocess
from pathlib import Path

from ccmix.tools import find_sockmon
from support.commands import CCMIX

STREAM = "recomputed.sockmon"  # in the logs of each run
# Takes the place of ccmix-sockmon, whose program follows this text in the same file: a guest gets
# one file for each program. Before a run the harness tries the probe, which then writes no stream.
WRAPPER = """#!/bin/sh
stream=$(readlink "/proc/$$/fd/1")
case $stream in */run.sockmon) ;; *) exit 0 ;; esac
own=${TMPDIR:-/tmp}/sockmon.$$
tail -n +LINES "$0" >"$own" && chmod +x "$own" || exit
"$own" "$@" & asked=$!
first=$#
for word; do
    case $word in --sockets=* | --queue=*) set -- "$@" "$word" ;; --counters=*) set -- "$@" "$word" ;; esac
done
shift $first
for device in $(ip -n ccmix-delay -o link | sed -n 's/^[0-9]*: \\(east[0-9]*\\)@.*/\\1/p'); do
    set -- "$@" "--queue=ccmix-delay/$device"
done
"$own" "$@" --rate=HZ --discover-rate=HZ --slow-rate=100 >"${stream%/*}/STREAM" & second=$!
trap 'kill $asked $second' TERM
trap 'kill -USR1 $asked' USR1
while kill -0 $asked 2>/dev/null; do wait $asked; done
wait $second
exit 0
"""


def make_wrapper(file: Path, hertz: int) -> Path:
    """Writes a program that runs ccmix-sockmon with its arguments, and a second ccmix-sockmon at
    this rate.
    """
    text = WRAPPER.replace("STREAM", STREAM).replace("HZ", str(hertz))
    text = text.replace("LINES", str(text.count("\n") + 1))
    file.write_bytes(text.encode() + find_sockmon().read_bytes())
    file.chmod(0o755)
    return file


def run(config: Path, outdir: Path, hertz: int) -> None:
    """Runs a configuration; the comparison decides about runs that are not valid."""
    wrapper = make_wrapper(outdir.with_suffix(".sockmon"), hertz)
    argv = [CCMIX, "run", str(config), "--lab", "-o", str(outdir)]
    environment = {"CCMIX_SOCKMON": str(wrapper)}
    done = subprocess.run(
        argv, capture_output=True, text=True, check=False, env=os.environ | environment
    )
    assert done.returncode in (0, 1), done.stderr
