"""ccmix's indices on the node of the tests."""

from ccmix.index import fields
from ccmix.index.fields import KINDS
from support.elasticsearch_node import Node


def load_templates(node: Node) -> None:
    """Without lifecycle policies, which that node doesn't have."""
    for kind in KINDS.values():
        node(
            "PUT",
            f"/_index_template/{fields.template_name(kind)}",
            fields.template(kind, lifecycle=False),
        )


def bulk(node: Node, lines: bytes) -> None:
    """Indexes and makes searchable; every document must be taken."""
    said = node("POST", "/_bulk?refresh=true", lines)
    assert not said["errors"], [
        item for item in said["items"] if any(one.get("error") for one in item.values())
    ][:3]
