"""Says what a report's runs of type path found: a drawing of each path, and the table of its estimates."""

from dataclasses import dataclass

from ccmix.analysis.results import Results

UNKNOWN = " ?"  # ends what can't be told
HEADINGS = ("quantity", "value", "95% interval", "origin, or why unknown")


@dataclass(frozen=True)
class Station:
    """Holds a place of the drawing, in the order in which packets pass it: its name, and what is known of it."""

    name: str
    known: tuple[str, ...]


@dataclass(frozen=True)
class MeasuredPath:
    """Holds what a report shows of the path to a destination."""

    title: str
    stations: tuple[Station, ...]
    lines: tuple[tuple[str, ...], ...]  # under HEADINGS


def measured_paths(results: Results) -> list[MeasuredPath]:
    """Returns the paths to the destinations of valid runs of type path; none without such a run.

    Raises ArchiveError if a series of a run can't be read.
    """
    runs = [(result.finished, result.folder) for result in results.runs if result.valid and result.run.traffic.steps]
    if not runs:
        return []
    from ccmix.report.path_estimates import measured_path  # noqa: PLC0415  # its libraries are slow to import
    from ccmix.twin.twin import twins_of_runs  # noqa: PLC0415

    return [measured_path(twin) for twin in twins_of_runs(runs)]


def drawing(path: MeasuredPath) -> str:
    """Draws the stations as a line of text."""
    return " ── ".join(
        f"[{station.name}: {', '.join(station.known)}]" if station.known else station.name for station in path.stations
    )


def sentence(path: MeasuredPath) -> str:
    """Returns 'The path a to b: rate 926 Mbit/s, buffer 48 kB, base RTT 20 ms. Not told: cross traffic'."""
    known = [part for station in path.stations for part in station.known if not part.endswith(UNKNOWN)]
    not_told = [part.removesuffix(UNKNOWN) for station in path.stations for part in station.known if part not in known]
    left = f" Cannot be told: {', '.join(not_told)}." if not_told else ""
    return f"The path {path.title}: {', '.join(known) or 'nothing is known'}.{left}"
