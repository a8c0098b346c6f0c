"""Reads values by the names before them: 'delay 5ms loss gemodel 1% 10%'."""

from collections.abc import Collection, Sequence

from ccmix.config.problems import nearest, quoted


def settings(words: Sequence[str], known: Collection[str], long: Collection[str] = ()) -> dict[str, str]:
    """Returns the values by their names: one word each, of the `long` ones all until the next name.

    Raises ValueError.
    """
    values: dict[str, str] = {}
    rest = list(words)
    while rest:
        name = rest.pop(0)
        if name not in known:
            raise ValueError(f"has the unknown word {quoted(name)}{nearest(name, known)}")
        if name in values:
            raise ValueError(f"says {name} twice")
        value: list[str] = []
        while rest and rest[0] not in known and (name in long or not value):
            value.append(rest.pop(0))
        if not value:
            raise ValueError(f"has no value after {name}")
        values[name] = " ".join(value)
    return values
