"""Ends a command on a host when the device that it sends by has sent a number of bytes."""

import re
from pathlib import Path

from ccmix.generators.results import GeneratorError
from ccmix.hosts.output_text import ending
from ccmix.units import format_bytes

LOOKS_EACH_S = 0.05
_MARK = "ccmix ended this command"
_ENDED = re.compile(f"{_MARK} after (\\d+) bytes")
# sent_bytes() sets `sent`: the 9th number of the device's line in /proc/net/dev (net/core/net-procfs.c)
_SCRIPT = f"""\
device=$1 most=$2
shift 2
sent_bytes() {{
	while read -r name _ _ _ _ _ _ _ _ bytes _; do
		[ "$name" != "$device:" ] || sent=$bytes
	done </proc/net/dev
}}
sent=0
sent_bytes
first=$sent
"$@" &
command=$!
trap 'kill $command' TERM INT
while kill -0 $command 2>/dev/null; do
	sent_bytes
	if [ $((sent - first)) -ge "$most" ]; then
		kill $command
		wait $command
		echo "{_MARK} after $((sent - first)) bytes" >&2
		exit 1
	fi
	sleep {LOOKS_EACH_S}
done
wait $command
"""


def ending_at(device: str, most_bytes: int | None) -> list[str]:
    """Returns what to write before a command so that it ends once the device has sent `most_bytes`; None: nothing.

    Headers, retransmissions and what others send by the device count.
    """
    return [] if most_bytes is None else ["sh", "-c", _SCRIPT, "capped", device, str(most_bytes)]


def raise_if_ended(errors: Path, most_bytes: int | None) -> None:
    """Raises GeneratorError if such a command was ended, which wrote its standard error to this file."""
    if most_bytes is None or not errors.exists():
        return
    if ended := _ENDED.search(ending(errors)):
        sent, left = format_bytes(int(ended[1])), format_bytes(most_bytes)
        raise GeneratorError(f"rate-budget: the run was ended when it had sent {sent}, since {left} were left")
