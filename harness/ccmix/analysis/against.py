"""Conditions, entries or groups of a campaign against one of them, paired by block."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import asdict, dataclass

from ccmix.analysis.comparison import Paired, holm, paired, significant
from ccmix.analysis.counting import counts
from ccmix.analysis.statistics import OF_GROUP, OF_RUN, value_of
from ccmix.model import condition_name
from ccmix.model.results import FinishedRun
from ccmix.units import format_few

MOST_NAMED = 4  # settings in a message
ENTRY, GROUP = "entry", "group"  # keys that no condition has


@dataclass(frozen=True)
class Baseline:
    """`key` is a swept key, 'entry', or 'group' for the groups of the same run; `value` is that of the baseline."""

    key: str
    value: str
    metric: str = "goodput_bps"

    @property
    def metrics(self) -> tuple[str, ...]:
        """Returns the metrics that can be compared."""
        return OF_GROUP if self.key == GROUP else OF_RUN


@dataclass(frozen=True)
class Comparison:
    """One setting against the baseline, all else being equal; `left_out` blocks have no valid run of both."""

    entry: str
    dst: str
    condition: dict[str, str]
    value: str  # of the baseline's key
    left_out: int
    result: Paired | None
    p_adjusted: float | None

    @property
    def seen(self) -> bool:
        """Returns whether they differ significantly, after the correction for all comparisons."""
        return significant(self.p_adjusted)

    def to_json(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True)
class _Value:
    """Holds the metric of a run, or of a group of it; None if the run is not valid or lacks the metric."""

    setting: str
    like: tuple[str, str, tuple[tuple[str, str], ...]]  # entry, destination, condition without the key
    block: Hashable
    value: float | None


def against(baseline: Baseline, finished_runs: Iterable[tuple[Hashable, FinishedRun]]) -> list[Comparison]:
    """Compares finished runs, each with its campaign (anything that distinguishes campaigns).

    A block is an iteration, or of groups the run. p-values are adjusted for the number of comparisons (Holm).
    Raises ValueError where nothing has the baseline's value, and where nothing else can be paired with it.
    """
    campaigns_and_runs = list(finished_runs)
    observations = [
        value for campaign, finished in campaigns_and_runs for value in _values(baseline, campaign, finished)
    ]
    cells: dict[tuple[str, str, tuple[tuple[str, str], ...]], dict[str, dict[Hashable, float | None]]] = {}
    for observation in observations:
        cells.setdefault(observation.like, {}).setdefault(observation.setting, {})[observation.block] = (
            observation.value
        )
    if not any(baseline.value in settings for settings in cells.values()):
        keys = dict.fromkeys(
            ["entry", "group", *(key for _, finished in campaigns_and_runs for key in finished.run.condition)]
        )
        settings_there = list(dict.fromkeys(observation.setting for observation in observations))
        there = format_few(settings_there, MOST_NAMED) or f"no such key, only {', '.join(keys)}"
        raise ValueError(f"nothing has {baseline.key}={baseline.value}: there is {there}")
    compared = [
        (like, setting, *_paired(blocks, settings[baseline.value]))
        for like, settings in cells.items()
        if baseline.value in settings
        for setting, blocks in settings.items()
        if setting != baseline.value
    ]
    if not compared:
        others = [
            setting for setting in dict.fromkeys(each.setting for each in observations) if setting != baseline.value
        ]
        why = (
            f"{format_few(others, MOST_NAMED)} ran in other conditions"
            if others
            else f"there is no other {baseline.key}"
        )
        raise ValueError(f"nothing can be paired with {baseline.key}={baseline.value}: {why}")
    adjusted = holm([result.p_value if result else None for *_, result in compared])
    return [
        Comparison(entry, dst, dict(condition), setting, left_out, result, p_adjusted)
        for ((entry, dst, condition), setting, left_out, result), p_adjusted in zip(compared, adjusted, strict=True)
    ]


def _paired(blocks: dict[Hashable, float | None], others: dict[Hashable, float | None]) -> tuple[int, Paired | None]:
    """Counts the blocks that are left out, and compares the others."""
    pairs = [(value, others.get(block)) for block, value in blocks.items()]
    both = [(value, other) for value, other in pairs if value is not None and other is not None]
    every = len(blocks.keys() | others.keys())
    return every - len(both), paired([value for value, _ in both], [other for _, other in both])


def _values(baseline: Baseline, campaign: Hashable, finished: FinishedRun) -> Sequence[_Value]:
    run, metrics, valid = finished.run, finished.metrics, counts(finished)
    place = (run.entry, run.dst, tuple(run.condition.items()))
    if baseline.key == GROUP:
        return [
            _Value(group.group, place, (campaign, run.iteration), value_of(group, baseline.metric) if valid else None)
            for group in metrics.groups
        ]
    value = value_of(metrics, baseline.metric) if valid else None
    if baseline.key == ENTRY:
        return [_Value(run.entry, ("", *place[1:]), (campaign, run.iteration), value)]
    if baseline.key not in run.condition:
        return []
    rest = tuple(item for item in run.condition.items() if item[0] != baseline.key)
    return [_Value(run.condition[baseline.key], (run.entry, run.dst, rest), (campaign, run.iteration), value)]


def name_of(comparison: Comparison) -> str:
    """Returns a name of what is compared under which condition."""
    place = [comparison.entry, condition_name(comparison.condition) if comparison.condition else ""]
    return " ".join(word for word in place if word) or "all"
