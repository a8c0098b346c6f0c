"""Makes INI file, runs and cost of an experiment at the paper's full size or at a reduced size.

The keys of the INI file have the values of the full form. A comment '# Reduced: KEY = VALUE' has
the value of a key of its section in the reduced form. Comments after it that begin with two spaces
or more are further lines of the value.
"""

import re
from collections.abc import Iterator

from ccmix.analysis.cost import Cost, cost
from ccmix.config import load
from ccmix.model import Run
from ccmix.papers.experiment import Experiment
from ccmix.papers.reading import by_name, ini_of
from ccmix.plan import make_plan

REDUCED, TRIED, FULL = "reduced", "tried", "full"
_REDUCED = re.compile(r"#\s*Reduced:\s*(?P<key>[^\s=]+)\s*=\s*(?P<value>.*)")
_FURTHER = re.compile(r"#(?P<line>\s{2,}\S.*)")
_KEY = re.compile(r"(?P<key>[^\s=\[#;][^=]*?)\s*=")


def form(name: str, *, full: bool) -> str:
    """Returns the text of an experiment's INI file. The full form has the size of the paper; the
    reduced form has fewer and shorter runs. Raises OSError.
    """
    text = ini_of(name).read_text(encoding="utf-8")
    return text if full else reduced(text)


def reduced(text: str) -> str:
    """Returns an INI file's text in its reduced form: each '# Reduced: KEY = VALUE' becomes a key,
    and the key with the full form's value becomes a comment '# Full: ...'.
    """
    return "".join(line for section in _sections(text) for line in _reduced_section(section))


def _sections(text: str) -> Iterator[list[str]]:
    """Yields the lines before the first section of an INI file, and then those of each section,
    from its header on.
    """
    section: list[str] = []
    for line in text.splitlines(keepends=True):
        if line.startswith("["):
            yield section
            section = []
        section.append(line)
    yield section


def _reduced_section(lines: list[str]) -> Iterator[str]:
    """Yields the lines of one section of an INI file in its reduced form. A comment '# Reduced: KEY
    = VALUE' becomes the key, and the key's own line becomes a comment '# Full: ...'. If a value has
    several lines, all of them are changed in the same way.
    """
    keys = {match["key"] for line in lines if (match := _REDUCED.match(line))}
    replaced = False  # whether the line belongs to a key that has another value in the reduced form
    replacing = False  # whether it belongs to that value
    for line in lines:
        if match := _REDUCED.match(line):
            replacing = True
            yield f"{match['key']} = {match['value']}".rstrip() + "\n"
            continue
        if replacing and (match := _FURTHER.match(line)):
            yield f"{match['line']}\n"
            continue
        replacing = False
        if (key := _KEY.match(line)) or not line.startswith((" ", "\t")):
            replaced = key is not None and key["key"] in keys
        if replaced:
            yield f"# Full: {line}" if key else f"#       {line}"
        else:
            yield line


def planned(name: str, seed: int, *, full: bool, tried: bool = True) -> tuple[Run, ...]:
    """Returns the runs of an experiment in the order of its plan, at the size of the paper (`full`)
    or in the reduced form.

    With `tried`, the runs include those of entries that try another setting. They are not judged;
    they only explain differences from the paper.
    """
    left_out = frozenset() if tried else by_name()[name].tried
    entries = load(ini_of(name), form(name, full=full)).entries
    return make_plan((entry for entry in entries if entry.name not in left_out), seed)


def costs(experiment: Experiment, seed: int, cores: int) -> dict[str, Cost]:
    """Returns the estimated cost (runs, time, memory) of an experiment by form, on a machine with
    `cores` processors. The forms are 'reduced', 'full', and 'tried' if there are entries that only
    explain differences: the reduced form together with these entries.
    """
    forms = {REDUCED: _cost(experiment, seed, cores, full=False, tried=False)}
    if experiment.tried:
        forms[TRIED] = _cost(experiment, seed, cores, full=False, tried=True)
    return forms | {FULL: _cost(experiment, seed, cores, full=True, tried=False)}


def _cost(experiment: Experiment, seed: int, cores: int, *, full: bool, tried: bool) -> Cost:
    """Estimates the cost of the runs of one form of an experiment."""
    return cost(planned(experiment.name, seed, full=full, tried=tried), cores)
