"""When each flow of a run was active, and when all of a test were."""

from dataclasses import dataclass

import polars as pl

from ccmix.analysis.lengths import LEAST_INTERVALS
from ccmix.analysis.tables import RunTables
from ccmix.model import CommandSource, GroupedSource, HttpSource, Run, Topology, UdpSource, WorkloadSource


@dataclass(frozen=True)
class ActiveTime:
    """A time of a run, in seconds from the start of its traffic."""

    begin_s: float
    end_s: float

    @classmethod
    def of(cls, flows: pl.DataFrame) -> "ActiveTime":
        """Returns the time from the begin of the first of some flows to the end of the last one."""
        return cls(float(flows["begin_s"].min()), float(flows["end_s"].max()))  # type: ignore[arg-type]

    @property
    def seconds(self) -> float:
        return max(0.0, self.end_s - self.begin_s)


def active_flows(run: Run, tables: RunTables) -> pl.DataFrame:
    """Returns tables.flows and tables.short_flows, their begin_s and end_s within the measured time, and besides:

    active_s: between the two
    short: whether it stands for all connections of a source of short flows
    tcp: whether it is not UDP
    unit: what counts as one flow where flows are compared: the flow, or the source if that is http, a workload or a
        command
    """
    flows = pl.concat([tables.flows.with_columns(short=False), tables.short_flows.with_columns(short=True)])
    begin_s = pl.col("begin_s").fill_null(0.0).clip(run.traffic.omit_s)
    end_s = pl.col("end_s")
    if run.traffic.duration_s is not None:
        end_s = end_s.fill_null(run.traffic.total_s).clip(upper_bound=run.traffic.total_s)
    sources = run.traffic.named_sources
    are_one = [
        run.group_name(each) for each in sources if isinstance(each, CommandSource | HttpSource | WorkloadSource)
    ]
    of_udp = [run.group_name(source) for source in run.traffic.sources if isinstance(source, UdpSource)]
    flow = pl.concat_str("host", "port", separator=" ")
    return flows.with_columns(
        begin_s=begin_s,
        end_s=pl.max_horizontal(begin_s, end_s.fill_null(begin_s)),
        tcp=~pl.col("udp").fill_null(pl.col("group").is_in(of_udp)),
        unit=pl.when(pl.col("group").is_in(are_one)).then("group").otherwise(flow),
    ).with_columns(active_s=pl.col("end_s") - pl.col("begin_s"))


def common_time(flows: pl.DataFrame) -> ActiveTime | None:
    """Returns when all TCP flows of active_flows() are active, or all flows if none is TCP; None if never."""
    compared = flows.filter("tcp") if flows["tcp"].any() else flows
    units = compared.group_by("unit").agg(pl.col("begin_s").min(), pl.col("end_s").max())
    if units.is_empty():
        return None
    common = ActiveTime(float(units["begin_s"].max()), float(units["end_s"].min()))  # type: ignore[arg-type]
    return common if common.seconds else None


def joins_or_changes(run: Run, flows: pl.DataFrame) -> bool:
    """Returns whether flows of activity.active_flows() begin or end while others go on, or the path changes.

    Then a start-up and an overshoot are not those of flows, but of what happens around them.
    """
    if isinstance(run.path, Topology) and any(change.at_s < run.traffic.total_s for change in run.path.changes):
        return True
    if run.traffic.duration_s is None or flows.is_empty():
        return False
    grouped = [source for source in run.traffic.sources if isinstance(source, GroupedSource)]
    starts_s = [source.start_s for source in run.traffic.sources]
    starts_s += [source.start_s + group.delay_s for source in grouped for group in source.groups]
    apart_s = run.traffic.measured_s / LEAST_INTERVALS
    of_units = flows.group_by("unit").agg(pl.col("begin_s").min(), pl.col("end_s").max())
    moments_s = (starts_s, of_units["begin_s"].to_list(), of_units["end_s"].to_list())
    return any(max(each) - min(each) > apart_s for each in moments_s)
