"""Tests decoding, except for reading values, which test_archive.py tests."""

from pathlib import Path

import pytest
from pydantic_core import SchemaError

from ccmix.archive import codec

WHILE_BUILT = (
    'Error building "tuple" validator:\n  SchemaError: Error building "literal" '
    "validator:\n  KeyError: "
)


@pytest.mark.parametrize(
    ("within", "raised"), [("KeyboardInterrupt: ", KeyboardInterrupt), ("'kind'", SchemaError)]
)
def test_ctrl_c_while_pydantic_builds_a_validator(
    within: str, raised: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text is that of pydantic 2 after a Ctrl-C."""

    def interrupted(*_args: object, **_options: object) -> None:
        raise SchemaError(WHILE_BUILT + within)

    monkeypatch.setattr(codec, "TypeAdapter", interrupted)
    with pytest.raises(raised):
        codec.Codec(Path).decode(b"{}")
