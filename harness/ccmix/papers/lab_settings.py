"""Says in words with which settings the runs of entries were made, for captions."""

from collections.abc import Iterable, Sequence

from ccmix.analysis import path_text
from ccmix.model import Topology
from ccmix.model.results import FinishedRun
from ccmix.papers.text import listed
from ccmix.units import format_bytes

MOST_BUFFERS = 4  # that are all named


def lab_settings(runs: Sequence[FinishedRun]) -> str:
    """Returns 'entry shallow, buffer 102 kB, queue discipline bfifo at the bottleneck and fq at the sender, ...'."""
    paths = [run.run.path for run in runs if isinstance(run.run.path, Topology)]
    queues = _either(str(path.queue) for path in paths)
    of_senders = _either(path_text.sender_queue(sender) for path in paths for sender in path.senders)
    offloads = _either("on" if path.offloads else "off" for path in paths)
    kernels = _either(run.facts.kernel for run in runs)
    entries = list(dict.fromkeys(run.run.entry for run in runs))
    return (
        f"{'entries' if entries[1:] else 'entry'} {listed(entries)}, buffer {_buffers(paths)}, queue discipline "
        f"{queues} at the bottleneck and {of_senders} at the sender, offloads {offloads}, Linux {kernels}"
    )


def _either(words: Iterable[str]) -> str:
    return " or ".join(dict.fromkeys(words))


def _buffers(paths: Iterable[Topology]) -> str:
    """Returns '102 kB', '1 or 4 BDP', or of many '0.1 to 100 BDP'."""
    in_bdp = sorted({path.buffer.amount for path in paths if path.buffer.kind == "bdp"})
    sizes = sorted({path.buffer_bytes for path in paths if path.buffer.kind != "bdp"})
    words = [(f"{amount:g}", " BDP") for amount in in_bdp], [(format_bytes(size), "") for size in sizes]
    return " or ".join(_few([word for word, _ in kind]) + kind[0][1] for kind in words if kind)


def _few(words: Sequence[str]) -> str:
    return " or ".join(words) if len(words) <= MOST_BUFFERS else f"{words[0]} to {words[-1]}"
