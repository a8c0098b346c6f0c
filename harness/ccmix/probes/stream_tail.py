"""How far a stream of the probe ccmix-sockmon has come that is being written."""

import struct
from pathlib import Path
from typing import IO

from ccmix.probes.stream_format import HEADER, PROCESSES, RECORD, SOCKETS, check_length


class StreamTail:
    """Reads only what was added since it was asked last."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._offset = 0
        self._begin_ns = self._last_ns = 0

    def seconds(self) -> float:
        """From the probe's start to its last sample. Raises OSError, and ValueError where it is no stream."""
        with self._file.open("rb") as file:
            _, _, _, begin_ns, _, _, text_bytes = HEADER.unpack(_exactly(file, HEADER.size))
            if begin_ns != self._begin_ns:  # it is another stream now: the run is tried again
                self._begin_ns = self._last_ns = begin_ns
                self._offset = HEADER.size + text_bytes
            file.seek(self._offset)
            while len(head := file.read(RECORD.size + 8)) == RECORD.size + 8:
                length, kind, mono_ns = struct.unpack("<IIQ", head)
                check_length(length, self._offset)
                if SOCKETS <= kind <= PROCESSES:
                    self._last_ns = mono_ns
                self._offset += length
                file.seek(self._offset)
        return (self._last_ns - self._begin_ns) / 1e9


def _exactly(file: IO[bytes], size: int) -> bytes:
    data = file.read(size)
    if len(data) < size:
        raise ValueError(f"offset 0: {len(data)} bytes are no stream of ccmix-sockmon")
    return data
