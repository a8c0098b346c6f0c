"""Flattens nested data, such as the settings of a host, into rows of names and values for
people.
"""


def flattened(data: object, name: str = "") -> list[tuple[str, str]]:
    """Returns a row for each value in nested dicts and lists: its name and its text.

    The name has the keys of all levels above: {'sysctls': {'tcp_rmem': '4096'}} becomes [('sysctls
    tcp_rmem', '4096')]. Dicts in a list are numbered from 1; a list of plain values is one row.
    """
    if isinstance(data, str):
        return [(name, _value_text(data))]
    if isinstance(data, dict) and data:
        return [
            item
            for key, value in data.items()
            for item in flattened(value, f"{name} {key}".strip())
        ]
    if isinstance(data, list | tuple) and any(isinstance(value, dict) for value in data):
        return [
            item
            for number, value in enumerate(data, 1)
            for item in flattened(value, f"{name} {number}".strip())
        ]
    if isinstance(data, list | tuple):
        return [(name, ", ".join(map(_value_text, data)) or "–")]
    return [(name, _value_text(data))]


def _value_text(value: object) -> str:
    """Returns the text of a single value: 'yes' or 'no' for a bool, a dash for None, '' or {}."""
    if isinstance(value, str):
        return value.replace("\t", " ").strip() if value else "–"
    if value is None or value == {}:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value).strip()
