"""Lists every configured field of a run, with the check that verifies it, from fields.toml.

A test compares this list with the dataclasses of ccmix.model, and docs/explanation/validity.md with
this list.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ccmix.analysis.validity import (
    flow_starts,
    host_path,
    netem_fields,
    path_fields,
    queue_fields,
    traffic_fields,
)
from ccmix.analysis.validity.applied import Check


@dataclass(frozen=True)
class FieldComparison:
    """Says how some fields of the configuration are checked against what was read back after the
    run.

    - fields: 'CLASS.FIELD' of ccmix.model, such as 'Sender.delay_s'
    - read_from: the source of the applied values, and `equal` how close they must be, as text;
      docs/explanation/validity.md has both
    - differences: the check itself; yields a problem for each field that differs
    - between_hosts: whether the check of a traffic's field is also possible between hosts
    """

    fields: tuple[str, ...]
    read_from: str
    equal: str
    differences: Check
    between_hosts: bool = False


_MODULES = (flow_starts, host_path, netem_fields, path_fields, queue_fields, traffic_fields)
_CHECKS = {  # by their names in fields.toml
    f"{module.__name__.rpartition('.')[2]}.{name}": check
    for module in _MODULES
    for name, check in vars(module).items()
}


def _comparison(row: Mapping[str, Any]) -> FieldComparison:
    """Returns the comparison that a row of fields.toml describes. Raises KeyError without it."""
    return FieldComparison(
        tuple(row["fields"]),
        row["read_from"],
        row["equal"],
        _CHECKS[row["check"]],
        row.get("between_hosts", False),
    )


_TABLES = tomllib.loads(Path(__file__).with_name("fields.toml").read_text(encoding="utf-8"))
PATH, TRAFFIC, HOST_PATH = (
    tuple(map(_comparison, _TABLES[name])) for name in ("path", "traffic", "host_path")
)
# Fields of which nothing can be compared, with the reason
NOT_COMPARED = {field: row["reason"] for row in _TABLES["not_compared"] for field in row["fields"]}
