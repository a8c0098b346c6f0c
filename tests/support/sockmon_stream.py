"""Makes a stream of ccmix-sockmon by hand."""

import struct

from ccmix.probes.stream.socket_columns import TCP_INFO_FIELDS

INFO = 248
TEXT = (
    b"ticks_per_s=100\npage_bytes=4096\nsockets.0=h1\ndevice.0=r/eth0\ndevice.1=/lo\ncounters.0=\n"
)
SOCKET, QUEUE, COUNTER, PROCESS = 1, 2, 3, 4
SOCKETS, CLOSED, QUEUES, LINKS, COUNTERS, CPU, PROCESSES = 16, 17, 18, 19, 20, 21, 22
BBR, BBR_INFO, NOTE, REPORT = 23, 24, 32, 33
SECOND = 10**9


def header(
    text: bytes = TEXT, magic: bytes = b"CCMIXMON", order: int = 0x01020304, version: int = 1
) -> bytes:
    text += b"\n" * (-len(text) % 8)
    return (
        struct.pack("<8sIIQQII", magic, order, version, 5 * SECOND, 1000 * SECOND, 0, len(text))
        + text
    )


def record(kind: int, body: bytes) -> bytes:
    body += bytes(-len(body) % 8)
    return struct.pack("<II", 8 + len(body), kind) + body


def sample(
    kind: int, rows: list[bytes], at: float = 7, row_bytes: int | None = None, info: int = 0
) -> bytes:
    width = row_bytes if row_bytes is not None else len(rows[0])
    head = struct.pack(
        "<QQIIII", int(at * SECOND), int((995 + at) * SECOND), 1500, len(rows), width, info
    )
    return record(kind, head + b"".join(rows))


def socket_identity(number: int, cca: bytes = b"bbr", family: int = 2, port: int = 40000) -> bytes:
    local, remote = (
        (bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2]))
        if family == 2
        else (bytes(15) + b"\1", bytes(15) + b"\2")
    )
    body = struct.pack(
        "<IIQQIHHIIII", number, 0, 77 + number, 6 * SECOND, family, port, 5201, 0, 1000, 4, 0
    )
    return record(
        SOCKET, body + local.ljust(16, b"\0") + remote.ljust(16, b"\0") + cca.ljust(16, b"\0")
    )


def socket_row(
    number: int, has: int = 0, words: tuple[int, ...] = (0,) * 5, info: int = INFO, **fields: int
) -> bytes:
    row = struct.pack("<IBBBBIII", number, 1, 0, 0, has, 0, 11, 22)
    row += struct.pack("<9I", *range(100, 109)) + struct.pack("<5I", *words) + bytes(4)
    tcp_info = bytearray(info)
    for name, value in fields.items():
        offset, dtype = TCP_INFO_FIELDS[name]
        struct.pack_into(
            {"u1": "<B", "<u2": "<H", "<u4": "<I", "<u8": "<Q"}[dtype], tcp_info, offset, value
        )
    return row + bytes(tcp_info)


def bbr_row(
    number: int,
    phase: int = 0,
    bw_lo_bps: int = 2**64 - 1,
    hi: int = 2**32 - 1,
    lo: int = 2**32 - 1,
    cycle: int = 0,
) -> bytes:
    return struct.pack("<IIQIIII", number, phase, bw_lo_bps, hi, lo, cycle, 0)


def bbr_info_row(number: int, *words: int) -> bytes:
    return struct.pack("<6I", number, *words)


def sockets(rows: list[bytes], kind: int = SOCKETS, at: float = 7, info: int = INFO) -> bytes:
    return sample(kind, rows, at, info=info)


def whole() -> bytes:
    """Returns a stream with one record of everything."""
    queue = struct.pack("<IIQQIIIIII", 0, 36, 9000, 6, 2, 3000, 5, 4, 3, 0)
    xstats = struct.pack("<10I", 0, 0, 8, 12, 0, 0, 0, 28, 0, 0)[:36].ljust(160, b"\0")
    return b"".join(
        [
            header(),
            socket_identity(0),
            socket_identity(1, b"cubic", 10, 50000),
            record(QUEUE, struct.pack("<IIII16s", 0, 0, 0x80010000, 0xFFFFFFFF, b"fq_codel")),
            record(COUNTER, struct.pack("<IIi44s", 0, 0, -1, b"Tcp.RetransSegs")),
            record(COUNTER, struct.pack("<IIi44s", 1, 0, 3, b"Softnet.dropped")),
            record(PROCESS, struct.pack("<IIIIQ24s", 0, 4242, 1, 0, 12300, b"iperf3 (x)")),
            sockets([socket_row(0, rtt=1500), socket_row(1, rtt=2500)]),
            sample(BBR, [bbr_row(0, 5, 8_000_000, 20, 10, 3)]),
            sample(QUEUES, [queue + xstats]),
            sample(LINKS, [struct.pack("<II25Q", 1, 24, *range(25))]),
            sample(COUNTERS, [struct.pack("<IIQ", 0, 0, 12), struct.pack("<IIQ", 1, 0, 2**63)]),
            sample(CPU, [struct.pack("<II10Q", 4, 2_500_000, *range(100, 1100, 100))]),
            sample(PROCESSES, [struct.pack("<IIQQQ", 0, 3, 150, 250, 10)]),
            record(99, b"of another version"),
            record(NOTE, b"no destroy events"),
            sockets([socket_row(0, bytes_sent=2**40)], CLOSED, at=8),
            record(REPORT, b"samples=2\nmissed=1\n"),
        ]
    )
