"""Asks share coordinators on behalf of this node: for its share-partitions, and for its share groups.

The requests for one share-partition are carried out in their order, one at a time; adjacent writes that wait
become one. For a coordinator on another node, all requests of one kind and group that come in a turn of the
loop are sent together, and the next ones after the response. The coordinator on this node is called directly.

If a coordinator moves, loads or does not answer, it is looked up and asked again, for as long as Apache
Kafka's persister does. Each request may be repeated, because the coordinator checks its epochs.
"""

import asyncio
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol, TypeVar, cast

from ottla.groupcoord.share_state.share_state_config import MAX_BATCHES
from ottla.groupcoord.share_state.share_state_words import (
    NOT_GIVEN,
    DeleteState,
    InitializeState,
    ReadState,
    ReadStateSummary,
    SharePartitionKey,
    StateAnswer,
    StateRead,
    StateRequest,
    StateResult,
    StateSummary,
    WriteState,
    newer_note,
    refused,
)
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.coordinators.share_state_messages import WIRE_APIS, answers_of
from ottla.node.coordinators.share_state_runtime import Outcome, answer_of
from ottla.node.handing_over import StartTask
from ottla.node.net.client_lines import ClientLines
from ottla.node.net.peer_client import PeerClient

PURPOSE: Final = "share states"  # a connection of its own: a write is answered only when it is replicated
# Limits of one request: the coordinator reads it in one turn of its loop.
MAX_PARTITIONS_PER_REQUEST: Final = 500
MAX_BATCHES_PER_REQUEST: Final = MAX_BATCHES
# All requests that wait; some kilobytes each.
MAX_QUESTIONS: Final = 50_000
# Kafka's persister tries five times, with pauses of 2, 4, 8 and 16 seconds, and then gives up. This one gives
# up after as long, but begins with short pauses, because a coordinator is mostly back in a moment.
RETRY_S: Final = 30.0
FIRST_PAUSE_S: Final = 0.05
MAX_PAUSE_S: Final = 1.0
JITTER: Final = 0.2

_RETRIED: Final = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)

R = TypeVar("R", bound=StateRequest)

log = logging.getLogger(__name__)


class Coordinators(Protocol):
    """The lookup of share coordinators, and the coordinator on this node."""

    async def coordinator_of(self, coordinator_key: str) -> int: ...
    def known_coordinator_of(self, coordinator_key: str) -> int: ...
    def submit(self, request: StateRequest) -> "Outcome | asyncio.Future[Outcome]": ...


class _Question:
    """A request, or several writes that became one, with the futures that wait for the answer."""

    __slots__ = ("deadline_s", "futures", "pause", "pause_s", "request", "sent_to")

    def __init__(self, request: StateRequest, deadline_s: float) -> None:
        self.request = request
        self.futures: list[asyncio.Future[StateAnswer]] = []
        self.deadline_s = deadline_s  # after which it is not asked again, by the loop's clock
        self.pause_s = FIRST_PAUSE_S
        self.pause: asyncio.TimerHandle | None = None
        self.sent_to = -1


