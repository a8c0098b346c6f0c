"""Says what was configured and could not show in a run: the run was too short, or nothing reports it."""

from collections.abc import Iterator

from ccmix.analysis.validity.comparison import Observed
from ccmix.analysis.validity.loss import too_few_losses
from ccmix.analysis.validity.path import loses, lost_in_spans
from ccmix.analysis.validity.queue_options import unreported
from ccmix.model import CommandSource, Topology


def not_verified(observed: Observed) -> Iterator[str]:
    """Yields sentences, which make no run invalid: tc confirmed the settings where it knows them, not their effect."""
    run = observed.run
    if not isinstance(run.path, Topology):
        return
    joined = run.path.offloads and loses(run)
    for sender in run.path.senders:
        host = f"{sender.name}: " if len(run.path.senders) > 1 else ""
        for configured, _, offered in lost_in_spans(run.path, sender, observed.measurement):
            if configured and not joined and (too_few := too_few_losses(configured, offered)):
                yield host + too_few
        if sender.jitter_s:
            yield f"{host}jitter: tc confirms it, no probe sees its effect"
        if sender.reorder:
            yield f"{host}reordering: tc confirms it, no probe sees its effect"
    for queue in dict.fromkeys((run.path.queue, *(sender.queue for sender in run.path.senders))):
        for name in unreported(queue):
            yield f"{name} of {queue.kind}: tc doesn't report it"
    for source in run.traffic.sources:
        if isinstance(source, CommandSource):
            yield f"{source.label}: ccmix doesn't know what the command should do"
