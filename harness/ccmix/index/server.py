"""Sends requests to an Elasticsearch 8 server, through its official client."""

import base64
import http.client
import threading
from collections.abc import Iterator
from typing import Any, TypeVar
from urllib.parse import urlsplit

import elasticsearch
from elastic_transport import NdjsonSerializer

from ccmix.hosts.output_text import shortened
from ccmix.index import answers, fields
from ccmix.index.fields import KINDS, PREFIX, JsonObject
from ccmix.index.target import Target

REQUEST_TIMEOUT_S = 120.0  # of a bulk request, which may take long while the server merges
MOST_HITS = 10_000  # of a search: index.max_result_window
THERE_ALREADY = "resource_already_exists_exception"
NDJSON = "application/x-ndjson"
TOO_LARGE = (
    "a document is larger than the server accepts: raise http.max_content_length of Elasticsearch, "
    "or the limit of the "
    "proxy before it (nginx: client_max_body_size), and index the archive again"
)
NO_ANSWER = "the server did not answer like Elasticsearch: is there a proxy in between?"
CUT_OFF = "the connection ended before the whole answer came"
NO_HANDLER = (400, 405)  # the error of a server that has no handler for a request


_T = TypeVar("_T")


class ServerError(Exception):
    """Explains why a request failed; the message names the server.

    `status` is the HTTP status, or None without an answer.
    """

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class Unavailable(ServerError):
    """The server does not answer, or has no room now: the same request may succeed later."""


class ServerRefused(ServerError):
    """The server will always refuse the request: credentials, certificate or set-up are wrong."""


class NotTaken(ServerError):
    """The request as a whole is too large or not understood: smaller parts may succeed."""


