"""Asks transaction coordinators, on behalf of leaders, to verify or add partitions of a transaction.

It is Kafka's AddPartitionsToTxnManager (KIP-890). A leader asks before the first append of a transaction, and
takes a guard, which notices a marker that is written before the answer comes. An answer is therefore not
valid for a question that was asked after its request was sent: waiting questions are merged, sent ones are
not. Each other node gets one request at a time; questions that come meanwhile go with the next one. The
coordinator on this node is called directly.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from ottla.groupcoord.request_token import Token
from ottla.groupcoord.transactions.transaction import ProducerPair
from ottla.groupcoord.transactions.transaction_commands import AddPartitions, ClientCommand, VerifyPartitions
from ottla.groupcoord.transactions.transaction_results import Result, VerifyPartitionsResult
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.handing_over import StartTask
from ottla.node.net.answers import Delayed
from ottla.node.net.client_lines import ClientLines
from ottla.node.net.peer_client import PeerClient
from ottla.node.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

# Limits of one request: the coordinator reads it in one turn of its loop.
MAX_TRANSACTIONS_PER_REQUEST: Final = 500
MAX_PARTITIONS_PER_REQUEST: Final = 2_000
# Questions that wait for one node: one per id, producer and kind, from Produce and TxnOffsetCommit, so this
# is many clients.
MAX_WAITING: Final = 20_000
FIRST_RETRY_MS: Final = 1
PURPOSE: Final = "transactions"  # a connection of its own: an add is answered only when it is replicated

Codes = Mapping[TopicPartition, ErrorCode]

# Transient errors: the coordinator moves, or does not know a new topic yet. CONCURRENT_TRANSACTIONS (markers
# of the last transaction are being written) is retried only for questions that add to the next transaction.
_RETRIED = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
    }
)

log = logging.getLogger(__name__)


class Coordinators(Protocol):
    """The lookup of transaction coordinators, and the coordinator on this node."""

    def coordinator_node(self, transactional_id: str) -> int | None: ...
    def ask(
        self,
        transactional_id: str,
        make: Callable[[Token], ClientCommand],
        build: Callable[[Any], Any],
    ) -> Any: ...


class _Key(NamedTuple):
    """The key of a question; waiting questions with the same key are merged."""

    transactional_id: str
    producer: ProducerPair
    adds: bool


class _Question:
    """A question of one or more leaders about one transaction."""

    __slots__ = ("deadline_s", "futures", "key", "partitions", "pause_ms")

    def __init__(self, key: _Key, deadline_s: float) -> None:
        self.key = key
        self.partitions: set[TopicPartition] = set()
        self.futures: list[asyncio.Future[Codes]] = []
        self.deadline_s = deadline_s  # after which it is not asked again, by the loop's clock
        self.pause_ms = FIRST_RETRY_MS

    @property
    def is_wanted(self) -> bool:
        """Return True while a caller still waits for the answer."""
        return not all(future.done() for future in self.futures)

    def settle(self, codes: Codes) -> None:
        for future in self.futures:
            if not future.done():
                future.set_result(codes)

    def settle_all(self, code: ErrorCode) -> None:
        self.settle(dict.fromkeys(self.partitions, code))


class _NodeQueue:
    """The questions to one other node."""

    __slots__ = ("has_sender", "sent", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[_Key, _Question] = {}  # in the order in which they came
        self.sent: dict[_Key, _Question] = {}
        self.has_sender = False


class TxnGate:
    """Asks transaction coordinators for all leaders of this node. For the event loop only."""

    def __init__(
        self,
        *,
        node_id: int,
        coordinators: Coordinators,
        connect: Callable[[int, str], Awaitable[PeerClient]],
        request_timeout_ms: int,
        retry_backoff_ms: int,
        retry_max_ms: int,
    ) -> None:
        """Questions are asked again for up to `retry_max_ms`, at most `request_timeout_ms`.

        The pauses double from 1 ms to `retry_backoff_ms`.
        """
        self._lines = ClientLines(log)
        self._node_id = node_id
        self._coordinators = coordinators
        self._connect = connect
        self._request_timeout_s = request_timeout_ms / 1000
        self._retry_backoff_ms = retry_backoff_ms
        self._retry_max_s = min(retry_max_ms, request_timeout_ms) / 1000
        self._queues: dict[int, _NodeQueue] = {}
        self._start_task: StartTask | None = None

    def start(self, start_task: StartTask) -> None:
        """Begin to serve. `start_task` starts the tasks that send requests to other nodes."""
        self._start_task = start_task

    def close(self) -> None:
        """Answer all waiting questions with COORDINATOR_NOT_AVAILABLE, and stop."""
        self._start_task = None
        for queue in self._queues.values():
            for question in (*queue.sent.values(), *queue.waiting.values()):
                question.settle_all(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            queue.sent.clear()
            queue.waiting.clear()

    def add_or_verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartition],
        *,
        adds: bool,
    ) -> "asyncio.Future[Codes]":
        """Return a future of the coordinator's code for each partition: NONE if it is in the transaction.

        With `adds` the coordinator adds the partitions, otherwise it only verifies them. The code is
        NETWORK_EXCEPTION if the coordinator does not answer, and COORDINATOR_NOT_AVAILABLE if none is known.
        The result may have other partitions, too.
        """
        loop = asyncio.get_running_loop()
        key = _Key(transactional_id, ProducerPair(producer_id, producer_epoch), adds)
        question = _Question(key, loop.time() + self._retry_max_s)
        question.partitions.update(partitions)
        future: asyncio.Future[Codes] = loop.create_future()
        question.futures.append(future)
        self._ask(question)
        return future

    def refresh(self) -> None:
        """Ask again the questions whose coordinator is on another node now."""
        for node_id, queue in list(self._queues.items()):
            for questions in (queue.sent, queue.waiting):
                for key, question in list(questions.items()):
                    if self._coordinators.coordinator_node(key.transactional_id) != node_id:
                        del questions[key]  # so an answer of the old coordinator is ignored
                        moved = dict.fromkeys(question.partitions, ErrorCode.NOT_COORDINATOR)
                        self._take_answer(question, moved)

    # ---- one question --------------------------------------------------------------------------------

    def _ask(self, question: _Question) -> None:
        node_id = self._coordinators.coordinator_node(question.key.transactional_id)
        if node_id is None or self._start_task is None:
            question.settle_all(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        elif node_id == self._node_id:
            self._ask_here(question)
        else:
            self._ask_there(node_id, question)

    def _ask_here(self, question: _Question) -> None:
        transactional_id, producer, adds = question.key

        def make(token: Token) -> ClientCommand:
            partitions = frozenset(question.partitions)
            if adds:
                return AddPartitions(
                    token=token,
                    transactional_id=transactional_id,
                    producer=producer,
                    partitions=partitions,
                    client_version=2,
                    may_wait=True,
                )
            return VerifyPartitions(
                token=token, transactional_id=transactional_id, producer=producer, partitions=partitions
            )

        def build(outcome: Result | KafkaError) -> Codes:
            if isinstance(outcome, VerifyPartitionsResult):
                return outcome.errors
            code = outcome.code if isinstance(outcome, KafkaError) else ErrorCode.NONE
            return dict.fromkeys(question.partitions, code)

        answer = self._coordinators.ask(transactional_id, make, build)
        if not isinstance(answer, Delayed):
            self._take_answer(question, answer)
            return
        assert asyncio.isfuture(answer.future)
        answer.future.add_done_callback(
            lambda done: (
                None if done.cancelled() else self._take_answer(question, answer.answer(done.result()))
            )
        )

    def _ask_there(self, node_id: int, question: _Question) -> None:
        queue = self._queues.setdefault(node_id, _NodeQueue())
        known = queue.waiting.get(question.key)
        if known is not None:
            known.partitions |= question.partitions
            known.futures += question.futures
        elif len(queue.waiting) >= MAX_WAITING:
            question.settle_all(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        else:
            queue.waiting[question.key] = question
        if not queue.has_sender:
            assert self._start_task is not None
            queue.has_sender = True
            self._start_task(self._serve(node_id, queue))

    def _take_answer(self, question: _Question, codes: Codes) -> None:
        """Give an answer to the callers, or ask again if an error is transient and there is time left."""
        loop = asyncio.get_running_loop()
        found = set(codes.values())
        may_change = not found.isdisjoint(_RETRIED) or (
            question.key.adds and ErrorCode.CONCURRENT_TRANSACTIONS in found
        )
        if not may_change or loop.time() >= question.deadline_s or self._start_task is None:
            question.settle(codes)
            return
        loop.call_later(question.pause_ms / 1000, self._ask_again, question)
        question.pause_ms = min(2 * question.pause_ms, self._retry_backoff_ms)

    def _ask_again(self, question: _Question) -> None:
        if question.is_wanted:
            self._ask(question)

    # ---- requests to one node ------------------------------------------------------------------------

    async def _serve(self, node_id: int, queue: _NodeQueue) -> None:
        """Send request after request, until no question waits."""
        try:
            while queue.waiting:
                queue.sent = _next_request(queue.waiting)
                sent = dict(queue.sent)
                if not sent:
                    continue
                answers = await self._send(node_id, list(sent.values()))
                for key, question in sent.items():
                    if queue.sent.pop(key, None) is question:
                        self._take_answer(question, answers[key])
        finally:
            queue.has_sender = False

    async def _send(self, node_id: int, questions: Sequence[_Question]) -> dict[_Key, Codes]:
        """Send one request and return its answers, which are errors if the node does not respond."""
        try:
            client = await self._connect(node_id, PURPOSE)
            response = await client.request(
                AddPartitionsToTxnRequest(transactions=[_transaction(one) for one in questions]),
                AddPartitionsToTxnResponse,
                timeout_s=self._request_timeout_s,
            )
        except KafkaError as error:
            message = "A request to the transaction coordinator on node %d failed: %s"
            self._lines.log(logging.WARNING, "", message, node_id, error)
            failed = ErrorCode.NETWORK_EXCEPTION
        else:
            if not response.error_code:
                return _codes_of(questions, response)
            failed = _known_code(response.error_code)
        return {one.key: dict.fromkeys(one.partitions, failed) for one in questions}


def _next_request(waiting: dict[_Key, _Question]) -> dict[_Key, _Question]:
    """Take as many questions as fit in a request. The response is by id, so a request has each id once."""
    taken: dict[_Key, _Question] = {}
    ids: set[str] = set()
    partitions = 0
    for key, question in list(waiting.items()):
        if not question.is_wanted:
            del waiting[key]
            continue
        if key.transactional_id in ids:
            continue
        partitions += len(question.partitions)
        if taken and partitions > MAX_PARTITIONS_PER_REQUEST:
            break
        del waiting[key]
        ids.add(key.transactional_id)
        taken[key] = question
        if len(taken) == MAX_TRANSACTIONS_PER_REQUEST:
            break
    return taken


def _transaction(question: _Question) -> AddPartitionsToTxnTransaction:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(question.partitions):
        topics.setdefault(topic, []).append(partition)
    key = question.key
    return AddPartitionsToTxnTransaction(
        transactional_id=key.transactional_id,
        producer_id=key.producer.producer_id,
        producer_epoch=key.producer.producer_epoch,
        verify_only=not key.adds,
        topics=[
            AddPartitionsToTxnTopic(name=topic, partitions=partitions) for topic, partitions in topics.items()
        ],
    )


def _codes_of(questions: Sequence[_Question], response: AddPartitionsToTxnResponse) -> dict[_Key, Codes]:
    """Return the codes of each question; a partition missing from the response gets an error."""
    by_id: dict[str, dict[TopicPartition, ErrorCode]] = {}
    for result in response.results_by_transaction:
        codes = by_id.setdefault(result.transactional_id, {})
        for topic in result.topic_results:
            for one in topic.results_by_partition:
                codes[TopicPartition(topic.name, one.partition_index)] = _known_code(one.partition_error_code)
    return {
        one.key: {
            each: by_id.get(one.key.transactional_id, {}).get(each, ErrorCode.UNKNOWN_SERVER_ERROR)
            for each in one.partitions
        }
        for one in questions
    }


def _known_code(code: int) -> ErrorCode:
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR  # a later release may have more codes


def code_for_client(code: ErrorCode, *, knows_abortable: bool) -> ErrorCode:
    """Return the code for a Produce response.

    It never has PRODUCER_FENCED, and TRANSACTION_ABORTABLE only for clients that know it.
    """
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and not knows_abortable:
        return ErrorCode.INVALID_TXN_STATE
    return code
