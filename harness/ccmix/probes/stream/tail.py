"""Finds out how far a stream has come that ccmix-sockmon is still writing."""

from pathlib import Path
from typing import IO

from ccmix.probes.stream.format import (
    HEADER,
    RECORD,
    SAMPLE,
    Record,
    SampleHeader,
    StreamHeader,
    check_length,
    is_sample,
)


class StreamTail:
    """Reads at each call only what the probe has written since the call before."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._offset = 0
        self._begin_ns = self._last_ns = 0

    def seconds(self) -> float:
        """Returns the time from the probe's start to its last sample. Raises OSError, ValueError for another file."""
        with self._file.open("rb") as file:
            header = StreamHeader._make(HEADER.unpack(_exactly(file, HEADER.size)))
            if header.start_mono_ns != self._begin_ns:  # another attempt at the run has begun another stream
                self._begin_ns = self._last_ns = header.start_mono_ns
                self._offset = HEADER.size + header.text_bytes
            file.seek(self._offset)
            while len(begin := file.read(RECORD.size + SAMPLE.size)) >= RECORD.size + 8:
                record = Record._make(RECORD.unpack_from(begin))
                check_length(record.bytes, self._offset)
                if is_sample(record.type):
                    if len(begin) < RECORD.size + SAMPLE.size:
                        break
                    self._last_ns = SampleHeader._make(SAMPLE.unpack_from(begin, RECORD.size)).mono_ns
                self._offset += record.bytes
                file.seek(self._offset)
        return (self._last_ns - self._begin_ns) / 1e9


def _exactly(file: IO[bytes], size: int) -> bytes:
    data = file.read(size)
    if len(data) < size:
        raise ValueError(f"offset 0: {len(data)} bytes are no stream of ccmix-sockmon")
    return data
