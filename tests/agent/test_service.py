"""Tests the agent's reports of changes that it has undone."""

import json

from ccmix.agent.messages import LONGEST_MESSAGE
from ccmix.agent.service import _shortened


def test_changes_with_long_foreign_texts_fit_into_a_message() -> None:
    """A character outside Unicode's first plane takes twelve bytes of JSON."""
    text = "\N{GRINNING FACE}" * 5000
    named = _shortened([(text, text)] * 1000)
    assert len(json.dumps({"left": named})) < LONGEST_MESSAGE
    assert named[-1] == (f"{1000 - (len(named) - 1)} more changes", None)
