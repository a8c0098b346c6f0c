"""Says what a report is about: its title, and the paths with their rates and RTTs."""

from collections.abc import Callable, Iterable, Sequence

from ccmix.analysis.conditions import base_rtt_s
from ccmix.analysis.place_settings import BASE_RTT, path_settings
from ccmix.analysis.results import Result, Results
from ccmix.model import HostPath, Topology
from ccmix.units import format_rate, format_time

MOST_ENTRIES = 3  # that a title names
MOST_PATHS = 10  # that have a line each
MOST_VALUES = 3  # of a setting that are listed; of more, the first and the last
OF_PATH = ("rate", BASE_RTT, "loss", "buffer", "qdisc")
SORTED_BY: dict[str, Callable[[Topology], float]] = {
    "rate": lambda path: path.rate_bps, BASE_RTT: lambda path: path.base_rtt_s,
}  # fmt: skip


def title(results: Results) -> str:
    """Returns the titles of the INI files, or else what was measured: the entries, and what they sweep."""
    titles = list(dict.fromkeys(campaign.plan.title for campaign in results.campaigns))
    if titles and all(titles):
        return " and ".join(titles)
    entries = list(dict.fromkeys(result.run.entry for result in results.runs))
    named = entries if len(entries) <= MOST_ENTRIES else entries[: MOST_ENTRIES - 1]
    names = [*named, *([f"{len(entries) - len(named)} more entries"] if named != entries else [])]
    swept = _swept(results)
    return f"{_listed(names)}{f' by {_listed(swept)}' if swept else ''}"


def _swept(results: Results) -> list[str]:
    """Returns the keys of which an entry has several values."""
    values: dict[tuple[str, str], set[str]] = {}
    for result in results.runs:
        for key, value in result.run.condition.items():
            values.setdefault((key, result.run.entry), set()).add(value)
    return list(dict.fromkeys(key for (key, _), of_entry in values.items() if len(of_entry) > 1))


def folders(results: Results) -> str:
    """Returns the names of the campaigns' folders."""
    return _listed([campaign.outdir.resolve().name for campaign in results.campaigns])


def missing(results: Results) -> str:
    """Returns a sentence on runs that were planned and are not finished; '' where all are."""
    left = results.planned - len(results.runs)
    return f"{left} run{' is' if left == 1 else 's are'} missing: failed, or not run yet." if left else ""


def paths(results: Results) -> list[str]:
    """Returns a line for each path: '1.00 Gbit/s, base RTT 10 ms or 88 ms, loss 0%, buffer 1 BDP, qdisc bfifo'.

    Of many paths, the last line is how many more there are.
    """
    emulated: dict[str, list[Topology]] = {}
    real: dict[tuple[str, str], list[Result]] = {}
    for result in results.runs:
        path = result.run.path
        if isinstance(path, HostPath):
            real.setdefault((path.src, path.dst.name), []).append(result)
        else:
            emulated.setdefault(path.name, []).append(path)
    lines = [_emulated(name if len(emulated) > 1 else "", own) for name, own in emulated.items()]
    lines += [_real(src, dst, own) for (src, dst), own in real.items()]
    if (more := len(lines) - MOST_PATHS) <= 0:
        return lines
    return [*lines[:MOST_PATHS], f"... and {more} more path{'' if more == 1 else 's'}"]


def _emulated(name: str, topologies: Iterable[Topology]) -> str:
    paths = list(dict.fromkeys(topologies))
    parts = []
    for key in OF_PATH:
        in_order = sorted(paths, key=SORTED_BY[key]) if key in SORTED_BY else paths
        values = _values([path_settings(path)[key] for path in in_order])
        parts.append(values if key == "rate" else f"{key} {values}")
    return f"{name and name + ': '}{', '.join(parts)}"


def _real(src: str, dst: str, results: Sequence[Result]) -> str:
    rtts_s = sorted(rtt_s for result in results if (rtt_s := base_rtt_s(result.finished)) is not None)
    rates = {source.rate_bps for result in results if (source := result.finished.facts.imported) and source.rate_bps}
    under_load_s = [rtt_s for result in results if (rtt_s := result.finished.metrics.rtt_median_s) is not None]
    parts = [f"{src} to {dst}", *map(format_rate, sorted(rates))]
    if rtts_s:
        ends = dict.fromkeys(map(_three_digits, (rtts_s[0], rtts_s[-1])))
        parts.append(f"base RTT {' to '.join(ends)}")
    else:
        parts.append(f"RTT {_three_digits(min(under_load_s))} under load" if under_load_s else "RTT not known")
    return ", ".join(parts)


def _three_digits(rtt_s: float) -> str:
    return format_time(float(f"{rtt_s:.3g}"))


def _values(texts: Sequence[str]) -> str:
    values = list(dict.fromkeys(texts))
    if len(values) > MOST_VALUES:
        return f"{values[0]} to {values[-1]} ({len(values)} values)"
    return _listed(values, "or")


def _listed(names: Sequence[str], last: str = "and") -> str:
    return f" {last} ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
