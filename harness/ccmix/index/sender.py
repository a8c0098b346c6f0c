"""Sends the content of the spool, and retries as often as needed, while another process fills it.

The index becomes the same whatever happens on the way. Each document has its id, so a document that
is sent twice is indexed once. A file of the spool is removed only when each of its documents was
accepted or kept aside. A run's end, which comes after all its documents, removes the documents that
an earlier analysis of the run left in the index.
"""

import json
import random
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from ccmix.agent.deadline import Deadline
from ccmix.failures import located
from ccmix.index.fields import KINDS, JsonObject
from ccmix.index.server import (
    NO_INDEX,
    BulkAnswer,
    ElasticsearchServer,
    NotTaken,
    ServerRefused,
    Unavailable,
)
from ccmix.index.spool import Item, Spool

BODY_BYTES = 4 * 2**20  # of a bulk request
CONNECTIONS = 2  # with a single one, the server would be idle between two requests
WAITING_BYTES = 256 * 2**20  # in the spool, before the process that fills it has to wait
FIRST_WAIT_S, LONGEST_WAIT_S = 0.25, 30.0
NOTICES_EACH_S = (
    0.5  # a signal: polars installs handlers after which the system restarts a wait without end
)
ENDS_AT_ONCE = 50  # runs that a single search cleans
OF_CAMPAIGNS = ("campaigns", "conditions")
UnderWay = deque[tuple[Item, Future[None]]]


class GaveUp(Exception):
    """Raised if the server accepted nothing for the whole patience; has the last reason. The spool
    has everything that was not sent.
    """


@dataclass(frozen=True)
class Waiting:
    """Reports that a request will be tried again."""

    why: str
    seconds: float


