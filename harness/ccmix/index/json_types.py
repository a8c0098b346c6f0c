"""Names the JSON that Elasticsearch takes and gives."""

from typing import Any

Document = dict[str, Any]  # field to value; None: no value
JsonObject = dict[str, Any]  # a mapping, a policy, a query or an answer of Elasticsearch