class ElasticsearchServer:
    """Sends requests to one server; several threads may call it.

    Methods raise Unavailable, ServerRefused or NotTaken.
    """

    def __init__(self, target: Target) -> None:
        """Takes the server's URL, credentials and CA, and sends nothing yet."""
        self.url = target.url
        self._client = _client(target)
        self._ready: set[str] = set()
        self._preparing = threading.Lock()

    def set_up(self) -> bool:
        """Prepares the server for documents of this version, as `ccmix index --setup` does.

        Makes templates, the policy that deletes old samples, and an index of each kind; adds new
        fields to existing indices. Returns whether the server has lifecycle policies: without them
        nothing is ever deleted.
        """
        policies = self._lifecycle_policies()
        lifecycle = policies is not None
        if (
            policies is not None and fields.SAMPLES_POLICY not in policies
        ):  # an existing policy belongs to the user
            self._request("PUT", f"/_ilm/policy/{fields.SAMPLES_POLICY}", fields.policy())
        for kind in KINDS.values():
            path = f"/_index_template/{fields.template_name(kind)}"
            self._create("PUT", path, fields.template(kind, lifecycle=lifecycle))
        metadata = self._mapping_metadata()
        for kind in KINDS.values():
            existing = [
                name
                for name in metadata
                if name == kind.index_pattern or _matches(name, kind.index_pattern)
            ]
            for name in existing:
                self._add_fields(name, fields.mapping(kind))
            if kind.first_index not in existing and (kind.samples or not existing):
                self._create("PUT", f"/{kind.first_index}")
                if kind.samples and lifecycle:
                    self._create("POST", f"/{kind.first_index}/_ilm/remove")
        return lifecycle

    def check_set_up(self) -> None:
        """Raises ServerRefused if the server was not set up for the fields of this version."""
        metadata = self._mapping_metadata()
        for kind in KINDS.values():
            if not kind.samples:
                self._check_fingerprint(kind.index_pattern, metadata)

    def prepare(self, index: str) -> None:
        """Creates an index from its template before documents are sent to it, unless it exists.

        Without this, a server without the templates would guess the types of fields.
        """
        with self._preparing:
            if index in self._ready:
                return
            try:
                self._request("PUT", f"/{index}")
            except ServerRefused as error:
                if THERE_ALREADY not in str(error):
                    raise
            self._check_fingerprint(index, self._mapping_metadata(index))
            self._ready.add(index)

    def forget(self, index: str) -> None:
        """Forgets an index that was deleted meanwhile, so that prepare() creates it again."""
        with self._preparing:
            self._ready.discard(index)

    def bulk(self, body: bytes, actions: int) -> list[answers.Action]:
        """Sends a bulk request with a number of actions. Returns an answer for each action, in
        order; [] if all succeeded.
        """
        wanted = ("status", "error.type", "error.reason", "error.caused_by.reason")
        path = f"/_bulk?filter_path=errors,{','.join(f'items.*.{name}' for name in wanted)}"
        answer = self._ask(answers.Bulk, "PUT", path, body, content=NDJSON)
        if answer.errors and len(answer.items) != actions:
            raise Unavailable(f"{self.url}: {NO_ANSWER}")
        return [each for item in answer.items for each in item.values()] if answer.errors else []

    def refresh(self) -> None:
        """Makes all accepted documents searchable."""
        self._request("POST", f"/{PREFIX}*/_refresh")

    def find(self, query: JsonObject) -> Iterator[tuple[str, str]]:
        """Yields (index, id) of the documents that match a query, at most MOST_HITS of them."""
        body = {"query": query, "size": MOST_HITS, "_source": False}
        path = f"/{PREFIX}*/_search?filter_path=hits.hits._index,hits.hits._id"
        found = self._ask(answers.Search, "POST", path, body)
        for hit in found.get("hits", {}).get("hits", ()):
            yield hit["_index"], hit["_id"]

    def times_s(self) -> tuple[float, float] | None:
        """Returns when the first and the last indexed run began, in seconds since 1970.

        None if no run is indexed.
        """
        self.refresh()
        ends = {name: {name: {"field": "@timestamp"}} for name in ("min", "max")}
        path = f"/{KINDS['runs'].index_pattern}/_search?filter_path=aggregations.*.value"
        answer = self._ask(answers.Times, "POST", path, {"size": 0, "aggs": ends})
        found = answer.get("aggregations", {})
        first_ms, last_ms = found.get("min", {}).get("value"), found.get("max", {}).get("value")
        return None if first_ms is None or last_ms is None else (first_ms / 1000, last_ms / 1000)

    def close(self) -> None:
        self._client.close()

    def _lifecycle_policies(self) -> Any:
        """Returns the lifecycle policies (ILM) by name; None if the server doesn't have ILM."""
        try:
            return self._request("GET", "/_ilm/policy")
        except (NotTaken, ServerRefused) as error:
            if error.status in NO_HANDLER:
                return None
            raise

    def _mapping_metadata(self, index: str = f"{PREFIX}*") -> JsonObject:
        """Returns the `_meta` of each index's mapping, which has ccmix's fingerprint of the fields.

        It is {} for an index of another program.
        """
        path = f"/{index}?filter_path=*.mappings._meta,*.settings.index.uuid"
        found = self._ask(answers.Indices, "GET", path)
        return {name: about.get("mappings", {}).get("_meta", {}) for name, about in found.items()}

    def _check_fingerprint(self, index: str, metadata: JsonObject) -> None:
        """Raises ServerRefused unless an index was set up for this version's fields."""
        if metadata.get(index, {}).get("ccmix") != fields.fingerprint():
            raise ServerRefused(
                f"{self.url}: {index} is not set up for this version. To set it up: ccmix index "
                f"--setup --url {self.url}"
            )

    def _add_fields(self, index: str, mapping: JsonObject) -> None:
        """Adds new fields to an existing index; an index with other types raises ServerRefused."""
        try:
            self._request("PUT", f"/{index}/_mapping", mapping)
        except NotTaken as error:
            raise ServerRefused(
                f"{self.url}: the index {index} is not ccmix's, or of another version: its fields "
                f"have other types ({error}). Copy the data that you need, delete the index ('curl "
                f"-X DELETE {self.url}/{index}'), run 'ccmix index --setup --url {self.url}' "
                "again, and index the archives again"
            ) from error

    def _create(self, method: str, path: str, body: JsonObject | None = None) -> None:
        """Creates a template or an index.

        If another object is in the way, raises ServerRefused, which says how to remove it.
        """
        try:
            self._request(method, path, body)
        except NotTaken as error:
            raise ServerRefused(
                f"{self.url}: {method} {path}: {error}: remove or rename the object with this name "
                f"or pattern, and run 'ccmix index --setup --url {self.url}' again"
            ) from error

    def _ask(
        self,
        kind: type[_T],
        method: str,
        path: str,
        body: Any = None,
        content: str = "application/json",
    ) -> _T:
        """Sends a request and returns its answer, which must be of this kind. Raises as
        _request() does.
        """
        answer = self._request(method, path, body, content)
        try:
            return answers.read(kind, answer)
        except (ValueError, RecursionError):
            raise Unavailable(f"{self.url}: {NO_ANSWER}") from None

    def _request(
        self, method: str, path: str, body: Any = None, content: str = "application/json"
    ) -> Any:
        """Sends a request and returns the JSON of its answer, an object.

        Turns all errors of the client into Unavailable, ServerRefused or NotTaken.
        """
        headers = {"accept": "application/json"} | (
            {"content-type": content} if body is not None else {}
        )
        try:
            answer = self._client.perform_request(method, path, headers=headers, body=body).body
        except elasticsearch.ApiError as error:
            raise self._error_of_status(error.meta.status, error.error, _reason(error)) from None
        except (elasticsearch.SerializationError, RecursionError):
            raise Unavailable(f"{self.url}: {NO_ANSWER}") from None
        except elasticsearch.TransportError as error:
            if type(error).__name__ == "TlsError":
                raise ServerRefused(
                    f"{self.url}: its certificate is not trusted: {error.message}"
                ) from None
            raise Unavailable(f"{self.url}: {_system_reason(error) or error.message}") from None
        except elasticsearch.UnsupportedProductError:
            raise ServerRefused(f"{self.url}: not an Elasticsearch server") from None
        if not isinstance(answer, dict):
            raise Unavailable(f"{self.url}: {NO_ANSWER}")
        return answer

    def _error_of_status(self, status: int, kind: str, reason: str) -> ServerError:
        """Returns the exception for an HTTP status; `kind` is Elasticsearch's type of the error.

        Unavailable: a retry may help. NotTaken: smaller parts may help. ServerRefused: neither
        helps.
        """
        if status == 429 or status >= 500:
            return Unavailable(f"{self.url}: {status} {reason}", status)
        if status == 413:
            return NotTaken(f"413: {TOO_LARGE}", status)
        if status in (400, 405) and kind != THERE_ALREADY:
            return NotTaken(f"{status} {reason}", status)
        if 300 <= status < 400:
            return ServerRefused(
                f"{self.url}: {status}: redirected to another URL: use that URL", status
            )
        if status in (401, 403):
            return ServerRefused(
                f"{self.url}: {status}: the credentials are not accepted, or lack a right: "
                f"{reason}",
                status,
            )
        return ServerRefused(f"{self.url}: {status} {kind}: {reason}", status)


