"""What the command line adds to an INI file."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Overrides:
    """`hosts`: a CSV file; `nic`: the sending device; `netem_at`: as the key netem-at, before it. None: not given."""

    hosts: Path | None = None
    nic: str | None = None
    netem_at: str | None = None
