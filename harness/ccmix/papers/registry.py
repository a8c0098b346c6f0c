"""Lists all experiments."""

from ccmix.papers import dai, datta, gomez, tierney, zeynali
from ccmix.papers.experiment import Experiment

EXPERIMENTS: tuple[Experiment, ...] = (
    *datta.EXPERIMENTS,
    *tierney.EXPERIMENTS,
    *dai.EXPERIMENTS,
    *gomez.EXPERIMENTS,
    *zeynali.EXPERIMENTS,
)


def by_name() -> dict[str, Experiment]:
    """Returns the experiments by their names, in the order of the list."""
    return {experiment.name: experiment for experiment in EXPERIMENTS}
