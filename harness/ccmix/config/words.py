"""Values that are words: 'delay 5ms loss gemodel 1% 10%', each setting by its name and then its value."""

from collections.abc import Collection, Sequence

from ccmix.config.problems import nearest, quoted


def settings(words: Sequence[str], known: Collection[str], long: Collection[str] = ()) -> dict[str, str]:
    """The values by the names before them: one word, of the `long` ones all until the next name. Raises ValueError."""
    found: dict[str, str] = {}
    rest = list(words)
    while rest:
        name = rest.pop(0)
        if name not in known:
            raise ValueError(f"has the unknown word {quoted(name)}{nearest(name, known)}")
        if name in found:
            raise ValueError(f"says {name} twice")
        value: list[str] = []
        while rest and rest[0] not in known and (name in long or not value):
            value.append(rest.pop(0))
        if not value:
            raise ValueError(f"has no value after {name}")
        found[name] = " ".join(value)
    return found
