"""Shows what ran, where, and what was valid."""

from ccmix.kibana.dashboard import Dashboard, Panel
from ccmix.kibana.dashboards import common
from ccmix.kibana.dashboards.scope import how_many_runs
from ccmix.kibana.data_views import RUNS
from ccmix.kibana.lens import XY, Count, Lens, LensTable, Metric, Number, Terms, Times

_VERDICTS = common.verdicts()
_CAMPAIGNS = Lens(
    "Campaigns",
    RUNS,
    {
        "campaign": Terms("ccmix.campaign.name", "campaign"),
        "pair": Terms("ccmix.path.pair", "path"),
        "entry": Terms("ccmix.entry", "entry"),
        "runs": Count("runs"),
        **_VERDICTS,
        "not_settled": common.NOT_SETTLED,
        "goodput": Metric("average", "ccmix.goodput_bps", "mean goodput", common.COUNTED),
        "retries": Metric("max", "ccmix.run.retries", "tries that failed, most of a run"),
    },
    LensTable(("campaign", "pair", "entry", "runs", *_VERDICTS, "not_settled", "goodput", "retries")),
)
_RUNS = Lens(
    "Runs: a click on one shows it over time",
    RUNS,
    {
        **common.newest_runs(),
        "iteration": Metric("max", "ccmix.run.iteration", "iteration"),
        "not_settled": common.NOT_SETTLED,
        "goodput": Metric("average", "ccmix.goodput_bps", "goodput"),
        "retransmission_rate": Metric("average", "ccmix.retransmission_rate", "retransmitted"),
        "fairness": Metric("average", "ccmix.fairness", "fairness"),
    },
    LensTable(
        ("time", "run", "campaign", "entry", "condition", "iteration", "status", "not_settled", "goodput",
         "retransmission_rate", "fairness")
    ),
)  # fmt: skip

CAMPAIGNS = Dashboard(
    "campaigns",
    "Campaigns",
    "What ran, where, and what was valid",
    RUNS,
    (common.CAMPAIGN, common.ENTRY, common.CONDITION, common.MIX, common.PAIR, common.KIND, common.STATUS),
    (
        Panel("runs", Lens("Runs", RUNS, {"runs": Count("finished runs")}, Number("runs")), 8, 7),
        Panel("valid", Lens("Valid", RUNS, {"valid": _VERDICTS["valid"]}, Number("valid")), 8, 7),
        Panel(
            "number",
            Lens(
                "Campaigns",
                RUNS,
                {"campaigns": Metric("unique_count", "ccmix.campaign.id", "campaigns")},
                Number("campaigns"),
            ),
            8,
            7,
        ),
        Panel(
            "time",
            Lens(
                "When it ran",
                RUNS,
                {"time": Times(), **_VERDICTS},
                XY("bar_stacked", "time", tuple(_VERDICTS), colours=common.STATUS_COLOURS),
            ),
            24,
            7,
        ),
        Panel("campaigns", _CAMPAIGNS, 48, 12, leads_to="ccas"),
        Panel(
            "conditions",
            Lens(
                "Runs of each condition",
                RUNS,
                {
                    "campaign": Terms("ccmix.campaign.name", "campaign"),
                    "entry": Terms("ccmix.entry", "entry"),
                    "condition": Terms("ccmix.condition.name", "condition"),
                    "runs": Count("runs"),
                    "counted": Count("that tables count", common.COUNTED),
                },
                LensTable(("campaign", "entry", "condition", "runs", "counted")),
            ),
            28,
            13,
            leads_to="ccas",
        ),
        Panel(
            "limits",
            Lens(
                "Why runs are not valid",
                RUNS,
                {"kind": Terms("ccmix.validity.kinds", "finding", by="runs"), "runs": Count("runs")},
                XY("bar_horizontal", "kind", ("runs",), colours={"runs": common.STATUS_COLOURS["limited"]}),
            ),
            20,
            13,
            leads_to="health",
        ),
        Panel("how-many", how_many_runs(), 48, 4),
        Panel("each", _RUNS, 48, 16, leads_to="run"),
    ),
)
