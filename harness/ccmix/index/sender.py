"""Sends what the spool has, as often as it takes, beside the process that fills it.

The index comes out the same whatever happened on the way: each document has its id, so what is sent twice is there
once; a file of the spool is removed only when each of its documents was taken or kept aside; and a run's end, which
comes after all its documents, removes what an earlier analysis of the run had left in the index.
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
from ccmix.index.fields import KINDS
from ccmix.index.json_types import JsonObject
from ccmix.index.server import NO_INDEX, BulkAnswer, ElasticsearchServer, NotTaken, ServerRefused, Unavailable
from ccmix.index.spool import Item, Spool

BODY_BYTES = 4 * 2**20  # of a bulk request
CONNECTIONS = 2  # at the same time: one would leave the server idle between two requests
WAITING_BYTES = 256 * 2**20  # in the spool, before whoever fills it has to wait
FIRST_WAIT_S, LONGEST_WAIT_S = 0.25, 30.0
NOTICES_EACH_S = 0.5  # a signal: polars installs handlers after which the system restarts a wait without end
ENDS_AT_ONCE = 50  # runs that are cleaned by one search
OF_CAMPAIGNS = ("campaigns", "conditions")
UnderWay = deque[tuple[Item, Future[None]]]


class GaveUp(Exception):
    """Nothing was taken for the whole of the patience, with the last reason; all that was not sent is in the spool."""


@dataclass(frozen=True)
class Waiting:
    """Reports that something has to be tried again."""

    why: str
    seconds: float


class BulkSender:
    """A thread that takes what is put, in order, and others that send it. For one process to fill."""

    def __init__(
        self,
        server: ElasticsearchServer,
        spool: Spool,
        patience_s: float,
        on_waiting: Callable[[Waiting], None] = lambda _: None,
    ) -> None:
        """`patience_s`: how long nothing may be taken before it gives up."""
        self._server = server
        self._spool = spool
        self._patience_s = patience_s
        self._patience = Deadline(patience_s)
        self._on_waiting = on_waiting
        self._changed = threading.Condition()
        self._waiting: deque[Item] = deque(spool.left)
        self._bytes = sum(item.file.stat().st_size for item in self._waiting if item.file)
        self._busy = False
        self._closing = threading.Event()
        self._failure: Exception | None = None
        self._sent = 0
        self._owners: set[str] = set()
        self._first_rejection = ""
        self._pool = ThreadPoolExecutor(CONNECTIONS, "ccmix-bulk")
        self._thread = threading.Thread(target=self._work, name="ccmix-sender", daemon=True)

    def __enter__(self) -> "BulkSender":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends with the requests under way; what was not sent stays in the spool."""
        self._closing.set()
        with self._changed:
            self._changed.notify_all()
        self._thread.join()
        self._pool.shutdown()

    @property
    def sent(self) -> int:
        """Documents that were taken."""
        return self._sent

    @property
    def rejected(self) -> int:
        """Documents kept aside, of the runs and campaigns that this process sent."""
        return sum(self._spool.rejected(owner) for owner in self._owners)

    @property
    def first_rejection(self) -> str:
        """Returns why the first document was kept aside; '' if none was by this process."""
        return self._first_rejection

    def put(self, owner: str, content: bytes, *, is_end: bool = False, indices: frozenset[str] | None = None) -> None:
        """Spools a body, or an end. Waits where there is too much in the spool, or no room on its disk.

        Raises what made the sender give up, or Refused.
        """
        self._wait_until(lambda: self._bytes < WAITING_BYTES)
        try:
            item = self._spool.add(owner, content, is_end=is_end, indices=indices)
        except OSError as error:  # the disk is full: the archive has it all, so memory will do, for one at a time
            self._on_waiting(Waiting(f"the spool can't be written: {located(error)}", 0.0))
            self._wait_until(lambda: not self._waiting and not self._busy)
            item = Item(owner, is_end, None, content, indices)
        with self._changed:
            self._waiting.append(item)
            self._bytes += len(content)
            self._changed.notify_all()

    def finish(self) -> None:
        """Returns when all is sent. Raises what made the sender give up, or Refused."""
        self._wait_until(lambda: not self._waiting and not self._busy)

    def begin(self, owner: str) -> None:
        """A run's or campaign's documents are to be put now; what was kept aside of it before is forgotten."""
        self._owners.add(owner)
        self._spool.forget_rejected(owner)

    def patiently(self, do: Callable[[], Any]) -> None:
        """Does it again until it is done. Raises GaveUp or Refused."""
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
                if len(ended) >= ENDS_AT_ONCE or any(earlier.owner == item.owner for earlier in ended):
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
        """Returns the next item, when there is one; None at the end."""
        with self._changed:  # what comes meanwhile needn't wait for what is under way
            self._changed.wait_for(lambda: self._waiting or all(future.done() for _, future in under_way))
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
                self._patience.restart()  # nobody lost patience while there was nothing to send
            self._busy = True
            return self._waiting.popleft()

    def _settle(self, under_way: UnderWay, ended: list[Item]) -> None:
        """All that was taken so far is delivered, and what is beyond the ends is removed."""
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
        size = len(item.content) if item.content is not None else item.file.stat().st_size if item.file else 0
        self._spool.remove(item)
        with self._changed:
            self._bytes -= size
            self._changed.notify_all()

    def _deliver(self, item: Item) -> None:
        body = item.read()
        self._send(item.owner, body, item.indices or _indices(body))

    def _send(self, owner: str, body: bytes, indices: frozenset[str]) -> None:
        """Sends until each document was taken or kept aside."""
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
                if len(left) < len(body):  # else the server answers, and takes nothing
                    self._patience.restart()
                body = left
                if body:
                    self._wait(attempt, why)
            attempt += 1

    def _judge(self, owner: str, body: bytes, answers: Sequence[BulkAnswer]) -> tuple[bytes, str]:
        """Returns what is to be sent again, and why; the rest was taken or is kept aside."""
        if not answers:
            with self._changed:
                self._sent += body.count(b"\n") // 2
            return b"", ""
        again, why = [], ""
        for (action, document), answer in zip(_pairs(body), answers, strict=True):
            if answer.reason is None:
                with self._changed:
                    self._sent += 1
            elif answer.temporary:
                again += [action, document]
                why = f"{self._server.url}: {answer.status} {answer.reason}"
                if answer.kind == NO_INDEX:
                    self._server.forget(json.loads(action)["index"]["_index"])
            else:
                self._reject(owner, action, document, f"{answer.status} {answer.kind}: {answer.reason}")
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
        """Keeps it aside, and takes what an earlier analysis left under its id out of the index."""
        place = json.loads(action)["index"]
        self._first_rejection = self._first_rejection or reason
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
        actions = [json.dumps({"delete": {"_index": index, "_id": name}}) + "\n" for index, name in places]
        for answer in self._server.bulk("".join(actions).encode()):
            if answer.reason is not None and answer.status != 404:
                raise Unavailable(f"{self._server.url}: {answer.status} {answer.reason}")

    def _wait(self, attempt: int, why: str) -> None:
        """Waits longer each time, and a little different for each client. Raises GaveUp at the end of the patience."""
        if self._patience.expired:
            raise GaveUp(f"nothing was taken for {self._patience_s:g} s: {why}")
        seconds = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2 ** min(attempt, 10)) * random.uniform(0.5, 1.0)
        self._on_waiting(Waiting(why, seconds))
        if self._closing.wait(min(seconds, self._patience.remaining_s)):
            raise GaveUp(f"was ended while it waited: {why}")


def _beyond(end: Item) -> JsonObject:
    """Returns a query for what an earlier analysis left."""
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
    """By its actions: {"index":{"_index":"NAME", ..."""
    return frozenset(name.decode() for name in {action.split(b'"', 6)[5] for action in body.split(b"\n")[:-1:2]})
