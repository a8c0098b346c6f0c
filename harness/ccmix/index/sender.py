"""Sends documents to Elasticsearch from a spool on disk, and retries until all are sent.

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
from ccmix.index.answers import NO_INDEX, Action
from ccmix.index.fields import KINDS, JsonObject
from ccmix.index.server import (
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
# A wait is cut into parts of this length: polars installs signal handlers after which the system
# restarts a wait, so a signal is only noticed at the end of a part
NOTICES_EACH_S = 0.5
ENDS_AT_ONCE = 50  # runs that a single search cleans
OF_CAMPAIGNS = ("campaigns", "conditions")
UnderWay = deque[tuple[Item, Future[None]]]


class GaveUp(Exception):
    """Raised if the server accepted nothing for `patience_s`; the message has the last reason.

    The spool has everything that was not sent.
    """


@dataclass(frozen=True)
class Waiting:
    """Reports that a request will be tried again."""

    why: str
    seconds: float


class BulkSender:
    """Sends items in the background, in their order, from one process.

    An item is the body of a bulk request, or the end of a run or campaign. One thread takes items;
    a pool sends CONNECTIONS of them at a time.
    """

    def __init__(
        self,
        server: ElasticsearchServer,
        spool: Spool,
        patience_s: float,
        on_waiting: Callable[[Waiting], None] = lambda _: None,
    ) -> None:
        """Prepares the threads, which give up if the server accepts nothing for `patience_s`.

        Items that an earlier process left in the spool are sent first. `on_waiting` is called
        before each wait.
        """
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
        self._thread = threading.Thread(target=self._take_items, name="ccmix-sender", daemon=True)

    def __enter__(self) -> "BulkSender":
        """Starts the threads."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Ends after the requests under way; items that were not sent stay in the spool."""
        self._closing.set()
        self._notify()
        self._thread.join()
        self._pool.shutdown()

    @property
    def rejected(self) -> int:
        """Returns how many documents of this process's runs the server refused for good."""
        return sum(self._spool.rejected(owner) for owner in self._owners)

    def put(
        self,
        owner: str,
        content: bytes,
        *,
        is_end: bool = False,
        indices: frozenset[str] | None = None,
    ) -> None:
        """Adds a body of documents, or the end of a run or campaign, whose id is `owner`.

        `indices` are the indices of the body's documents; None means that they are read from the
        body. Waits while the spool has more than WAITING_BYTES, and while its disk is full. Raises
        the error that made the sender give up.
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
        """Waits until everything is sent. Raises the error that made the sender give up."""
        self._wait_until(lambda: not self._waiting and not self._busy)

    def begin(self, owner: str) -> None:
        """Announces the documents of a run or campaign, whose id is `owner`.

        Forgets its documents that the server refused in an earlier indexing, because they are made
        again.
        """
        self._owners.add(owner)
        self._spool.forget_rejected(owner)

    def patiently(self, do: Callable[[], Any]) -> None:
        """Calls `do` until it succeeds, with longer and longer waits.

        Raises GaveUp when the server has accepted nothing for `patience_s`, and ServerRefused if a
        retry can't help.
        """
        attempt = 0
        while True:
            try:
                do()
            except (Unavailable, OSError) as error:
                self._back_off(attempt, str(error))
            except NotTaken as error:
                raise ServerRefused(str(error), error.status) from error
            else:
                self._patience.restart()
                return
            attempt += 1

    def _wait_until(self, done: Callable[[], bool]) -> None:
        """Waits until the condition holds. Raises the error that made the sender give up."""
        with self._changed:
            while not (self._failure or done()):
                self._changed.wait(NOTICES_EACH_S)
            if self._failure:
                raise self._failure

    # The thread

    def _take_items(self) -> None:
        """Takes items and sends them until the sender is closed. Runs in its own thread.

        An error ends the thread, and is kept for the callers. Ends of runs are collected, because
        one search can find the stale documents of many runs.
        """
        try:
            under_way: UnderWay = deque()
            ended: list[Item] = []
            while item := self._next_item(under_way, ended):
                # If a run is sent a second time, the counts of its first end must not delete
                # documents of the second time
                if len(ended) >= ENDS_AT_ONCE or any(
                    earlier.owner == item.owner for earlier in ended
                ):
                    self._finish_and_clean(under_way, ended)
                if item.is_end:
                    ended.append(item)
                else:
                    under_way.append((item, self._submit(item)))
                    self._finish_requests(under_way, CONNECTIONS)
            self._finish_requests(under_way, 0)
        except Exception as error:
            with self._changed:
                self._failure = error
                self._changed.notify_all()
            self._closing.set()

    def _submit(self, item: Item) -> Future[None]:
        """Starts to send an item in the pool; wakes up the waiting threads when it is done."""
        future = self._pool.submit(self._deliver, item)
        future.add_done_callback(lambda _: self._notify())
        return future

    def _notify(self) -> None:
        """Wakes up all threads that wait for a change."""
        with self._changed:
            self._changed.notify_all()

    def _next_item(self, under_way: UnderWay, ended: list[Item]) -> Item | None:
        """Waits for the next item and returns it; None when the sender closes.

        If no item is waiting when the requests `under_way` are done, removes the stale documents of
        the `ended` runs before it waits on.
        """
        with self._changed:  # items that come meanwhile needn't wait for requests under way
            self._changed.wait_for(
                lambda: self._waiting or all(future.done() for _, future in under_way)
            )
        if (under_way or ended) and not self._waiting:
            self._finish_and_clean(under_way, ended)
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

    def _finish_and_clean(self, under_way: UnderWay, ended: list[Item]) -> None:
        """Waits for all requests, then removes the stale documents of the ended runs.

        A document is stale if its number is higher than those that the run has now: an earlier
        analysis of the run sent it.
        """
        self._finish_requests(under_way, 0)
        if ended:
            self.patiently(lambda: self._remove_stale(ended))
            for item in ended:
                self._finish_item(item)
            ended.clear()

    def _finish_requests(self, under_way: UnderWay, allowed: int) -> None:
        """Waits until at most `allowed` requests are under way; raises their errors."""
        while len(under_way) > allowed:
            item, future = under_way.popleft()
            future.result()
            self._finish_item(item)

    def _finish_item(self, item: Item) -> None:
        """Removes an item from the spool when all its documents are sent or kept aside."""
        size = item.size
        self._spool.remove(item)
        with self._changed:
            self._bytes -= size
            self._changed.notify_all()

    def _deliver(self, item: Item) -> None:
        """Reads an item and sends its documents; runs in the pool."""
        body = item.read()
        self._send(item.owner, body, item.indices or _target_indices(body))

    def _send(self, owner: str, body: bytes, indices: frozenset[str]) -> None:
        """Sends the documents of a body until each was accepted or kept aside.

        A body that the server rejects as a whole is sent in halves.
        """
        attempt = 0
        while body:
            try:
                for index in indices:
                    self._server.prepare(index)
                answers = self._server.bulk(body, body.count(b"\n") // 2)
            except Unavailable as error:
                self._back_off(attempt, str(error))
            except NotTaken as error:
                self._send_halves(owner, body, indices, str(error))
                return
            else:
                to_retry, reason = self._documents_to_retry(owner, body, answers)
                if len(to_retry) < len(body):  # otherwise the server answers, but accepts nothing
                    self._patience.restart()
                body = to_retry
                if body:
                    self._back_off(attempt, reason)
            attempt += 1

    def _documents_to_retry(
        self, owner: str, body: bytes, answers: Sequence[Action]
    ) -> tuple[bytes, str]:
        """Sorts the documents of a body by the server's answers.

        Returns a smaller body with the documents to send again (b'' if there are none), and the
        reason. All other documents were accepted, or are kept aside because the server refuses
        them.
        """
        if not answers:
            with self._changed:
                self.sent += body.count(b"\n") // 2
            return b"", ""
        again, reason = [], ""
        for (action, document), answer in zip(_action_pairs(body), answers, strict=True):
            if answer.reason is None:
                with self._changed:
                    self.sent += 1
            elif answer.temporary:
                again += [action, document]
                reason = f"{self._server.url}: {answer.status} {answer.reason}"
                if answer.kind == NO_INDEX:
                    self._server.forget(json.loads(action)["index"]["_index"])
            else:
                self._keep_aside(
                    owner, action, document, f"{answer.status} {answer.kind}: {answer.reason}"
                )
        return b"".join(line + b"\n" for line in again), reason

    def _send_halves(self, owner: str, body: bytes, indices: frozenset[str], reason: str) -> None:
        """Sends a body in two halves, because the server did not take it as a whole.

        A single document is kept aside instead.
        """
        pairs = _action_pairs(body)
        if len(pairs) == 1:
            self._keep_aside(owner, *pairs[0], reason)
            return
        middle = len(pairs) // 2
        for half in (pairs[:middle], pairs[middle:]):
            self._send(owner, b"".join(line + b"\n" for pair in half for line in pair), indices)

    def _keep_aside(self, owner: str, action: bytes, document: bytes, reason: str) -> None:
        """Keeps a document that the server refuses in a file of the spool.

        Also deletes the document with the same id that an earlier analysis sent: it is out of date.
        """
        metadata = json.loads(action)["index"]
        self.first_rejection = self.first_rejection or reason
        self.patiently(lambda: self._spool.reject(owner, reason, metadata, json.loads(document)))
        self.patiently(lambda: self._delete_documents([(metadata["_index"], metadata["_id"])]))

    def _remove_stale(self, ended: Sequence[Item]) -> None:
        """Removes the stale documents of the ended runs (items with is_end), as often as any are
        found.
        """
        query = {
            "bool": {"should": [_stale_query(item) for item in ended], "minimum_should_match": 1}
        }
        self._server.refresh()
        stale = list(self._server.find(query))
        while stale:
            self._delete_documents(stale)
            self._server.refresh()
            stale = list(self._server.find(query))
            if stale and self._patience.expired:
                raise Unavailable(f"{self._server.url}: still finds documents that were deleted")

    def _delete_documents(self, documents: Sequence[tuple[str, str]]) -> None:
        """Deletes documents, given as (index, id); one that is already gone is not an error.

        Raises Unavailable if the server refuses.
        """
        actions = [
            json.dumps({"delete": {"_index": index, "_id": name}}) + "\n"
            for index, name in documents
        ]
        for answer in self._server.bulk("".join(actions).encode(), len(actions)):
            if answer.reason is not None and answer.status != 404:
                raise Unavailable(f"{self._server.url}: {answer.status} {answer.reason}")

    def _back_off(self, attempt: int, reason: str) -> None:
        """Waits before a retry: longer after each attempt, and with a random part.

        Raises GaveUp if the patience is over, or if the sender closes.
        """
        if self._patience.expired:
            raise GaveUp(f"nothing was accepted for {self._patience_s:g} s: {reason}")
        seconds = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2 ** min(attempt, 10)) * random.uniform(
            0.5, 1.0
        )
        self._on_waiting(Waiting(reason, seconds))
        if self._closing.wait(min(seconds, self._patience.remaining_s)):
            raise GaveUp(f"ended while it waited: {reason}")


def _stale_query(end: Item) -> JsonObject:
    """Returns a query for the documents that an earlier analysis of a run or campaign left.

    `end` has the count of its documents of each kind. Documents are numbered from 0, so a document
    is stale if its number is the count or higher.
    """
    counts: Mapping[str, int] = json.loads(end.read())
    of_campaign = any(kind in OF_CAMPAIGNS for kind in counts)
    beyond_counts = [
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
    return {"bool": {"filter": [owner], "should": beyond_counts, "minimum_should_match": 1}}


def _action_pairs(body: bytes) -> list[tuple[bytes, bytes]]:
    """Splits a body into (action, document) lines."""
    lines = body.split(b"\n")[:-1]
    return list(zip(lines[::2], lines[1::2], strict=True))


def _target_indices(body: bytes) -> frozenset[str]:
    """Returns the indices that a body's actions name: {"index":{"_index":"NAME", ..."""
    return frozenset(
        name.decode() for name in {action.split(b'"', 6)[5] for action in body.split(b"\n")[:-1:2]}
    )
