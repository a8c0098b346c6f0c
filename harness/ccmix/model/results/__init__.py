"""The plain data of finished runs and campaigns: metrics, verdicts, and what a campaign is made of."""

from ccmix.model.results.campaign import CampaignOrigin, CampaignPlan, ImportedFile, ImportIdentity, ImportOverrides
from ccmix.model.results.finished_run import Execution, FinishedRun, MachineKind
from ccmix.model.results.metrics import (
    BottleneckMetrics,
    CompletionMetrics,
    DelayMetrics,
    FlowMetrics,
    GroupMetrics,
    Metrics,
    PolicerMetrics,
    RttProbeMetrics,
    StartupMetrics,
)
from ccmix.model.results.settling import Settling, Trend
from ccmix.model.results.verdict import Finding, Status, Verdict

__all__ = [
    "BottleneckMetrics",
    "CampaignOrigin",
    "CampaignPlan",
    "CompletionMetrics",
    "DelayMetrics",
    "Execution",
    "Finding",
    "FinishedRun",
    "FlowMetrics",
    "GroupMetrics",
    "ImportIdentity",
    "ImportOverrides",
    "ImportedFile",
    "MachineKind",
    "Metrics",
    "PolicerMetrics",
    "RttProbeMetrics",
    "Settling",
    "StartupMetrics",
    "Status",
    "Trend",
    "Verdict",
]
