"""Shows whether hosts and paths, and not the CCAs, limit what is measured."""

from ccmix.kibana.dashboard import Dashboard, Panel
from ccmix.kibana.dashboards import common
from ccmix.kibana.data_views import HOSTS, RUNS
from ccmix.kibana.lens import XY, Column, Count, Lens, LensTable, Metric, Terms, Times

_HOST = Terms("host.name", "host")
_PAIR = Terms("ccmix.path.pair", "path")
_VERDICTS = common.verdicts()


def _of_hosts(title: str, value: Metric) -> Lens:
    """Draws a line for each host that has values."""
    columns: dict[str, Column] = {"host": _HOST, "time": Times(), "value": value}
    return Lens(title, HOSTS, columns, XY("line", "time", ("value",), "host"), f"{value.field}: *")


HEALTH = Dashboard(
    "health",
    "Host and path health",
    "Whether hosts and paths, and not the CCAs, limit what is measured",
    RUNS,
    (common.CAMPAIGN, common.ENTRY, common.PAIR, common.KIND, common.STATUS),
    (
        Panel(
            "verdicts",
            Lens("Verdicts of each path", RUNS, {"pair": _PAIR, **_VERDICTS},
                 XY("bar_horizontal_stacked", "pair", tuple(_VERDICTS), colours=common.STATUS_COLOURS)),
            24, 12, leads_to="campaigns",
        ),
        Panel(
            "limits",
            Lens("Why runs are not valid, by path", RUNS,
                 {"kind": Terms("ccmix.validity.kinds", "finding"), "pair": _PAIR,
                  "runs": Metric("unique_count", "ccmix.run.id", "runs")},
                 XY("bar_horizontal_stacked", "kind", ("runs",), "pair")),
            24, 12, leads_to="campaigns",
        ),
        Panel(
            "not-verified",
            Lens("What was configured and runs could not show; they may be valid", RUNS,
                 {"what": Terms("ccmix.validity.not_verified", "not verified", by="runs"), "pair": _PAIR,
                  "runs": Count("runs")},
                 LensTable(("what", "pair", "runs"))),
            48, 8, leads_to="campaigns",
        ),
        Panel(
            "ping",
            Lens("RTT of the empty path (ping)", RUNS,
                 {"pair": _PAIR, "time": Times(), "ping": Metric("min", "ccmix.path.ping_rtt_s", "smallest RTT")},
                 XY("line", "time", ("ping",), "pair")),
            24, 11,
        ),
        Panel(
            "load",
            Lens("RTT under load", RUNS,
                 {"pair": _PAIR, "time": Times(), "rtt": Metric("median", "ccmix.rtt_median_s", "median RTT")},
                 XY("line", "time", ("rtt",), "pair")),
            24, 11,
        ),
        Panel("cpu", _of_hosts("Busiest core", Metric("max", "ccmix.host.cpu_busiest_core", "share of time, most")),
              24, 11),
        Panel("softnet", _of_hosts("Drops between devices (softnet)",
                                   Metric("sum", "ccmix.host.softnet_drops", "packets")), 24, 11),
        Panel(
            "hosts",
            Lens(
                "Hosts",
                HOSTS,
                {
                    "host": _HOST,
                    "kernel": Terms("host.os.kernel", "kernel"),
                    "runs": Metric("unique_count", "ccmix.run.id", "runs"),
                    "cpus": Metric("max", "ccmix.host.cpus", "processors"),
                    "busy": Metric("average", "ccmix.host.cpu_busy", "CPU, mean"),
                    "pressures": Metric("max", "ccmix.host.memory_pressures", "TCP memory pressures, most of a run"),
                    "drops": Metric("max", "ccmix.host.softnet_drops", "softnet drops, most"),
                    "squeezes": Metric("max", "ccmix.host.softnet_squeezes", "softnet squeezes, most"),
                    "missed": Metric("max", "ccmix.host.probe_missed", "samples missed, most"),
                    "late": Metric("max", "ccmix.host.probe_longest_delay_s", "latest sample"),
                    "last": Metric("max", "@timestamp", "last seen"),
                },
                LensTable(("host", "kernel", "runs", "cpus", "busy", "pressures", "drops", "squeezes", "missed", "late",
                       "last")),
            ),
            48, 8, leads_to="campaigns",
        ),
    ),
)  # fmt: skip
