"""Makes documents of a run's series, such as samples of sockets: one for each row.

Rates are computed here because not every server can derive them.
"""

import ipaddress
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from ccmix.analysis import dynamics
from ccmix.analysis.series import IPV4_IN_IPV6
from ccmix.archive import ArchiveError, parquet
from ccmix.index import context
from ccmix.index.fields import SAMPLES, fields_of
from ccmix.model import Run, Topology
from ccmix.model.results import FinishedRun

ROWS_AT_ONCE = 50_000  # the maximum in memory

# Columns that identify a socket or a queue, for fields that are the growth since the sample before
OF_A_SOCKET = ("host", "port", "end", "cookie")  # ports are used again, a kernel's cookies are not
OF_A_QUEUE = ("place", "netns", "device", "handle", "parent")

Columns = dict[str, pl.Expr]


@dataclass(frozen=True)
class Samples:
    """Holds documents of a kind as a table: a row for each, a column for each field.

    `first` is the number of its first row in the series.
    """

    kind: str
    table: pl.DataFrame
    first: int


def sample_tables(finished: FinishedRun, folder: Path) -> Iterator[Samples]:
    """Yields the documents of each series of the run, at most ROWS_AT_ONCE rows at a time.

    Raises ArchiveError at the end if a file can't be read.
    """
    host = pl.col("host").replace(context.shown_host(finished.run, finished.facts))
    began_s = finished.began_s or 0.0  # unknown of runs that were imported without times
    # by kind: the file's name, the columns that identify an object, and what makes the fields
    files: dict[str, tuple[str, Sequence[str], Callable[[Collection[str]], Columns]]] = {
        "intervals": ("intervals", (), lambda _: _interval_columns(finished, host)),
        "sockets": (
            "sockets",
            OF_A_SOCKET,
            lambda column_names: _socket_columns(column_names, finished, host),
        ),
        "queues": (
            "queues",
            OF_A_QUEUE,
            lambda column_names: _queue_columns(finished.run, column_names),
        ),
        "packets": (
            "packets",
            (),
            lambda column_names: _packet_columns(column_names, finished, began_s),
        ),
        "rtts": (
            "rtt",
            (),
            lambda _: {
                "ccmix.rtt_probe.sequence": pl.col("sequence"),
                "ccmix.rtt_s": pl.col("rtt_s"),
            },
        ),
        "completions": (
            "completions",
            (),
            lambda column_names: _completion_columns(column_names, finished),
        ),
    }
    assert set(files) == set(SAMPLES)
    unread: list[str] = []
    for kind, (name, keys, columns) in files.items():
        file = folder / f"{name}.parquet"
        if not file.exists():
            continue
        try:
            with parquet.scanned(file) as rows:
                column_names = rows.collect_schema().names()
                columns_of_time = (
                    {"ccmix.elapsed_s": pl.col("time_s")} if "time_s" in column_names else {}
                )
                yield from _file_samples(
                    kind,
                    rows,
                    [key for key in keys if key in column_names],
                    columns_of_time | columns(column_names),
                )
        except ArchiveError as error:
            unread.append(str(error))
    if unread:
        raise ArchiveError("\n".join(unread))


def _file_samples(
    kind: str, rows: pl.LazyFrame, keys: Sequence[str], columns: Columns
) -> Iterator[Samples]:
    """Yields the rows of one series in parts, as documents.

    `columns` has an expression for each field. `keys` are the columns that identify a socket or a
    queue. A rate is the growth since the previous sample. So the last row of each socket or queue
    is put before the next part.
    """
    needed = list(
        dict.fromkeys(
            [*keys, *(name for column in columns.values() for name in column.meta.root_names())]
        )
    )
    ordered = [field.name for field in fields_of(kind) if field.name in columns]
    rows = rows.select(needed)
    last_rows: pl.DataFrame | None = None
    first = 0
    while (part := rows.slice(first, ROWS_AT_ONCE).collect()).height:
        with_before = part if last_rows is None else pl.concat([last_rows, part])
        computed = with_before.select(**columns).tail(part.height)
        floats = pl.col(pl.Float64)
        finite = computed.with_columns(pl.when(floats.is_finite()).then(floats))
        yield Samples(kind, finite.select(ordered), first)
        last_rows = (
            with_before.group_by(keys, maintain_order=True).tail(1).select(needed) if keys else None
        )
        first += part.height


def _flow_id(host: pl.Expr) -> pl.Expr:
    """Returns the id of a flow, HOST:PORT."""
    return pl.format("{}:{}", host, "port")


