"""Names places in sentences by their settings: 'on kiae with 0.1% loss at a base RTT of 88 ms'."""

from collections.abc import Iterable

from ccmix.analysis.place_settings import BASE_RTT, HOST_DELAYS, STREAMS

HEADINGS = {
    BASE_RTT: "Base RTT", "qdisc": "Queue discipline", "rate": "Rate", "loss": "Loss", "buffer": "Buffer",
    STREAMS: "Streams", "jitter": "Jitter", "reorder": "Reordering", "sender-qdisc": "Sender's queue",
    "mtu": "MTU", "ecn": "ECN", "offloads": "Offloads",
}  # fmt: skip


def heading(setting: str) -> str:
    """Returns the name of a setting at the beginning of a sentence; a key of the INI file stays as it is."""
    return HEADINGS.get(setting, setting)


def phrases(settings: Iterable[tuple[str, str]], path: str = "", dst: str = "") -> str:
    """Returns 'on kiae with 0.1% loss and a buffer of 1 BDP at a base RTT of 88 ms'; '' without any setting."""
    front = [f"to {dst}"] if dst else [f"on {path}"] if path else []
    having, at = [], []
    for setting, value in dict.fromkeys(settings):
        if setting in (BASE_RTT, "rate"):
            at.append(f"a base RTT of {value}" if setting == BASE_RTT else value)
        elif value:
            having.append(_having(setting, value))
    parts = [*front]
    if having:
        parts.append(
            "with " + (" and ".join(having) if len(having) < 3 else f"{', '.join(having[:-1])} and {having[-1]}")
        )
    if at:
        parts.append(f"at {' and '.join(at)}")
    return " ".join(parts)


def _having(setting: str, value: str) -> str:
    if setting == STREAMS:
        return f"{value} stream{'' if value == '1' else 's'}"
    if setting in HOST_DELAYS:
        return f"{value} of netem each way"
    return {
        "loss": f"{value} loss",
        "buffer": f"a buffer of {value}",
        "jitter": f"{value} of jitter",
        "reorder": f"{value} reordering",
    }.get(setting, f"{setting} {value}")


def beginning(where: str, rest: str = "") -> str:
    """Returns 'With 0.1% loss, bbr ...', or the rest as it is without a place."""
    if not where:
        return rest
    return where[0].upper() + where[1:] + (f", {rest}" if rest else "")