class BulkSender:
    """Takes items in order in one thread, and sends them in others. For one process to fill."""

    def __init__(
        self,
        server: ElasticsearchServer,
        spool: Spool,
        patience_s: float,
        on_waiting: Callable[[Waiting], None] = lambda _: None,
    ) -> None:
        """Starts the threads. They give up if the server accepts nothing for `patience_s`."""
        self._server = server
        self._spool = spool
        self._patience_s = patience_s
        self._patience = Deadline(patience_s)
        self._on_waiting = on_waiting
        self._changed = threading.Condition()
        self._waiting: deque[Item] = deque(spool.left)
        self._bytes = sum(item.size for item in self._waiting)
        self._busy = False
        self._closing = threading.Event()
        self._failure: Exception | None = None
        self.sent = 0  # documents that were taken
        self._owners: set[str] = set()
        self.first_rejection = ""  # why the first document was kept aside
        self._pool = ThreadPoolExecutor(CONNECTIONS, "ccmix-bulk")
        self._thread = threading.Thread(target=self._work, name="ccmix-sender", daemon=True)

    def __enter__(self) -> "BulkSender":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Ends after the requests under way; unsent items stay in the spool."""
        self._closing.set()
        self._tell()
        self._thread.join()
        self._pool.shutdown()

    @property
    def rejected(self) -> int:
        """Returns the number of documents kept aside, of the runs that this process sent."""
        return sum(self._spool.rejected(owner) for owner in self._owners)

    def put(
        self,
        owner: str,
        content: bytes,
        *,
        is_end: bool = False,
        indices: frozenset[str] | None = None,
    ) -> None:
        """Spools a body, or an end. Waits while there is too much in the spool, or no room on its
        disk.

        Raises the error that made the sender give up, or Refused.
        """
        self._wait_until(lambda: self._bytes < WAITING_BYTES)
        try:
            item = self._spool.add(owner, content, is_end=is_end, indices=indices)
        # the disk is full: the archive has everything, so memory suffices, for one item at a time
        except OSError as error:
            self._on_waiting(Waiting(f"the spool can't be written: {located(error)}", 0.0))
            self._wait_until(lambda: not self._waiting and not self._busy)
            item = Item(owner, is_end, None, content, indices)
        with self._changed:
            self._waiting.append(item)
            self._bytes += len(content)
            self._changed.notify_all()

    def finish(self) -> None:
        """Returns when everything is sent. Raises the error that made the sender give up, or
        Refused.
        """
        self._wait_until(lambda: not self._waiting and not self._busy)

    def begin(self, owner: str) -> None:
        """Begins with the documents of a run or campaign, and forgets its documents that were kept
        aside before.
        """
        self._owners.add(owner)
        self._spool.forget_rejected(owner)

    def patiently(self, do: Callable[[], Any]) -> None:
        """Retries until it succeeds. Raises GaveUp or Refused."""
        attempt = 0
        while True:
            try:
                do()
            except (Unavailable, OSError) as error:
                self._wait(attempt, str(error))
            except NotTaken as error:
                raise ServerRefused(str(error), error.status) from error
            else:
                self._patience.restart()
                return
            attempt += 1

    def _wait_until(self, done: Callable[[], bool]) -> None:
        with self._changed:
            while not (self._failure or done()):
                self._changed.wait(NOTICES_EACH_S)
            if self._failure:
                raise self._failure

    # The thread

    def _work(self) -> None:
        try:
            under_way: UnderWay = deque()
            ended: list[Item] = []
            while item := self._next(under_way, ended):
                if len(ended) >= ENDS_AT_ONCE or any(
                    earlier.owner == item.owner for earlier in ended
                ):
                    self._settle(under_way, ended)
                if item.is_end:
                    ended.append(item)
                else:
                    under_way.append((item, self._submit(item)))
                    self._done_with(under_way, CONNECTIONS)
            self._done_with(under_way, 0)
        except Exception as error:
            with self._changed:
                self._failure = error
                self._changed.notify_all()
            self._closing.set()

    def _submit(self, item: Item) -> Future[None]:
        future = self._pool.submit(self._deliver, item)
        future.add_done_callback(lambda _: self._tell())
        return future

    def _tell(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _next(self, under_way: UnderWay, ended: list[Item]) -> Item | None:
        """Waits for the next item and returns it; None at the end."""
        with self._changed:  # items that come meanwhile needn't wait for requests under way
            self._changed.wait_for(
                lambda: self._waiting or all(future.done() for _, future in under_way)
            )
        if (under_way or ended) and not self._waiting:
            self._settle(under_way, ended)
        with self._changed:
            if not self._waiting and not under_way:
                self._busy = False
                self._changed.notify_all()
            self._changed.wait_for(lambda: self._waiting or self._closing.is_set())
            if self._closing.is_set():
                return None
            if not self._busy:
                self._patience.restart()  # time without anything to send does not count as waiting
            self._busy = True
            return self._waiting.popleft()

    def _settle(self, under_way: UnderWay, ended: list[Item]) -> None:
        """Finishes the requests under way, and removes documents beyond the ends."""
        self._done_with(under_way, 0)
        if ended:
            self.patiently(lambda: self._clean(ended))
            for item in ended:
                self._done(item)
            ended.clear()

    def _done_with(self, under_way: UnderWay, most: int) -> None:
        """Waits until no more than `most` are under way."""
        while len(under_way) > most:
            item, future = under_way.popleft()
            future.result()
            self._done(item)

    def _done(self, item: Item) -> None:
        size = item.size
        self._spool.remove(item)
        with self._changed:
            self._bytes -= size
            self._changed.notify_all()

    def _deliver(self, item: Item) -> None:
        body = item.read()
        self._send(item.owner, body, item.indices or _indices(body))

    def _send(self, owner: str, body: bytes, indices: frozenset[str]) -> None:
        """Sends until each document was accepted or kept aside."""
        attempt = 0
        while body:
            try:
                for index in indices:
                    self._server.prepare(index)
                answers = self._server.bulk(body)
            except Unavailable as error:
                self._wait(attempt, str(error))
            except NotTaken as error:
                self._send_parts(owner, body, indices, str(error))
                return
            else:
                left, why = self._judge(owner, body, answers)
                if len(left) < len(body):  # otherwise the server answers, but accepts nothing
                    self._patience.restart()
                body = left
                if body:
                    self._wait(attempt, why)
            attempt += 1

    def _judge(self, owner: str, body: bytes, answers: Sequence[BulkAnswer]) -> tuple[bytes, str]:
        """Returns the documents to send again, and the reason; the others were accepted or are kept
        aside.
        """
        if not answers:
            with self._changed:
                self.sent += body.count(b"\n") // 2
            return b"", ""
        again, why = [], ""
        for (action, document), answer in zip(_pairs(body), answers, strict=True):
            if answer.reason is None:
                with self._changed:
                    self.sent += 1
            elif answer.temporary:
                again += [action, document]
                why = f"{self._server.url}: {answer.status} {answer.reason}"
                if answer.kind == NO_INDEX:
                    self._server.forget(json.loads(action)["index"]["_index"])
            else:
                self._reject(
                    owner, action, document, f"{answer.status} {answer.kind}: {answer.reason}"
                )
        return b"".join(line + b"\n" for line in again), why

    def _send_parts(self, owner: str, body: bytes, indices: frozenset[str], why: str) -> None:
        pairs = _pairs(body)
        if len(pairs) == 1:
            self._reject(owner, *pairs[0], why)
            return
        middle = len(pairs) // 2
        for some in (pairs[:middle], pairs[middle:]):
            self._send(owner, b"".join(line + b"\n" for pair in some for line in pair), indices)

    def _reject(self, owner: str, action: bytes, document: bytes, reason: str) -> None:
        """Keeps a document aside, and removes an earlier analysis's document of the same id."""
        place = json.loads(action)["index"]
        self.first_rejection = self.first_rejection or reason
        self.patiently(lambda: self._spool.reject(owner, reason, place, json.loads(document)))
        self.patiently(lambda: self._remove([(place["_index"], place["_id"])]))

    def _clean(self, ended: Sequence[Item]) -> None:
        """Removes documents of the owners beyond those that they have now, from all indices."""
        query = {"bool": {"should": [_beyond(item) for item in ended], "minimum_should_match": 1}}
        self._server.refresh()
        while stale := list(self._server.find(query)):
            self._remove(stale)
            self._server.refresh()

    def _remove(self, places: Sequence[tuple[str, str]]) -> None:
        actions = [
            json.dumps({"delete": {"_index": index, "_id": name}}) + "\n" for index, name in places
        ]
        for answer in self._server.bulk("".join(actions).encode()):
            if answer.reason is not None and answer.status != 404:
                raise Unavailable(f"{self._server.url}: {answer.status} {answer.reason}")

    def _wait(self, attempt: int, why: str) -> None:
        """Waits longer each time, with a different random part for each client. Raises GaveUp at
        the end of the patience.
        """
        if self._patience.expired:
            raise GaveUp(f"nothing was accepted for {self._patience_s:g} s: {why}")
        seconds = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2 ** min(attempt, 10)) * random.uniform(
            0.5, 1.0
        )
        self._on_waiting(Waiting(why, seconds))
        if self._closing.wait(min(seconds, self._patience.remaining_s)):
            raise GaveUp(f"ended while it waited: {why}")


def _beyond(end: Item) -> JsonObject:
    """Returns a query for documents that an earlier analysis left."""
    counts: Mapping[str, int] = json.loads(end.read())
    of_campaign = any(kind in OF_CAMPAIGNS for kind in counts)
    beyond = [
        {
            "bool": {
                "filter": [
                    {"term": {"event.dataset": kind.dataset}},
                    {"range": {"ccmix.row": {"gte": counts.get(kind.name, 0)}}},
                ]
            }
        }
        for kind in KINDS.values()
        if (kind.name in OF_CAMPAIGNS) == of_campaign
    ]
    owner = {"term": {"ccmix.campaign.id" if of_campaign else "ccmix.run.id": end.owner}}
    return {"bool": {"filter": [owner], "should": beyond, "minimum_should_match": 1}}


def _pairs(body: bytes) -> list[tuple[bytes, bytes]]:
    lines = body.split(b"\n")[:-1]
    return list(zip(lines[::2], lines[1::2], strict=True))


def _indices(body: bytes) -> frozenset[str]:
    """Returns the indices in its actions: {"index":{"_index":"NAME", ..."""
    return frozenset(
        name.decode() for name in {action.split(b'"', 6)[5] for action in body.split(b"\n")[:-1:2]}
    )
