"""Reads the result that a generator printed: JSON of iperf3, JSON of pScheduler that contains JSON
of iperf3, or any other output.

The result itself says whether a test failed; this is never guessed from the text of the output.
`pscheduler` exits with 0 when the run failed, and iperf3 writes its error into its JSON.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ccmix import foreign_json

LONGEST_REASON = 300  # characters


class GeneratorError(Exception):
    """Reports that the traffic did not run as requested; the message says why in one line."""


@dataclass(frozen=True)
class GeneratorResult:
    """Holds a result. `client` and `server` are iperf3's own results, if any; `error` is why the
    test failed.

    `throughput` is the result in the format of pScheduler's throughput test, for any tool.
    """

    kind: Literal["iperf3", "pscheduler", "other"]
    client: dict[str, Any] | None = None
    server: dict[str, Any] | None = None
    error: str | None = None
    throughput: dict[str, Any] | None = None


def load_json(file: Path) -> dict[str, Any]:
    """Reads iperf3's own result, either in one piece or in pieces from --json-stream. Raises
    GeneratorError if it is neither.
    """
    try:
        text = file.read_text(errors="replace")
    except OSError as error:
        raise GeneratorError(f"iperf3 left no result in {file.name}: {error}") from error
    return read_json(text, file.name)


def read_json(text: str, name: str) -> dict[str, Any]:
    """Like load_json(), for the text of the file of this name."""
    try:
        result = _assembled(text) or foreign_json.loads(text)
    except ValueError as error:
        raise GeneratorError(f"iperf3 left no result in {name}: {error}") from error
    if not isinstance(result, dict):
        raise GeneratorError(f"iperf3 left no result in {name}: it is not a JSON object")
    return result


def read_result(output: str) -> GeneratorResult:
    """Reads the result in a command's standard output. Unknown output becomes 'other', and is not
    an error.

    Raises GeneratorError if the result is JSON with a number that is not finite.
    """
    data = _object(output)
    if data is None:
        data = _assembled(output)
    if data is None:
        return GeneratorResult("other")
    if isinstance(data.get("succeeded"), bool):
        return _pscheduler(data)
    if isinstance(data.get("start"), dict) and ("end" in data or "error" in data):
        return GeneratorResult(
            "iperf3", data, _server(data), sentence(data["error"]) if data.get("error") else None
        )
    if isinstance(data.get("error"), str) and set(data) <= {"error", "start", "intervals", "end"}:
        return GeneratorResult("iperf3", error=sentence(data["error"]))
    return GeneratorResult("other")


def _pscheduler(data: dict[str, Any]) -> GeneratorResult:
    """Reads `pscheduler task --format json`: `diags` has the participants' iperf3 JSON, each after
    its command line.

    The participants' iperf3 JSON is in `diags`, each after its command line.
    """
    if not data["succeeded"]:
        return GeneratorResult(
            "pscheduler",
            error=sentence(data.get("error") or data.get("diags") or "it gives no reason"),
        )
    diags = data.get("diags")
    return _of_participants(data, diags.split("\nParticipant ") if isinstance(diags, str) else [])


def of_pscheduler_run(run: dict[str, Any]) -> GeneratorResult:
    """Reads a finished run as pScheduler's REST interface gives it, with the participants' results
    one by one.
    """
    full = run["result-full"] or ()
    texts = [participant.get("diags") for participant in full if isinstance(participant, dict)]
    return _of_participants(run["result-merged"], [text for text in texts if isinstance(text, str)])


def _of_participants(merged: dict[str, Any], diags: Sequence[str]) -> GeneratorResult:
    documents = [document for document in map(embedded, diags) if document]
    clients = [document for document in documents if "connecting_to" in document.get("start", {})]
    servers = [
        document for document in documents if "accepted_connection" in document.get("start", {})
    ]
    throughput = merged if isinstance(merged.get("summary"), dict) else None
    return GeneratorResult(
        "pscheduler",
        clients[0] if clients else None,
        servers[0] if servers else None,
        None,
        throughput,
    )


def embedded(text: str) -> dict[str, Any] | None:
    """Returns iperf3's own JSON in a participant's output, after its command line; None if
    there is none.
    """
    begin = text.find("\n{")
    if begin < 0:
        return None
    try:
        data = foreign_json.first(text, begin + 1)
    except ValueError:
        return None
    return data if isinstance(data, dict) and isinstance(data.get("start"), dict) else None


def _server(client: dict[str, Any]) -> dict[str, Any] | None:
    """Returns the server's JSON, which the client has with --get-server-output."""
    server = client.get("server_output_json")
    return server if isinstance(server, dict) and "end" in server else None


def _object(text: str) -> dict[str, Any] | None:
    try:
        data = foreign_json.loads(text)
    except foreign_json.NotFiniteError as error:
        raise GeneratorError(f"its result can't be used: {error}") from error
    except ValueError:
        return None
    return data if isinstance(data, dict) else None


def _assembled(text: str) -> dict[str, Any] | None:
    """Joins the lines of iperf3's --json-stream into one object."""
    whole: dict[str, Any] = {"intervals": []}
    for line in text.splitlines():
        event = _object(line)
        if event is None or not isinstance(event.get("event"), str):
            return None
        if event["event"] == "interval":
            whole["intervals"].append(event.get("data"))
        else:
            whole[event["event"]] = event.get("data")
    return whole if len(whole) > 1 else None


def sentence(text: object) -> str:
    """Shortens the text to one line of a bounded length."""
    line = " ".join(str(text).split())
    return line if len(line) <= LONGEST_REASON else line[:LONGEST_REASON] + "…"