def _flow_cca(finished: FinishedRun) -> pl.Expr:
    """Returns the CCA of the row's flow, from the metrics of the run."""
    ccas = {f"{flow.host}:{flow.port}": flow.cca_used for flow in finished.metrics.flows}
    return _flow_id(pl.col("host")).replace_strict(ccas, default=None, return_dtype=pl.String)


def _interval_columns(finished: FinishedRun, host: pl.Expr) -> Columns:
    """Returns the fields of the documents that describe iperf3's intervals. The expression `host`
    gives the name that the documents have for the sender of a row.
    """
    return {
        "ccmix.group.name": pl.col("group"),
        "ccmix.cca": _flow_cca(finished),
        "ccmix.flow.id": _flow_id(host),
        "host.name": host,
        "source.port": pl.col("port"),
        "ccmix.seconds": pl.col("seconds"),
        "ccmix.omitted": pl.col("omitted"),
        "ccmix.goodput_bps": pl.col("goodput_bps"),
        "ccmix.retransmits": pl.col("retransmits"),
    }


_OF_BOTH_ENDS = ("state", "min_rtt_s", "mss_bytes")
_OF_THE_RECEIVER = ("bytes_received", "recv_queue_bytes", "receive_buffer_bytes")


def _matching_columns(
    kind: str, field_prefix: str, known: Collection[str], column_prefix: str = ""
) -> dict[str, str]:
    """Maps fields of a kind to the columns that they are copied from.

    A field FIELD_PREFIX + NAME comes from the column COLUMN_PREFIX + NAME, if the file has it
    (`known`).
    """
    names = (field.name.removeprefix(field_prefix) for field in fields_of(kind))
    return {
        f"{field_prefix}{name}": f"{column_prefix}{name}"
        for name in names
        if f"{column_prefix}{name}" in known
    }


def _copied_columns(
    kind: str, field_prefix: str, known: Collection[str], column_prefix: str = ""
) -> Columns:
    """Returns the fields that are copied from a column of the same name, apart from prefixes."""
    return {
        field: pl.col(name)
        for field, name in _matching_columns(kind, field_prefix, known, column_prefix).items()
    }


def _socket_columns(known: Collection[str], finished: FinishedRun, host: pl.Expr) -> Columns:
    """Returns the fields of a sample of a socket; `known` are the columns of the file.

    The file has only few columns if ss sampled the sockets instead of ccmix-sockmon. A value that
    only matters at the sender is left out for the receiver's socket, and vice versa.
    """
    sending = pl.col("end") == "sender"
    sampled = ~pl.col("final")
    socket = [name for name in OF_A_SOCKET if name in known]

    def since(column: str) -> pl.Expr:
        """Returns the growth since the previous sample of the same socket."""
        return pl.col(column).cast(pl.Float64).diff().over(socket, order_by="time_s")

    def address(of_sender: str, of_receiver: str) -> pl.Expr:
        """Returns the address at one end, which is local or remote depending on the socket's
        end.
        """
        return pl.when(sending).then(of_sender).otherwise(of_receiver)

    def of_sender(value: pl.Expr) -> pl.Expr:
        """Returns the value if the socket is the sender's, otherwise null."""
        return pl.when(sending).then(value)

    destination_port = "remote_port" if "remote_port" in known else "port"
    columns = {
        "ccmix.group.name": pl.col("group"),
        "ccmix.cca": pl.when(sending).then("cca").otherwise(_flow_cca(finished)),
        "ccmix.flow.id": _flow_id(host),
        "host.name": host,
        "source.port": pl.col("port"),
        "ccmix.end": pl.col("end"),
        "ccmix.final": pl.col("final"),
        "ccmix.rtt_s": pl.col("rtt_s"),
        "ccmix.socket.cwnd_bytes": of_sender(
            pl.col("cwnd_packets").cast(pl.Int64) * pl.col("mss_bytes")
        ),
        "ccmix.goodput_bps": of_sender(
            pl.when(sampled).then(since("bytes_acked") * 8 / since("time_s"))
        ),
        "ccmix.retransmission_rate": of_sender(
            pl.when(sampled).then(since("retransmits") / since("data_segs_out"))
        ),
    }
    for field, name in _matching_columns("sockets", "ccmix.socket.", known).items():
        has_value = (
            None if name in _OF_BOTH_ENDS else ~sending if name in _OF_THE_RECEIVER else sending
        )
        columns[field] = pl.col(name) if has_value is None else pl.when(has_value).then(name)
    if "local_address" in known:
        columns |= {
            **_address_fields("source", address("local_address", "remote_address")),
            **_address_fields("destination", address("remote_address", "local_address")),
            "destination.port": pl.when(sending).then(destination_port).otherwise("local_port"),
        }
    for cca in ("bbr", "dctcp"):
        columns |= _copied_columns("sockets", f"ccmix.{cca}.", known, f"{cca}_")
    if "bbr_cwnd_gain" in known:
        columns["ccmix.bbr.state"] = dynamics.bbr_state(known)
    return columns


