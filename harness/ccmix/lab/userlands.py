"""Says what the lab's userland is, by what lab/userland/build noted beside it."""

import functools
import hashlib
import json
import os
import stat
from pathlib import Path

from ccmix.lab.errors import GuestError
from ccmix.model import GuestRoot

BUILD = "build.json"
HOST_ROOT = GuestRoot(None, repeatable_elsewhere=False)


def tree_sha256(root: Path) -> str:
    """Returns the hash of all that a guest can see of a userland, as lab/userland/build computes it. Raises OSError."""
    names, contents = [], []
    for place, folders, files in os.walk(root):
        for path in (Path(place, name) for name in (*folders, *files, *([""] if Path(place) == root else []))):
            name = "" if path == root else str(path.relative_to(root))
            mode = path.lstat().st_mode
            kind = "l" if stat.S_ISLNK(mode) else "d" if stat.S_ISDIR(mode) else "f"
            target = os.readlink(path) if kind == "l" else ""  # noqa: PTH115 - Path would drop a slash at the end
            names.append(f"{name}\t{kind}\t{stat.S_IMODE(mode):o}\t{target}\n".encode())
            if kind == "f":
                contents.append((f"./{name}".encode(), hashlib.sha256(path.read_bytes()).hexdigest().encode()))
    content = hashlib.sha256(b"".join(sorted(names)))
    for written, sha256 in sorted(contents):
        content.update(sha256 + b"  " + written + b"\n")
    return content.hexdigest()


@functools.cache
def identify_userland(userland: Path) -> GuestRoot:
    """Returns what tells a userland from others; one with other packages than the pinned ones is another elsewhere.

    Raises GuestError("start") where lab/userland/build made none.
    """
    file = userland.parent / BUILD
    try:
        noted = json.loads(file.read_text(encoding="utf-8"))
        return GuestRoot(noted["sha256"], repeatable_elsewhere=noted["pinned"] is True)
    except (OSError, ValueError, LookupError, TypeError) as error:
        message = f"{file}: does not say what the userland is: run 'make setup', which builds it again: {error}"
        raise GuestError("start", message) from error
