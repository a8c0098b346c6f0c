"""Writes the terms of all components of the wheel as one text, in which equal terms appear once."""

from components import Component, common_licenses

HEAD = """\
The third-party components of this wheel of ccmix, and their terms. ccmix itself is under
Apache-2.0. `make dist-sources` of the same commit collects the sources of the components under the
GPL and the LGPL; SOURCES.json, next to the wheel, lists them.
"""
PYTHON_HEAD = """\
The Python packages in /opt/ccmix, and their terms.
"""
RULE = "=" * 100


def third_party(components: list[Component], head: str = HEAD) -> str:
    """Returns the list, the terms, and the common licences that the terms refer to."""
    others = [each for each in components if each.terms]
    together: dict[str, list[Component]] = {}
    for each in others:
        together.setdefault(each.terms, []).append(each)
    lines = [
        f"{each.name} {each.version}: {', '.join(each.licences) or 'see below'}" for each in others
    ]
    parts = [head, "\n".join(lines) + "\n"]
    for terms, these in together.items():
        parts.append(_part(", ".join(f"{each.name} {each.version}" for each in these), terms))
    for name, text in common_licenses(others).items():
        parts.append(_part(f"/usr/share/common-licenses/{name}", text))
    return "\n".join(parts)


def _part(title: str, text: str) -> str:
    return f"{RULE}\n{title}\n{RULE}\n\n{text.strip()}\n"
