"""Describes a data view for each kind of document: its indices, and how Kibana writes the values of its fields."""

from dataclasses import dataclass

from ccmix.index.fields import FIELDS, KINDS, DocumentKind, fields_of
from ccmix.kibana.saved import Json, SavedObject, embedded

DATA_TYPES = {
    "keyword": "string", "constant_keyword": "string", "text": "string", "flattened": "string", "ip": "ip",
    "boolean": "boolean", "date": "date", "double": "number", "long": "number",
}  # fmt: skip


def _number(pattern: str) -> Json:
    return {"id": "number", "params": {"pattern": pattern}}


def _duration(output: str) -> Json:
    return {
        "id": "duration",
        "params": {
            "inputFormat": "seconds", "outputFormat": output, "outputPrecision": 2, "showSuffix": True,
            "useShortSuffix": True,
        },
    }  # fmt: skip


RATE_PATTERN = "0,0.[0] bitd"  # Kibana appends no "/s" here: formats of columns do (lens.RATE_FORMAT)
# Kibana's format for each unit of the table of fields; units without one are written as plain numbers.
FORMATS = {
    "bit/s": _number(RATE_PATTERN),
    "byte": {"id": "bytes", "params": {"pattern": "0,0.[0] bd"}},
    "percent": {"id": "percent", "params": {"pattern": "0,0.[000]%"}},
    "s": _duration("asMilliseconds"),
    "BDP": _number("0,0.[00]"),
}  # fmt: skip
OF_SECONDS = ("ccmix.startup_s", "ccmix.convergence_s")  # some seconds: they are not written as milliseconds
LONG_TIMES = ("ccmix.elapsed_s", "ccmix.duration_s", "ccmix.omit_s", "ccmix.interval_s", "ccmix.seconds",
              "ccmix.run.real_seconds")  # fmt: skip


@dataclass(frozen=True)
class DataView:
    """Describes the documents of a kind."""

    kind: DocumentKind

    @property
    def id(self) -> str:
        return f"ccmix-{self.kind.name}"

    @property
    def title(self) -> str:
        """Returns the pattern of its indices."""
        return self.kind.index_pattern

    @property
    def time_field(self) -> str:
        return "@timestamp"

    def data_type(self, field: str) -> str:
        """Returns Kibana's type of a field. Raises ValueError where this kind of document doesn't have it."""
        if field not in FIELDS or self.kind.name not in FIELDS[field].kinds:
            raise ValueError(f"{self.kind.name} has no field {field}")
        return DATA_TYPES[FIELDS[field].type]

    def saved(self) -> SavedObject:
        formats = {
            field.name: _duration("asSeconds") if field.name in OF_SECONDS else FORMATS[field.unit]
            for field in fields_of(self.kind.name)
            if field.unit in FORMATS and field.name not in LONG_TIMES
        }
        attributes = {
            "title": self.title,
            "name": f"ccmix: {self.kind.meaning.partition(':')[0]}",
            "timeFieldName": self.time_field,
            "fieldFormatMap": embedded(formats),
        }
        return SavedObject("index-pattern", self.id, attributes)


VIEWS = {name: DataView(kind) for name, kind in KINDS.items()}
CONDITIONS, RUNS, GROUPS, FLOWS, HOSTS, INTERVALS, SOCKETS, QUEUES, PACKETS, RTTS, COMPLETIONS = (
    VIEWS[name]
    for name in (
        "conditions", "runs", "groups", "flows", "hosts", "intervals", "sockets", "queues", "packets", "rtts",
        "completions",
    )
)  # fmt: skip