def _address_fields(end: str, address: pl.Expr) -> Columns:
    """Returns the fields of the address at one end: its IP address, or else its name, and the
    device that ss shows after a '%' for a socket that is bound to it.
    """
    host = address.str.extract("^([^%]+)").str.strip_prefix(IPV4_IN_IPV6)
    ip = host.map_batches(_ip_addresses, return_dtype=pl.String)
    return {
        f"{end}.ip": ip,
        f"ccmix.{end}.name": pl.when(ip.is_null()).then(host),
        f"ccmix.{end}.scope": address.str.extract("%(.+)"),
    }


def _ip_addresses(hosts: pl.Series) -> pl.Series:
    """Returns the IP addresses in a column, and null for names."""
    names = [host for host in hosts.drop_nulls().unique() if not _is_ip_address(host)]
    return hosts.set(hosts.is_in(names), None)


def _is_ip_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _queue_columns(run: Run, known: Collection[str]) -> Columns:
    """Returns the fields of a sample of a qdisc; `known` are the columns of the file.

    On an emulated path, the queueing delay at the bottleneck is its backlog divided by its rate.
    """
    queue = [name for name in OF_A_QUEUE if name in known]

    def per_s(column: str) -> pl.Expr:
        """Returns the growth of a counter per second since the previous sample of the same
        qdisc.
        """
        grown, seconds = (
            pl.col(name).cast(pl.Float64).diff().over(queue, order_by="time_s")
            for name in (column, "time_s")
        )
        return grown / seconds

    columns = {
        "ccmix.throughput_bps": per_s("bytes") * 8,
        "ccmix.queue.drops_per_s": per_s("drops"),
        **_copied_columns("queues", "ccmix.queue.", known),
    }
    if isinstance(run.path, Topology):
        at_bottleneck = pl.when(pl.col("place") == "bottleneck")
        columns["ccmix.queue.delay_s"] = at_bottleneck.then(
            pl.col("backlog_bytes") * 8 / _rate_at(run.path)
        )
    return columns


def _rate_at(path: Topology) -> pl.Expr:
    """Returns the bottleneck's rate (bit/s) at each row's time: it may change during a run."""
    (_, first), *later = path.phases
    rate = pl.lit(first.rate_bps)
    for at_s, phase in later:
        rate = pl.when(pl.col("time_s") >= at_s).then(phase.rate_bps).otherwise(rate)
    return rate


def _packet_columns(known: Collection[str], finished: FinishedRun, began_s: float) -> Columns:
    """Returns the fields of a packet capture's counters; `began_s` is when the run began.

    The capture has times since 1970, but documents have times since the run began. A capture is
    made at a single host, so the source port identifies the flow.
    """
    names = context.shown_host(finished.run, finished.facts)
    flows = {flow.port: flow for flow in finished.metrics.flows}
    ids = {port: f"{names.get(flow.host, flow.host)}:{port}" for port, flow in flows.items()}

    def of_flow(values: Mapping[int, str | None]) -> pl.Expr:
        """Returns a property of the row's flow, given by source port."""
        return pl.col("source_port").replace_strict(values, default=None, return_dtype=pl.String)

    return {
        "ccmix.elapsed_s": pl.col("time_s") - began_s,
        "ccmix.group.name": of_flow({port: flow.group for port, flow in flows.items()}),
        "ccmix.cca": of_flow({port: flow.cca_used for port, flow in flows.items()}),
        "ccmix.flow.id": of_flow(ids),
        "source.ip": pl.col("source_address"),
        "source.port": pl.col("source_port"),
        "destination.ip": pl.col("destination_address"),
        "destination.port": pl.col("destination_port"),
        **_copied_columns("packets", "ccmix.packets.", known),
    }


def _completion_columns(known: Collection[str], finished: FinishedRun) -> Columns:
    """Returns the fields of HTTP requests and short flows that were completed."""
    ccas = {group.group: group.cca for group in finished.metrics.groups}
    return {
        "ccmix.elapsed_s": pl.col("start_s"),
        "ccmix.group.name": pl.col("group"),
        "ccmix.cca": pl.col("group").replace_strict(ccas, default=None, return_dtype=pl.String),
        "host.name": pl.col("host"),
        "ccmix.seconds": pl.col("seconds"),
        **_copied_columns("completions", "ccmix.completion.", known),
    }
