"""Names the JSON that others' tools write, and that readers turn other forms into."""

from collections.abc import Mapping
from typing import Any

Object = Mapping[str, Any]  # as a source has it
Row = dict[str, Any]  # an object that a reader makes, in the form of iperf3's or pScheduler's JSON
