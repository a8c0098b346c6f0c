"""Cancels a task at its lead, and finds one whose path was never learned."""

import json
import time

from ccmix.agent.deadline import Deadline
from ccmix.generators.pscheduler.rest import (
    AnswerNotUnderstood,
    Busy,
    PschedulerError,
    PschedulerServer,
    RequestRefused,
    Unreachable,
    back_off,
)

CANCELS_WITHIN_S = 20.0
NOT_FOUND = 404


def cancelled(server: PschedulerServer, path: str, key: str) -> str | None:
    """Cancels a task with all its runs; returns why not, if that fails. It is not interrupted."""
    free = server.free()
    deadline = Deadline(CANCELS_WITHIN_S)
    for wait_s in back_off():
        try:
            free.delete(path, {"key": key})
        except RequestRefused as error:
            return None if error.status == NOT_FOUND else f"not cancelled: {error}"
        except (Busy, Unreachable) as error:
            if not deadline.allows(wait_s):
                return (
                    f"not cancelled: {error}: 'ccmix restore' tries again from here; or there, give "
                    f"pscheduler cancel https://localhost/pscheduler/{path}"
                )
            time.sleep(wait_s)
        except PschedulerError as error:
            return f"not cancelled: {error}"
        else:
            return None
    raise AssertionError("back_off() has no end")


def posted_as(server: PschedulerServer, identity: str) -> str | None:
    """Returns the path of the task that was posted under this identity, if there is one. Raises PschedulerError."""
    query = {"json": json.dumps({"reference": {"ccmix": {"id": identity}}})}
    for url in server.free().patiently("tasks", Deadline(CANCELS_WITHIN_S), query):
        return path_of(server, url)
    return None


def path_of(server: PschedulerServer, url: object) -> str:
    """Returns the path of a task or a run below /pscheduler/: the server may call itself by another name than we do.

    Raises PschedulerError.
    """
    _, separator, path = str(url).partition("/pscheduler/")
    if not separator or not path.startswith("tasks/") or "?" in path:
        raise AnswerNotUnderstood(f"{server.address}: {str(url)[:100]!r} is not the address of a task")
    return path.rstrip("/")
