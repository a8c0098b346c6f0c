"""Defines what several dashboards share."""

from ccmix.kibana.dashboard import Control
from ccmix.kibana.lens import Column, Count, Metric, Terms

COUNTED = "ccmix.validity.counted: true"
NOT_SETTLED = Count("not settled", "ccmix.settled: false")
STATUS_COLOURS = {"valid": "#009E73", "limited": "#E69F00", "unknown": "#999999"}  # of Okabe and Ito, too

CAMPAIGN = Control("ccmix.campaign.name", "Campaign")
ENTRY = Control("ccmix.entry", "Entry")
CONDITION = Control("ccmix.condition.name", "Condition")
PAIR = Control("ccmix.path.pair", "Path")
KIND = Control("ccmix.path.kind", "Emulated or real")
MIX = Control("ccmix.mix", "Mix of CCAs")
CCA = Control("ccmix.cca", "CCA")
STATUS = Control("ccmix.validity.status", "Verdict")
# Kibana's sliders have whole steps: so RTTs are in ms, and loss and buffer are lists
BASE_RTT = Control("ccmix.path.base_rtt_ms", "Base RTT (ms)", "rangeSlider")
LOSS = Control("ccmix.path.loss_label", "Loss")
RATE = Control("ccmix.path.rate_bps", "Bottleneck (bit/s)", "rangeSlider")
BUFFER = Control("ccmix.path.buffer_label", "Buffer")
STREAMS = Control("ccmix.streams", "Flows", "rangeSlider")

MOST_RUNS = 200  # in a list of runs

BY_CCA = Terms("ccmix.cca", "CCA")


def verdicts() -> dict[str, Count]:
    """Returns a column with the number of runs for each verdict."""
    return {status: Count(f"{status}", f"ccmix.validity.status: {status}") for status in STATUS_COLOURS}


def newest_runs(**more: Terms) -> dict[str, Column]:
    """Returns the first columns of a list of runs, a row each, the newest ones first, with `more` names of each run."""
    return {
        "run": Terms("ccmix.run.id", "run", size=MOST_RUNS, by="time"),
        "campaign": Terms("ccmix.campaign.name", "campaign"),
        "entry": Terms("ccmix.entry", "entry"),
        "condition": Terms("ccmix.condition.name", "condition"),
        "status": Terms("ccmix.validity.status", "verdict"),
        **more,
        "time": Metric("max", "@timestamp", "began"),
    }
