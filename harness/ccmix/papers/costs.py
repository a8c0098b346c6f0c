"""Estimates what an experiment costs in each of its forms."""

from collections.abc import Iterable, Mapping

from ccmix.analysis.cost import Cost, cost
from ccmix.papers.experiment import Experiment
from ccmix.papers.made_by import planned

REDUCED, TRIED, FULL = "reduced", "tried", "full"
FORMS = (REDUCED, TRIED, FULL)


def costs(experiment: Experiment, seed: int, cores: int) -> dict[str, Cost]:
    """Returns the cost by form; 'tried' is the reduced form with the entries that only explain, if there are some."""
    forms = {REDUCED: _cost(experiment, seed, cores, full=False, tried=False)}
    if experiment.tried:
        forms[TRIED] = _cost(experiment, seed, cores, full=False, tried=True)
    return forms | {FULL: _cost(experiment, seed, cores, full=True, tried=False)}


def _cost(experiment: Experiment, seed: int, cores: int, *, full: bool, tried: bool) -> Cost:
    return cost(planned(experiment.name, seed, full=full, tried=tried), cores)


def real_s(of: Iterable[Mapping[str, Cost]], form: str) -> float:
    """Returns the real time of experiments one after the other; where nothing was tried, of the reduced form."""
    return sum(forms.get(form, forms[REDUCED]).real_s for forms in of)
