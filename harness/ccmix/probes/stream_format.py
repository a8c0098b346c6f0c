"""How the binary stream of the probe ccmix-sockmon is framed; probes/sockmon/README.md documents it.

Without the libraries that make tables of it, which take longer to import than a short run to watch.
"""

import struct

MAGIC, VERSION, BYTE_ORDER = b"CCMIXMON", 1, 0x01020304
HEADER = struct.Struct("<8sIIQQII")
RECORD = struct.Struct("<II")
SAMPLE = struct.Struct("<IIQQIIII")  # with the record's own header
MOST_RECORD_BYTES = 1 << 28  # what is longer was not written by the probe; 700000 sockets in a sample are not

SOCKET, QUEUE, COUNTER, PROCESS = 1, 2, 3, 4
SOCKETS, CLOSED, QUEUES, LINKS, COUNTERS, CPU, PROCESSES = 16, 17, 18, 19, 20, 21, 22
NOTE, REPORT = 32, 33


def check_length(length: int, offset: int) -> None:
    if length < RECORD.size or length % 8 or length > MOST_RECORD_BYTES:
        raise ValueError(f"offset {offset}: a record can't be {length} bytes long")
