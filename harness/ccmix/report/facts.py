"""What a run was measured on, by content: runs with the same hosts, kernels and settings share one listing."""

import json
from typing import Any

OF_ONE_RUN = ("commands", "probes", "capture", "pscheduler")  # facts that differ from run to run


def flattened(data: Any, name: str = "") -> list[tuple[str, str]]:
    """Names and values of nested data: [('sysctls net.ipv4.tcp_rmem', '4096 131072')]."""
    if isinstance(data, dict) and data:
        return [item for key, value in data.items() for item in flattened(value, f"{name} {key}".strip())]
    if isinstance(data, list) and any(isinstance(value, dict) for value in data):
        return [item for at, value in enumerate(data, 1) for item in flattened(value, f"{name} {at}".strip())]
    if isinstance(data, list):
        return [(name, ", ".join(map(_plain, data)) or "–")]
    return [(name, _plain(data))]


def _plain(value: Any) -> str:
    if value is None or value in ("", {}):
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value).replace("\t", " ").strip()


class Listings:
    """Numbers from 1 for what is the same in several runs."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self.all: list[list[tuple[str, str]]] = []

    def number(self, data: dict[str, Any]) -> int:
        """Of the listing with this content, which is added where it is new."""
        key = json.dumps(data, sort_keys=True, default=str)
        if key not in self._numbers:
            self.all.append(flattened(data))
            self._numbers[key] = len(self.all)
        return self._numbers[key]


def of_setup(summary: dict[str, Any]) -> dict[str, Any]:
    """What a run's hosts were."""
    shared = {name: value for name, value in summary["facts"].items() if name not in OF_ONE_RUN}
    if "imported" in shared:
        shared = {name: "unknown" if value in ("", {}) else value for name, value in shared.items()}
    return {"machine": summary["where"]["machine"]} | shared
