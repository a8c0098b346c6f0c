"""Writes the terms of all that is in the wheel: one text, in which equal terms stand once."""

from components import Component, common_licenses

HEAD = """\
What this wheel of ccmix has of others, and under which terms. ccmix itself is under Apache-2.0. `make dist-sources` of
the same commit collects the sources of what is under the GPL and the LGPL; SOURCES.json, beside the wheel, lists them.
"""
PYTHON_HEAD = """\
The Python packages in /opt/ccmix, which are under their own terms.
"""
RULE = "=" * 100


def third_party(components: list[Component], head: str = HEAD) -> str:
    """Returns the list, the terms, and the common licences that they name."""
    others = [each for each in components if each.terms]
    together: dict[str, list[Component]] = {}
    for each in others:
        together.setdefault(each.terms, []).append(each)
    lines = [f"{each.name} {each.version}: {', '.join(each.licences) or 'see below'}" for each in others]
    parts = [head, "\n".join(lines) + "\n"]
    for terms, these in together.items():
        parts.append(_part(", ".join(f"{each.name} {each.version}" for each in these), terms))
    for name, text in common_licenses(others).items():
        parts.append(_part(f"/usr/share/common-licenses/{name}", text))
    return "\n".join(parts)


def _part(title: str, text: str) -> str:
    return f"{RULE}\n{title}\n{RULE}\n\n{text.strip()}\n"