class _NodeQueue:
    """The questions of one kind to one other node, by group."""

    __slots__ = ("has_sender", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[str, deque[_Question]] = {}
        self.has_sender = False


class SharePersister:
    """Asks share coordinators for the whole node. For the event loop only."""

    def __init__(
        self,
        *,
        node_id: int,
        coordinators: Coordinators,
        connect: Callable[[int, str], Awaitable[PeerClient]],
        request_timeout_ms: int,
        chance: random.Random,
    ) -> None:
        self._lines = ClientLines(log)
        self._node_id = node_id
        self._coordinators = coordinators
        self._connect = connect
        self._request_timeout_s = request_timeout_ms / 1000
        self._chance = chance
        # By share-partition: the question in flight, and the questions behind it.
        self._queues: dict[SharePartitionKey, deque[_Question]] = {}
        self._count = 0
        self._node_queues: dict[tuple[int, type[StateRequest]], _NodeQueue] = {}
        self._start_task: StartTask | None = None

    # ---- start, end, and changes of the metadata -------------------------------------------------------

    def start(self, start_task: StartTask) -> None:
        """Begin to serve. `start_task` starts the tasks that send requests to other nodes."""
        self._start_task = start_task

    def close(self) -> None:
        """Answer all waiting requests with COORDINATOR_NOT_AVAILABLE, and stop."""
        self._start_task = None
        queues, self._queues = self._queues, {}
        self._node_queues.clear()
        for queue in queues.values():
            for question in queue:
                if question.pause is not None:
                    question.pause.cancel()
                self._give(question, _not_available(question.request))

    def refresh(self) -> None:
        """End the pauses of questions whose coordinator has moved, and ask the new coordinator at once."""
        for queue in list(self._queues.values()):
            question = queue[0]
            if question.pause is not None:
                node_id = self._coordinators.known_coordinator_of(question.request.key.coordinator_key)
                if node_id not in (-1, question.sent_to):
                    question.pause.cancel()
                    self._ask_again(question)

    # ---- requests ------------------------------------------------------------------------------------

    async def initialize(self, requests: Sequence[InitializeState]) -> list[StateResult]:
        """Initialize the states of share-partitions, also states that exist.

        This method and the next ones never raise: the answers, in the order of the requests, have the errors.
        """
        return cast(list[StateResult], await self._ask_all(requests))

    async def read(self, requests: Sequence[ReadState]) -> list[StateRead]:
        """Read states, and fence the writes of earlier leaders."""
        return cast(list[StateRead], await self._ask_all(requests))

    async def read_summary(self, requests: Sequence[ReadStateSummary]) -> list[StateSummary]:
        """Read states without their batches."""
        return cast(list[StateSummary], await self._ask_all(requests))

    async def write(self, requests: Sequence[WriteState]) -> list[StateResult]:
        """Write changes of states."""
        return cast(list[StateResult], await self._ask_all(requests))

    async def delete(self, requests: Sequence[DeleteState]) -> list[StateResult]:
        """Delete states."""
        return cast(list[StateResult], await self._ask_all(requests))

    async def _ask_all(self, requests: Sequence[R]) -> list[StateAnswer]:
        futures = [self._put(request) for request in requests]
        return [await future for future in futures]

    def _put(self, request: StateRequest) -> "asyncio.Future[StateAnswer]":
        loop = asyncio.get_running_loop()
        future: asyncio.Future[StateAnswer] = loop.create_future()
        if self._start_task is None or self._count >= MAX_QUESTIONS:
            future.set_result(_not_available(request))
            return future
        self._count += 1
        queue = self._queues.get(request.key)
        if queue is not None and len(queue) > 1:
            joined = _joined(queue[-1].request, request)
            if joined is not None:
                queue[-1].request = joined
                queue[-1].futures.append(future)
                return future
        question = _Question(request, loop.time() + RETRY_S)
        question.futures.append(future)
        if queue is None:
            self._queues[request.key] = deque((question,))
            self._ask(question)
        else:
            queue.append(question)
        return future

    # ---- one question --------------------------------------------------------------------------------

    def _ask(self, question: _Question) -> None:
        if self._start_task is None:
            return  # `close` has answered it
        node_id = self._coordinators.known_coordinator_of(question.request.key.coordinator_key)
        if node_id < 0:
            self._start_task(self._find(question))
        else:
            self._ask_node(node_id, question)

    async def _find(self, question: _Question) -> None:
        """Ask the coordinator of a question after looking it up, which creates the topic if there is none."""
        try:
            node_id = await self._coordinators.coordinator_of(question.request.key.coordinator_key)
        except KafkaError:
            node_id = -1
        if node_id < 0:
            self._take_answer(question, _not_available(question.request))
        else:
            self._ask_node(node_id, question)

    def _ask_node(self, node_id: int, question: _Question) -> None:
        question.sent_to = node_id
        if node_id == self._node_id:
            self._ask_here(question)
        else:
            self._ask_there(node_id, question)

    def _ask_here(self, question: _Question) -> None:
        outcome = self._coordinators.submit(question.request)
        if not isinstance(outcome, asyncio.Future):
            self._take_answer(question, answer_of(question.request, outcome))
            return
        outcome.add_done_callback(
            lambda done: (
                None
                if done.cancelled()
                else self._take_answer(question, answer_of(question.request, done.result()))
            )
        )

    def _ask_there(self, node_id: int, question: _Question) -> None:
        if self._start_task is None:
            return
        kind = type(question.request)
        node_queue = self._node_queues.setdefault((node_id, kind), _NodeQueue())
        node_queue.waiting.setdefault(question.request.key.group, deque()).append(question)
        if not node_queue.has_sender:
            node_queue.has_sender = True
            self._start_task(self._serve(node_id, kind, node_queue))

    def _take_answer(self, question: _Question, answer: StateAnswer) -> None:
        """Give an answer to the callers, or ask again if the error is transient and there is time left."""
        if self._start_task is None:
            return
        loop = asyncio.get_running_loop()
        pause_s = question.pause_s * (1 + JITTER * (2 * self._chance.random() - 1))
        if answer.error in _RETRIED and loop.time() + pause_s < question.deadline_s:
            question.pause_s = min(2 * question.pause_s, MAX_PAUSE_S)
            question.pause = loop.call_later(pause_s, self._ask_again, question)
            return
        queue = self._queues[question.request.key]
        assert queue[0] is question
        queue.popleft()
        if queue:
            queue[0].deadline_s = loop.time() + RETRY_S
            # In a later turn: questions that are answered at once must not nest their calls.
            loop.call_soon(self._ask, queue[0])
        else:
            del self._queues[question.request.key]
        self._give(question, answer)

    def _ask_again(self, question: _Question) -> None:
        question.pause = None
        self._ask(question)

    def _give(self, question: _Question, answer: StateAnswer) -> None:
        self._count -= len(question.futures)
        for future in question.futures:
            if not future.done():
                future.set_result(answer)

    # ---- requests to one node ------------------------------------------------------------------------

    async def _serve(self, node_id: int, kind: type[StateRequest], node_queue: _NodeQueue) -> None:
        """Send request after request, until no question waits."""
        try:
            await asyncio.sleep(0)  # so that the first request has all questions of this turn of the loop
            while node_queue.waiting:
                questions = _next_request(node_queue.waiting)
                answers = await self._send(node_id, kind, [one.request for one in questions])
                for question, answer in zip(questions, answers, strict=True):
                    self._take_answer(question, answer)
        finally:
            node_queue.has_sender = False

    async def _send(
        self, node_id: int, kind: type[StateRequest], requests: Sequence[StateRequest]
    ) -> list[StateAnswer]:
        """Send one request and return its answers, which are errors if the node does not respond."""
        api = WIRE_APIS[kind]
        try:
            client = await self._connect(node_id, PURPOSE)
            response = await client.request(
                api.request(requests[0].key.group, requests),
                api.response_type,
                timeout_s=self._request_timeout_s,
            )
        except KafkaError as error:
            message = "A request to the share coordinator on node %d failed: %s"
            self._lines.log(logging.WARNING, "", message, node_id, error)
            return [refused(one, error.code, error.detail) for one in requests]
        return answers_of(requests, response)


def _next_request(waiting: dict[str, deque[_Question]]) -> list[_Question]:
    """Take as many questions of one group as fit in a request; the next request is of another group."""
    group, questions = next(iter(waiting.items()))
    del waiting[group]
    taken: list[_Question] = []
    batches = 0
    while questions and len(taken) < MAX_PARTITIONS_PER_REQUEST:
        request = questions[0].request
        batches += len(request.batches) if isinstance(request, WriteState) else 0
        if taken and batches > MAX_BATCHES_PER_REQUEST:
            break
        taken.append(questions.popleft())
    if questions:
        waiting[group] = questions
    return taken


def _joined(earlier: StateRequest, later: StateRequest) -> WriteState | None:
    """Return one write with the effect of both writes in their order, None if there is none."""
    if not isinstance(earlier, WriteState) or not isinstance(later, WriteState):
        return None
    writer = earlier.state_epoch, earlier.leader_epoch, earlier.incarnation
    if writer != (later.state_epoch, later.leader_epoch, later.incarnation):
        return None
    if later.start_offset != NOT_GIVEN and later.start_offset < earlier.start_offset:
        return None
    if len(earlier.batches) + len(later.batches) > MAX_BATCHES:
        return None
    return WriteState(
        later.key,
        later.state_epoch,
        later.leader_epoch,
        earlier.start_offset if later.start_offset == NOT_GIVEN else later.start_offset,
        later.delivery_complete_count,
        (*earlier.batches, *later.batches),
        later.dead_letters
        if earlier.dead_letters is None
        else newer_note(earlier.dead_letters, later.dead_letters),
        later.incarnation,
    )


def _not_available(request: StateRequest) -> StateAnswer:
    return refused(request, ErrorCode.COORDINATOR_NOT_AVAILABLE, "The share coordinator is not available.")
