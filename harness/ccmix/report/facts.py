"""Lists what runs were measured on: runs with the same hosts, kernels and settings share one listing."""

from dataclasses import asdict

from ccmix.flattening import flattened
from ccmix.model import Facts
from ccmix.model.results import FinishedRun

OF_MEASURED = (
    "kernel",
    "kernel_version",
    "lab_kernel",
    "guest_root",
    "lab_programs",
    "iperf3",
    "sysctls",
    "generator",
    "hosts",
    "device",
    "offloads",
    "sender_qdiscs",
    "bpf_ccas",
)
OF_IMPORTED = ("kernel", "iperf3", "generator", "sysctls", "hosts")
UNKNOWN = "unknown"

Listing = list[tuple[str, str]]  # names and values


class Listings:
    """Numbers listings from 1; equal ones have one number."""

    def __init__(self) -> None:
        self.all: list[Listing] = []

    def number(self, listing: Listing) -> int:
        """Returns the number of the listing, which is added if it is new."""
        if listing not in self.all:
            self.all.append(listing)
        return self.all.index(listing) + 1


def listing_of(finished: FinishedRun) -> Listing:
    """Returns what a run was measured on."""
    facts = finished.facts
    listed = _listing_of_imported(facts) if facts.imported else _listing_of_measured(facts)
    confined = finished.execution.confinement
    guest = [("guest's confinement", confined)] if confined else []
    return [("machine", finished.execution.machine), *guest, *listed]


def _listing_of_measured(facts: Facts) -> Listing:
    known = asdict(facts)
    return flattened({name: known[name] for name in OF_MEASURED if known[name] is not None})


def _listing_of_imported(facts: Facts) -> Listing:
    known = asdict(facts)
    source = known["imported"]
    details = source.pop("details")
    named = {name: known[name] or UNKNOWN for name in OF_IMPORTED if known[name] is not None}
    return [*flattened(named | {"imported": source}), *details]
