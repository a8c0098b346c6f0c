"""Turns nested data into names and values for people."""


def flattened(data: object, name: str = "") -> list[tuple[str, str]]:
    """Returns the leaves, each with the names of all levels above it: [('sysctls
    net.ipv4.tcp_rmem', '4096 131072')].
    """
    if isinstance(data, str):
        return [(name, _plain(data))]
    if isinstance(data, dict) and data:
        return [
            item
            for key, value in data.items()
            for item in flattened(value, f"{name} {key}".strip())
        ]
    if isinstance(data, list | tuple) and any(isinstance(value, dict) for value in data):
        return [
            item
            for at, value in enumerate(data, 1)
            for item in flattened(value, f"{name} {at}".strip())
        ]
    if isinstance(data, list | tuple):
        return [(name, ", ".join(map(_plain, data)) or "–")]
    return [(name, _plain(data))]


def _plain(value: object) -> str:
    if isinstance(value, str):
        return value.replace("\t", " ").strip() if value else "–"
    if value is None or value == {}:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value).strip()
