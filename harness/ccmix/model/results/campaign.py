"""A campaign: what campaign.json keeps of it."""

from dataclasses import dataclass, field

from ccmix.model.facts import LabKernel
from ccmix.model.run import Run


@dataclass(frozen=True)
class ImportedFile:
    """Names a file that an import read."""

    name: str
    kind: str  # a key of importing.kinds.KINDS
    sha256: str


@dataclass(frozen=True)
class ImportOverrides:
    """Holds what the user states about all runs of an import, since their sources do not; None: not stated."""

    entry: str | None = None
    src: str | None = None
    dst: str | None = None
    base_rtt_s: float | None = None
    rate_bps: float | None = None
    cca: str | None = None
    settings: tuple[str, ...] = ()  # columns of tables that are settings and not results
    columns: str | None = None  # of tables: what names them otherwise, see importing.columns
    name_pattern: str | None = None  # of the files' names, with {FIELD} where a setting stands


@dataclass(frozen=True)
class ImportIdentity:
    """Identifies an import: the same files with the same overrides are the same import."""

    files: tuple[ImportedFile, ...]
    overrides: ImportOverrides = ImportOverrides()


@dataclass(frozen=True)
class CampaignOrigin:
    """Says what made a campaign; None: not recorded."""

    ccmix: str | None = None  # version
    python: str | None = None  # version
    command: tuple[str, ...] = ()
    seed: int | None = None
    lab: bool | None = None  # whether the runs on emulated paths were made in the lab
    started_s: float | None = None  # wall clock, in seconds since 1970
    imported: ImportIdentity | None = None  # None: ccmix made the runs
    kernels: tuple[LabKernel, ...] = ()  # those of the lab that the runs ask for, as they were at the start
    userland_sha256: str | None = None  # of the lab's userland, as it was at the start; None also without the lab


@dataclass(frozen=True)
class CampaignPlan:
    """Holds the runs of a campaign, in their order, and the INI text that they come from."""

    origin: CampaignOrigin
    ini: str
    runs: tuple[Run, ...]
    title: str = ""  # '' where the INI file gives none
    file_order: tuple[int, ...] = ()
    """Says for each run its place in the order of the INI file, from 0; empty where the runs are in this order."""
    unknown: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Names of an entry those swept keys whose values stand for what is not known of its path; where it has any."""
