"""Talks to an Elasticsearch server of version 8, through its official client."""

import base64
import http.client
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import elasticsearch
from elastic_transport import NdjsonSerializer

from ccmix.index import fields
from ccmix.index.fields import KINDS, PREFIX, JsonObject
from ccmix.index.target import Target

REQUEST_TIMEOUT_S = 120.0  # of a bulk request, which may take long while the server merges
MOST_HITS = 10_000  # of a search: index.max_result_window
NO_INDEX, THERE_ALREADY = "index_not_found_exception", "resource_already_exists_exception"
NDJSON = "application/x-ndjson"
TOO_LARGE = (
    "a document is larger than the server accepts: raise http.max_content_length of Elasticsearch, "
    "or the limit of the "
    "proxy before it (nginx: client_max_body_size), and index the archive again"
)
NO_ANSWER = "the server did not answer like Elasticsearch: is there a proxy in between?"
CUT_OFF = "the connection ended before the whole answer came"
NO_HANDLER = (400, 405)  # the error of a server that has no handler for a request


class ServerError(Exception):
    """The message names the server; `status` is the HTTP status, None without an answer."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class Unavailable(ServerError):
    """The server does not answer, or has no room now: the same request may succeed later."""


class ServerRefused(ServerError):
    """The server will always refuse the request: credentials, certificate or set-up are wrong."""


class NotTaken(ServerError):
    """The request as a whole is too large or not understood: smaller parts may succeed."""


@dataclass(frozen=True)
class BulkAnswer:
    """Holds the answer for a document of a bulk request; `reason` is None if it is indexed."""

    status: int
    kind: str = ""  # Elasticsearch's type of the error
    reason: str | None = None

    @property
    def temporary(self) -> bool:
        """Returns whether a retry may succeed: the server is too busy, has no room (the index is
        blocked), lacks the shard, or the index is gone.
        """
        return (
            self.status == 429
            or self.status >= 500
            or self.kind in ("cluster_block_exception", NO_INDEX)
        )


class ElasticsearchServer:
    """Sends requests to the server. Methods raise Unavailable, ServerRefused or NotTaken; several
    threads may call them.
    """

    def __init__(self, target: Target) -> None:
        self.url = target.url
        self._client = _client(target)
        self._ready: set[str] = set()
        self._preparing = threading.Lock()

    def set_up(self) -> bool:
        """Makes templates, the policy of samples, and an index of each kind; existing indices get
        new fields.

        Returns whether the server has lifecycle policies; without them nothing is ever deleted.
        """
        policies = self._lifecycle_policies()
        lifecycle = policies is not None
        if (
            policies is not None and fields.SAMPLES_POLICY not in policies
        ):  # an existing policy belongs to the user
            self._ask("PUT", f"/_ilm/policy/{fields.SAMPLES_POLICY}", fields.policy())
        for kind in KINDS.values():
            path = f"/_index_template/{fields.template_name(kind)}"
            self._set("PUT", path, fields.template(kind, lifecycle=lifecycle))
        there = self._mappings()
        for kind in KINDS.values():
            of_kind = [
                name
                for name in there
                if name == kind.index_pattern or _is_of(name, kind.index_pattern)
            ]
            for name in of_kind:
                self._extend(name, fields.mapping(kind))
            if kind.first_index not in of_kind and (kind.samples or not of_kind):
                self._set("PUT", f"/{kind.first_index}")
                if kind.samples and lifecycle:
                    self._set("POST", f"/{kind.first_index}/_ilm/remove")
        return lifecycle

    def check_set_up(self) -> None:
        """Raises ServerRefused if the server was not set up for this version's fields."""
        there = self._mappings()
        for kind in KINDS.values():
            if not kind.samples:
                self._check(kind.index_pattern, there)

    def prepare(self, index: str) -> None:
        """Makes a missing index, by its template."""
        with self._preparing:
            if index in self._ready:
                return
            try:
                self._ask("PUT", f"/{index}")
            except ServerRefused as error:
                if THERE_ALREADY not in str(error):
                    raise
            self._check(index, self._mappings(index))
            self._ready.add(index)

    def forget(self, index: str) -> None:
        """Forgets an index that is gone."""
        with self._preparing:
            self._ready.discard(index)

    def bulk(self, body: bytes) -> list[BulkAnswer]:
        """Returns an answer for each action of the body, in its order; none if all succeeded."""
        wanted = ("status", "error.type", "error.reason", "error.caused_by.reason")
        path = f"/_bulk?filter_path=errors,{','.join(f'items.*.{name}' for name in wanted)}"
        answer = self._ask("PUT", path, body, content=NDJSON)
        if "errors" not in answer:
            raise Unavailable(f"{self.url}: {NO_ANSWER}")
        if not answer["errors"]:
            return []
        return [_answer(next(iter(item.values()))) for item in answer["items"]]

    def refresh(self) -> None:
        """Makes all accepted documents searchable."""
        self._ask("POST", f"/{PREFIX}*/_refresh")

    def find(self, query: JsonObject) -> Iterator[tuple[str, str]]:
        """Yields index and id of documents, at most some thousand."""
        body = {"query": query, "size": MOST_HITS, "_source": False}
        answer = self._ask(
            "POST", f"/{PREFIX}*/_search?filter_path=hits.hits._index,hits.hits._id", body
        )
        for hit in answer.get("hits", {}).get("hits", ()):
            yield hit["_index"], hit["_id"]

    def times_s(self) -> tuple[float, float] | None:
        """Returns the times at which the first and the last run began, in seconds since 1970; None
        without runs.
        """
        self.refresh()
        ends = {name: {name: {"field": "@timestamp"}} for name in ("min", "max")}
        found = self._ask(
            "POST", f"/{KINDS['runs'].index_pattern}/_search", {"size": 0, "aggs": ends}
        )["aggregations"]
        if found["min"]["value"] is None:
            return None
        return found["min"]["value"] / 1000, found["max"]["value"] / 1000

    def close(self) -> None:
        self._client.close()

    def _lifecycle_policies(self) -> Any:
        """Returns policies by name; None if the server has no policies."""
        try:
            return self._ask("GET", "/_ilm/policy")
        except (NotTaken, ServerRefused) as error:
            if error.status in NO_HANDLER:
                return None
            raise

    def _mappings(self, index: str = f"{PREFIX}*") -> JsonObject:
        """Returns the metadata of each index' mapping; that of a foreign index is empty."""
        answer = self._ask("GET", f"/{index}?filter_path=*.mappings._meta,*.settings.index.uuid")
        return {name: about.get("mappings", {}).get("_meta", {}) for name, about in answer.items()}

    def _check(self, index: str, there: JsonObject) -> None:
        if there.get(index, {}).get("ccmix") != fields.fingerprint():
            raise ServerRefused(
                f"{self.url}: {index} is not set up for this version. To set it up: ccmix index "
                f"--setup --url {self.url}"
            )

    def _extend(self, index: str, mapping: JsonObject) -> None:
        try:
            self._ask("PUT", f"/{index}/_mapping", mapping)
        except NotTaken as error:
            raise ServerRefused(
                f"{self.url}: the index {index} is not ccmix's, or of another version: its fields "
                f"have other types ({error}). Copy the data that you need, delete the index ('curl "
                f"-X DELETE {self.url}/{index}'), run 'ccmix index --setup --url {self.url}' "
                "again, and index the archives again"
            ) from error

    def _set(self, method: str, path: str, body: JsonObject | None = None) -> None:
        """Makes a part of the set-up. If another object is in the way, raises ServerRefused, which
        says how to remove it.
        """
        try:
            self._ask(method, path, body)
        except NotTaken as error:
            raise ServerRefused(
                f"{self.url}: {method} {path}: {error}: remove or rename the object with this name "
                f"or pattern, and run 'ccmix index --setup --url {self.url}' again"
            ) from error

    def _ask(
        self, method: str, path: str, body: Any = None, content: str = "application/json"
    ) -> Any:
        headers = {"accept": "application/json"} | (
            {"content-type": content} if body is not None else {}
        )
        try:
            answer = self._client.perform_request(method, path, headers=headers, body=body).body
        except elasticsearch.ApiError as error:
            raise self._judged(error.meta.status, error.error, _reason(error)) from None
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

    def _judged(self, status: int, kind: str, reason: str) -> ServerError:
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
    """Returns the reason below the libraries' errors: 'Connection refused'; '' without one."""
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
    class Bodies(NdjsonSerializer):
        """Serialises bodies that are already lines, without the copies of its base class."""

        def dumps(self, data: bytes) -> bytes:
            return data

    given = target.credentials
    options: JsonObject = {"serializers": {NDJSON: Bodies()}}
    if given.api_key:
        options["api_key"] = given.api_key
    elif given.user and given.password:
        pair = (
            f"{given.user}:{given.password}".encode()
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


def _is_of(index: str, pattern: str) -> bool:
    return pattern.endswith("*") and index.startswith(pattern[:-1])


def _reason(error: Any) -> str:
    body = error.body
    error_part = body.get("error") if isinstance(body, dict) else body
    return str(error_part.get("reason") if isinstance(error_part, dict) else error_part)


def _answer(item: JsonObject) -> BulkAnswer:
    error = item.get("error")
    if not error:
        return BulkAnswer(item["status"])
    causes = [error.get("reason"), error.get("caused_by", {}).get("reason")]
    return BulkAnswer(item["status"], error["type"], ": ".join(cause for cause in causes if cause))
