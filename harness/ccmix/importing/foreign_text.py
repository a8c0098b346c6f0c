"""Reads text of files that others wrote."""

from pathlib import Path

from ccmix.importing.foreign_run import SourceError

MOST_BYTES = 2**28  # of a file that is read whole
TOO_LARGE = f"is larger than {MOST_BYTES >> 20} MiB: split it"


def read_text(file: Path, name: str) -> str:
    """Reads UTF-8, or UTF-16 with its mark. Raises SourceError, and OSError."""
    return decoded(read_bytes(file, name), name)


def too_large(file: Path) -> bool:
    """Returns whether a file can't be what it seems to be, if it is read whole. Raises OSError."""
    return file.stat().st_size > MOST_BYTES


def read_bytes(file: Path, name: str) -> bytes:
    """Reads the whole file. Raises SourceError if it is too large to be what it seems, and OSError."""
    if too_large(file):
        raise SourceError(f"{name}: {TOO_LARGE}")
    return file.read_bytes()


def encoding_of(begin: bytes) -> str:
    """Returns the encoding that the mark at the begin of a file names; UTF-8 without a mark."""
    return "utf-16" if begin[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"


def decoded(content: bytes, name: str) -> str:
    """Returns the content as text. Raises SourceError if it is in another encoding."""
    try:
        return content.decode(encoding_of(content))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise SourceError(
            f"{name}:{line}: is not text in UTF-8: convert the file, such as by: iconv -f latin1 -t utf-8"
        ) from error


def writable(name: str) -> str:
    """Returns the name with ? for what can't be printed: halves of characters, which no file takes, and control
    characters, by which a terminal does other things than to print, and which no SVG may have.
    """
    if name.isprintable():
        return name
    return "".join(letter if letter.isprintable() else "?" for letter in name)