def _system_reason(error: BaseException) -> str:
    """Returns the system's reason below the errors of libraries, such as 'Connection refused'.

    '' if there is none.
    """
    reason = ""
    cause: BaseException | None = error
    while cause:
        if isinstance(cause, http.client.HTTPException):
            reason = CUT_OFF
        elif isinstance(cause, OSError):
            reason = cause.strerror or reason
        cause = cause.__cause__ or cause.__context__
    return reason


def _client(target: Target) -> elasticsearch.Elasticsearch:
    """Returns a client for the server, with its credentials and CA, that never retries itself."""

    class Bodies(NdjsonSerializer):
        """Serialises bodies that are already lines, without the copies of its base class."""

        def dumps(self, data: bytes) -> bytes:
            return data

    credentials = target.credentials
    options: JsonObject = {"serializers": {NDJSON: Bodies()}}
    if credentials.api_key:
        options["api_key"] = credentials.api_key
    elif credentials.user and credentials.password:
        pair = (
            f"{credentials.user}:{credentials.password}".encode()
        )  # UTF-8, because the client would only take ASCII
        options["headers"] = {"authorization": f"Basic {base64.b64encode(pair).decode()}"}
    parts = urlsplit(target.url)
    if parts.scheme == "https":
        options["verify_certs"] = True
        if target.ca:
            options["ca_certs"] = str(target.ca)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    url = f"{parts.scheme}://{parts.netloc if parts.port else f'{parts.netloc}:{port}'}{parts.path}"
    return elasticsearch.Elasticsearch(
        url, request_timeout=REQUEST_TIMEOUT_S, max_retries=0, retry_on_timeout=False, **options
    )


def _matches(index: str, pattern: str) -> bool:
    """Returns whether an index has a name of the pattern, such as 'ccmix-rtts-*'."""
    return pattern.endswith("*") and index.startswith(pattern[:-1])


def _reason(error: Any) -> str:
    """Returns the reason that Elasticsearch gives for an error, in one line."""
    body = error.body
    error_part = body.get("error") if isinstance(body, dict) else body
    return shortened(str(error_part.get("reason") if isinstance(error_part, dict) else error_part))
