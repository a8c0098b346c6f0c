"""Imported runs as documents for Elasticsearch: only fields of the table, and only known values."""

from pathlib import Path

from ccmix.archive import Campaign
from ccmix.index.bulk import finished, run_lines
from ccmix.index.fields import fields_of
from ccmix.index.summaries import campaign_documents
from support.commands import REPOSITORY
from support.imports import DATA, Import, Outputs
from support.index import documents

PSCHEDULER = REPOSITORY / "tests" / "data" / "pscheduler" / "iperf3mix"


def leaves(value: object, prefix: str = "") -> list[str]:
    if isinstance(value, dict):
        return [
            leaf
            for name, below in value.items()
            for leaf in leaves(below, f"{prefix}.{name}" if prefix else name)
        ]
    return [prefix]


def test_no_document_has_a_field_that_the_table_does_not_give_its_kind(
    iperf3_outputs: dict[str, Outputs], logs: dict[str, Path], imported: Import
) -> None:
    files = [
        iperf3_outputs["mix"].client,
        iperf3_outputs["udp"].client,
        iperf3_outputs["tcp"].text,
        logs["two"],
    ]
    outcome = imported(
        *files, DATA / "tierney-2021-excerpt.csv", PSCHEDULER, "--rtt", "88ms", "--rate", "10gbit"
    )
    campaign = Campaign.load(outcome.outdir)
    kinds = set()
    for number, result in enumerate(finished(campaign)):
        for kind, _, document in documents(run_lines(str(number), campaign, result)):
            kinds.add(kind)
            known = {field.name for field in fields_of(kind)}
            flattened = (
                "ccmix.condition.settings.",
                "ccmix.destination.metadata.",
                "ccmix.host.sysctl.",
            )
            unknown = {leaf for leaf in leaves(document) if not leaf.startswith(flattened)} - known
            assert not unknown, (kind, unknown)
            assert (
                "ccmix.path.base_rtt_s" not in known
                or document["ccmix"]["path"]["base_rtt_s"] == 0.088
            )
    assert kinds >= {"runs", "groups", "flows", "intervals", "sockets"}
    assert len(list(campaign_documents(campaign))) > len(outcome.summaries) / 5


def test_times_that_nobody_tells_are_left_out(imported: Import) -> None:
    campaign = Campaign.load(imported(DATA / "tierney-2021-excerpt.csv").outdir)
    result = next(iter(finished(campaign)))
    (run,) = (
        document
        for kind, _, document in documents(run_lines("0", campaign, result))
        if kind == "runs"
    )
    assert not {"start", "end", "duration"} & run["event"].keys()
    assert run["@timestamp"] == round(campaign.origin.started_s * 1000)
    assert (
        run["ccmix"]["validity"].items()
        >= {"status": "unknown", "accepted_kinds": ["imported"]}.items()
    )
    assert "interval_s" not in run["ccmix"]
    assert "duration_s" not in run["ccmix"]
