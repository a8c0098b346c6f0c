"""Shows goodput, retransmissions, fairness and RTT of valid runs by CCA, loss, RTT and buffer."""

from ccmix.charts.encodings import of_cca
from ccmix.kibana.dashboard import Dashboard, Panel
from ccmix.kibana.dashboards import charts, common
from ccmix.kibana.dashboards.scope import what_is_pooled
from ccmix.kibana.data_views import CONDITIONS, GROUPS
from ccmix.kibana.lens import XY, Count, Lens, LensTable, Metric, Terms
from ccmix.kibana.vega import VegaLite, metric, terms

_GOODPUT = Metric("average", "ccmix.goodput_bps", "goodput of the group, mean")
_RTT = Metric("median", "ccmix.rtt_median_s", "RTT under load, median")


def _by(title: str, across: Terms, value: Metric) -> Lens:
    """Draws bars of a value, one for each CCA, at each value of what is swept."""
    return Lens(
        title,
        GROUPS,
        {"across": across, "cca": common.BY_CCA, "value": value},
        XY("bar", "across", ("value",), "cca", by_cca=True),
        common.COUNTED,
    )


_BY_MIX = Terms("ccmix.mix", "mix of CCAs")
_BY_RTT = Terms("ccmix.path.base_rtt_s", "base RTT")

_POINTS = of_cca(field="key.cca")
_POINTS["color"]["legend"] |= {"symbolType": "circle", "symbolStrokeWidth": 0}
_EACH_RUN = VegaLite(
    "Goodput and retransmissions of each run; pale: not valid",
    GROUPS,
    {
        "run": terms("ccmix.run.id"), "group": terms("ccmix.group.name"), "cca": terms("ccmix.cca"),
        "mix": terms("ccmix.mix"), "condition": terms("ccmix.condition.name"),
        "verdict": terms("ccmix.validity.status"),
    },
    {
        "goodput": metric("avg", "ccmix.goodput_bps"),
        "retransmission_rate": metric("avg", "ccmix.retransmission_rate"),
    },
    lambda source: source.view({
        "mark": {"type": "point", "filled": True, "size": 50},
        "encoding": {
            "x": {"field": "retransmission_rate.value", "type": "quantitative", "axis": {"format": ".1%"},
                  "title": "retransmission rate"},
            "y": {"field": "goodput.value", "type": "quantitative", "axis": {"format": ".2s"},
                  "title": "goodput of the group (bit/s)"},
            **_POINTS,
            "shape": {"field": "key.mix", "type": "nominal", "title": "mix"},
            "opacity": {"condition": {"test": "datum.key.verdict === 'valid'", "value": 0.7}, "value": 0.2},
            "tooltip": [{"field": f"key.{name}", "type": "nominal", "title": name}
                        for name in ("verdict", "condition", "mix", "group", "run")],
        },
    }),
)  # fmt: skip

CCAS = Dashboard(
    "ccas",
    "CCA comparison",
    "Goodput, retransmissions, fairness and RTT by CCA, loss, RTT and buffer, of valid runs",
    GROUPS,
    (
        common.CAMPAIGN, common.ENTRY, common.CCA, common.MIX, common.LOSS, common.BASE_RTT, common.BUFFER,
        common.RATE, common.STREAMS, common.PAIR, common.KIND,
    ),
    (
        Panel("pooled", what_is_pooled(), 48, 4),
        Panel("goodput-mix", _by("Goodput by mix", _BY_MIX, _GOODPUT), 16, 12, leads_to="run"),
        Panel("goodput-loss", charts.goodput_by("Goodput by loss", "loss"), 16, 12),
        Panel("goodput-rtt", charts.goodput_by("Goodput by base RTT", "rtt"), 16, 12),
        Panel("goodput-buffer", charts.goodput_by("Goodput by buffer", "buffer"), 16, 12),
        Panel("retransmissions", charts.retransmissions_by("Retransmission rate by base RTT", "rtt"), 16, 12),
        Panel("rtt", _by("RTT under load by base RTT", _BY_RTT, _RTT), 16, 12, leads_to="run"),
        Panel(
            "fairness",
            Lens(
                "Fairness by mix (Jain's index over all flows)",
                CONDITIONS,
                {"mix": _BY_MIX, "fairness": Metric("average", "ccmix.fairness", "Jain's index, mean")},
                XY("bar", "mix", ("fairness",), colours={"fairness": "#666666"}),
            ),
            16, 12,
        ),
        Panel("fairness-rtt", charts.fairness_by("Fairness by base RTT", "rtt"), 16, 12),
        Panel("fairness-buffer", charts.fairness_by("Fairness by buffer", "buffer"), 16, 12),
        Panel("share", charts.share_by_flows("Share of goodput against the fair share"), 16, 12),
        Panel("gain", charts.gain_map("Goodput gain of BBR over CUBIC, each alone", "bbr", "cubic"), 16, 12),
        Panel("utilisation", charts.utilisation_map("Utilisation"), 16, 12),
        Panel("retransmissions-map", charts.retransmissions_map("Retransmission rate"), 16, 12),
        Panel("boxes", charts.goodput_boxes("Goodput of runs: median, quartiles, outliers"), 16, 12),
        Panel("distribution", charts.goodput_distribution("Goodput of runs: distribution"), 16, 12),
        Panel("each", _EACH_RUN, 16, 12),
        Panel("goodput-table", charts.goodput_table("Goodput of each group and condition"), 32, 12),
        Panel(
            "not-valid",
            Lens(
                "Runs that are not valid, and no part of the other numbers",
                GROUPS,
                {
                    "entry": Terms("ccmix.entry", "entry"),
                    "condition": Terms("ccmix.condition.name", "condition"),
                    "cca": common.BY_CCA,
                    "kind": Terms("ccmix.validity.kinds", "finding"),
                    "meaning": Terms("ccmix.validity.meaning", "so the goodput is"),
                    "goodput": _GOODPUT,
                    "groups": Count("groups of runs"),
                },
                LensTable(("entry", "condition", "cca", "kind", "meaning", "goodput", "groups")),
                "ccmix.validity.counted: false",
            ),
            48, 10, leads_to="run",
        ),
        Panel(
            "table",
            Lens(
                "Conditions",
                CONDITIONS,
                {
                    "entry": Terms("ccmix.entry", "entry"),
                    "condition": Terms("ccmix.condition.name", "condition"),
                    "cca": common.BY_CCA,
                    "goodput": Metric("average", "ccmix.goodput_bps", "goodput"),
                    "cv": Metric("average", "ccmix.condition.goodput_cv", "CV"),
                    "retransmitted": Metric("average", "ccmix.retransmission_rate", "retransmitted"),
                    "rtt": Metric("average", "ccmix.rtt_median_s", "RTT"),
                    "fairness": Metric("average", "ccmix.fairness", "fairness"),
                    "runs": Metric("sum", "ccmix.condition.runs", "runs"),
                    "invalid": Metric("sum", "ccmix.condition.invalid", "not valid"),
                    "not_settled": Metric("sum", "ccmix.condition.not_settled", "not settled"),
                },
                LensTable(("entry", "condition", "cca", "goodput", "cv", "retransmitted", "rtt", "fairness", "runs",
                       "invalid", "not_settled")),
            ),
            48, 16, leads_to="run",
        ),
    ),
)  # fmt: skip
