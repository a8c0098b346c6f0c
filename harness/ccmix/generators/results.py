"""Reads results that traffic generators printed: JSON of iperf3 or of pScheduler, or other output.

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
    """Holds the result of a traffic generator. `client` and `server` are the JSON of iperf3's two
    ends, if any; `error` is why the test failed.

    `throughput` is the result in the format of pScheduler's throughput test, for any tool.
    """

    kind: Literal["iperf3", "pscheduler", "other"]
    client: dict[str, Any] | None = None
    server: dict[str, Any] | None = None
    error: str | None = None
    throughput: dict[str, Any] | None = None


def load_json(file: Path) -> dict[str, Any]:
    """Reads iperf3's result from a file, either one JSON object or the lines of --json-stream.
    Raises GeneratorError if it is neither.
    """
    try:
        text = file.read_text(errors="replace")
    except OSError as error:
        raise GeneratorError(f"iperf3 left no result in {file.name}: {error}") from error
    return read_json(text, file.name)


def read_json(text: str, name: str) -> dict[str, Any]:
    """Reads iperf3's result from a text: one JSON object, or the lines of --json-stream. Raises
    GeneratorError, whose message names the file `name`, if it is neither.
    """
    if not text.strip():
        raise GeneratorError(f"iperf3 left no result in {name}: the file is empty")
    try:
        result = _join_json_stream(text) or foreign_json.loads(text)
    except ValueError as error:
        raise GeneratorError(f"iperf3 left no result in {name}: {error}") from error
    if not isinstance(result, dict):
        raise GeneratorError(f"iperf3 left no result in {name}: it is not a JSON object")
    return result


def read_result(output: str) -> GeneratorResult:
    """Reads the result of a test from the standard output of the command that ran it. It may be
    iperf3's JSON or pScheduler's. Any other output is not an error, but gives a result of the kind
    'other'.

    Raises GeneratorError if the JSON has a number that is not finite.
    """
    data = _json_object(output)
    if data is None:
        data = _join_json_stream(output)
    if data is None:
        return GeneratorResult("other")
    if isinstance(data.get("succeeded"), bool):
        return _pscheduler_command_result(data)
    if isinstance(data.get("start"), dict) and ("end" in data or "error" in data):
        return GeneratorResult(
            "iperf3",
            data,
            _server_result(data),
            sentence(data["error"]) if data.get("error") else None,
        )
    if isinstance(data.get("error"), str) and set(data) <= {"error", "start", "intervals", "end"}:
        return GeneratorResult("iperf3", error=sentence(data["error"]))
    return GeneratorResult("other")


def _pscheduler_command_result(data: dict[str, Any]) -> GeneratorResult:
    """Reads the JSON that `pscheduler task --format json` has printed.

    Its text `diags` has a part for each participant (host that took part in the test): the command
    line of the tool there, followed by iperf3's JSON.
    """
    if not data["succeeded"]:
        return GeneratorResult(
            "pscheduler",
            error=sentence(data.get("error") or data.get("diags") or "it gives no reason"),
        )
    diags = data.get("diags")
    return _result_of_participants(
        data, diags.split("\nParticipant ") if isinstance(diags, str) else []
    )


def read_pscheduler_run(run: dict[str, Any]) -> GeneratorResult:
    """Reads the result of a finished run in the form of pScheduler's REST interface, which has the
    output of each participant (host that took part in the test).
    """
    full = run["result-full"] or ()
    texts = [participant.get("diags") for participant in full if isinstance(participant, dict)]
    return _result_of_participants(
        run["result-merged"], [text for text in texts if isinstance(text, str)]
    )


def _result_of_participants(merged: dict[str, Any], diags: Sequence[str]) -> GeneratorResult:
    """Returns the result of a test that pScheduler made. The JSON of iperf3's client and of its
    server is found in the outputs of the participants (hosts that took part in the test).

    merged: pScheduler's result of the whole test
    diags: for each participant, the output of the tool that it ran
    """
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
    """Returns iperf3's JSON from the output of a pScheduler participant, in which it follows the
    command line; None if there is none.
    """
    begin = text.find("\n{")
    if begin < 0:
        return None
    try:
        data = foreign_json.first(text, begin + 1)
    except ValueError:
        return None
    return data if isinstance(data, dict) and isinstance(data.get("start"), dict) else None


def _server_result(client: dict[str, Any]) -> dict[str, Any] | None:
    """Returns the JSON of iperf3's server, which the client's JSON contains if the client ran with
    --get-server-output; otherwise None.
    """
    server = client.get("server_output_json")
    return server if isinstance(server, dict) and "end" in server else None


def _json_object(text: str) -> dict[str, Any] | None:
    """Returns the JSON object of a text; None if it is not one. Raises GeneratorError if a number
    is not finite.
    """
    try:
        data = foreign_json.loads(text)
    except foreign_json.NotFiniteError as error:
        raise GeneratorError(f"its result can't be used: {error}") from error
    except ValueError:
        return None
    return data if isinstance(data, dict) else None


def _join_json_stream(text: str) -> dict[str, Any] | None:
    """Joins the lines that iperf3 prints with --json-stream into one object, as --json prints it;
    None if the text has other lines.
    """
    whole: dict[str, Any] = {"intervals": []}
    for line in text.splitlines():
        event = _json_object(line)
        if event is None or not isinstance(event.get("event"), str):
            return None
        if event["event"] == "interval":
            whole["intervals"].append(event.get("data"))
        else:
            whole[event["event"]] = event.get("data")
    return whole if len(whole) > 1 else None


def sentence(text: object, longest: int = LONGEST_REASON) -> str:
    """Turns a text of any length, such as a tool's error, into one line of at most `longest`
    characters.
    """
    line = " ".join(str(text).split())
    return line if len(line) <= longest else line[:longest] + "…"
