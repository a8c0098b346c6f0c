"""Text of files that others wrote."""

from pathlib import Path

from ccmix.importing.found import SourceError

MOST_BYTES = 2**28  # of a file that is read whole


def read_text(file: Path, name: str) -> str:
    """UTF-8, or UTF-16 with its mark. Raises SourceError, and OSError."""
    return decoded(read_bytes(file, name), name)


def read_bytes(file: Path, name: str) -> bytes:
    """Raises SourceError where the file is too large to be what it seems, and OSError."""
    if file.stat().st_size > MOST_BYTES:
        raise SourceError(f"{name}: is larger than {MOST_BYTES >> 20} MiB: split it")
    return file.read_bytes()


def encoding_of(begin: bytes) -> str:
    """By the mark at its begin, if any."""
    return "utf-16" if begin[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"


def decoded(content: bytes, name: str) -> str:
    """Raises SourceError."""
    try:
        return content.decode(encoding_of(content))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise SourceError(
            f"{name}:{line}: is not text in UTF-8: convert the file, such as by: iconv -f latin1 -t utf-8"
        ) from error


def writable(name: str) -> str:
    """The same with ? for what can't be printed: halves of characters, which no file takes, and control characters, by
    which a terminal does other things than to print, and which no SVG may have.
    """
    return "".join(letter if letter.isprintable() else "?" for letter in name)
