"""Writes the software bill of materials: CycloneDX 1.6 as JSON
(https://cyclonedx.org/docs/1.6/json/).
"""

import json
import re
import time
import uuid
from typing import Any

from components import Component

OPERATOR = re.compile(" (AND|OR|WITH) ")
NAMESPACE = uuid.UUID("6f1c6c4e-0f0b-5b1e-9d6a-63636d697800")
"""Gives the same components the same serial number; any constant is suitable."""


def bill_of(components: list[Component], epoch: int) -> str:
    """Returns the document. The first component is ccmix itself, which contains all others."""
    ours, *others = [_component(number, each) for number, each in enumerate(components)]
    described = {
        "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(epoch)),
        "component": ours,
    }
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": described,
        "components": others,
        "dependencies": [
            {"ref": ours["bom-ref"], "dependsOn": [each["bom-ref"] for each in others]}
        ],
    }
    serial = uuid.uuid5(NAMESPACE, json.dumps(document, sort_keys=True))
    return json.dumps({**document, "serialNumber": f"urn:uuid:{serial}"}, indent=1) + "\n"


def _licences(names: tuple[str, ...]) -> list[dict[str, Any]]:
    """Returns names of licences, or one SPDX expression; the format doesn't allow both."""
    if len(names) == 1 and OPERATOR.search(names[0]):
        return [{"expression": names[0]}]
    return [{"license": {"name": name}} for name in names]


def _component(number: int, each: Component) -> dict[str, Any]:
    described: dict[str, Any] = {
        "type": each.kind,
        "bom-ref": f"{number}-{each.name.split()[0]}",
        "name": each.name,
        "version": each.version,
        "properties": [{"name": "ccmix:in", "value": place} for place in each.within],
    }
    if each.source:
        source = f"{each.source.name} {each.source.version}"
        described["properties"].append({"name": "ccmix:debian-source", "value": source})
    if each.licences:
        described["licenses"] = _licences(each.licences)
    if each.purl:
        described["purl"] = each.purl
    if each.sha256:
        described["hashes"] = [{"alg": "SHA-256", "content": each.sha256}]
    return described
