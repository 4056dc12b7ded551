"""Fetch: batches of the partitions that a consumer reads, at once or when there are enough of them.

Versions 4 to 18. Incremental sessions since 7 (KIP-227), leader epochs since 9 (KIP-320), the end of a
diverging log since 12 (KIP-595), topic ids since 13 (KIP-516), the leader's endpoint with an error since 16
(KIP-951). Since 11 followers serve consumers too, up to their high watermark, and leaders may name one in the
consumer's rack (KIP-392). Fetches of followers (replica id >= 0) are served by `replica_fetch`.

Batches compressed with zstd are returned in every version: KIP-110 demands 10, but Apache Kafka 4 does not
check it, and older clients can read them (aiokafka up to 0.12).
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

from ottla.logstore.words.errors import KafkaError
from ottla.metadata_raft.acl import AclOperation, ResourceType
from ottla.node.kafka_api import replica_fetch
from ottla.node.kafka_api.api_description import ApiDescription, Asks, Echo
from ottla.node.kafka_api.fetch_answer import FetchAnswer, Located
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.net.answers import Delayed, Result
from ottla.node.replica.fetch_session import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchItem,
    FetchSession,
)
from ottla.node.services import Services
from ottla.node.wire.messages.fetch import FetchRequest, FetchResponse
from ottla.node.wire.request_limits import MANY_FETCHED, NAME, TOPIC, RequestLimits
from ottla.node.work.turns import take_turns

API: Final = ApiDescription(
    versions=(4, 18),
    asks=Asks(
        by_handler=(
            (AclOperation.READ, ResourceType.TOPIC),
            (AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER),
        )
    ),
    limits=RequestLimits(
        MANY_FETCHED,
        {"cluster_id": NAME, "topics.topic": TOPIC, "forgotten_topics_data.topic": TOPIC, "rack_id": NAME},
    ),
    echoes=(
        Echo(
            "topics",
            "responses",
            ("topic",),
            Echo("partitions", "partitions", ("partition>partition_index",)),
        ),
    ),
    changes_nothing=True,
    counts_followers=True,
)


def handle(services: Services, context: RequestContext, request: FetchRequest) -> Result[FetchResponse]:
    version = context.api_version
    replica_id = request.replica_state.replica_id if version >= 15 else request.replica_id
    if replica_id >= 0:
        return replica_fetch.handle(services, context, request, replica_id)
    by_id = version >= 13
    items = [
        FetchItem(topic.topic_id if by_id else topic.topic, wanted)
        for topic in request.topics
        for wanted in topic.partitions
    ]
    if len(items) > 1:  # a partition that is named twice is answered once
        items = list({item.key: item for item in items}.values())
    try:
        session, is_incremental = _enter_session(services, request, items, by_id, context.connection.number)
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    if session is not None:
        items = [cached.item for cached in session.partitions.values()]
    fetch = FetchAnswer(services, context, request, session, is_incremental)
    if context.is_large:
        return _handle_in_turns(request, fetch, items)
    located = fetch.locate(items)
    if fetch.met_newer_epoch and request.max_wait_ms > 0:
        # The metadata arrive within moments, and the error, which Kafka returns, would cost the client its
        # backoff.
        waited = services.metadata.suspects.wait_for_metadata(
            partial(fetch.is_behind, items), request.max_wait_ms / 1_000
        )
        return Delayed(waited, lambda _: _handle_at_once(request, fetch, items, fetch.locate(items)))
    return _handle_at_once(request, fetch, items, located)


def _handle_at_once(
    request: FetchRequest, fetch: FetchAnswer, items: Sequence[FetchItem], located: Sequence[Located]
) -> Result[FetchResponse]:
    if fetch.is_cold:
        return _handle_cold(request, fetch, items)
    return _handle_located(request, fetch, items, located, was_in_turns=False)


async def _handle_in_turns(
    request: FetchRequest, fetch: FetchAnswer, items: Sequence[FetchItem]
) -> Result[FetchResponse]:
    located = await take_turns(fetch.steps_to_locate(items))
    if fetch.is_cold:
        located = await fetch.locate_cold(items)
    return _handle_located(request, fetch, items, located, was_in_turns=True)


async def _handle_cold(
    request: FetchRequest, fetch: FetchAnswer, items: Sequence[FetchItem]
) -> Result[FetchResponse]:
    return _handle_located(request, fetch, items, await fetch.locate_cold(items), was_in_turns=True)


def _handle_located(
    request: FetchRequest,
    fetch: FetchAnswer,
    items: Sequence[FetchItem],
    located: Sequence[Located],
    *,
    was_in_turns: bool,
) -> Result[FetchResponse]:
    if request.max_wait_ms <= 0 or not items or fetch.is_enough(located):
        return fetch.answer(located)
    return fetch.wait(items, located, was_in_turns=was_in_turns)


def _enter_session(
    services: Services, request: FetchRequest, items: Sequence[FetchItem], by_id: bool, connection_number: int
) -> tuple[FetchSession | None, bool]:
    """Return the session of a fetch, if it has one, and True if the response has only changes."""
    sessions = services.replica_manager.sessions
    if request.session_epoch not in (INITIAL_EPOCH, FINAL_EPOCH):
        session = sessions.resume(request.session_id, request.session_epoch, uses_topic_ids=by_id)
        now_ms = services.clock.now_ms()
        if items or request.forgotten_topics_data:
            sessions.update(session, items, request.forgotten_topics_data, now_ms)
        sessions.advance(session, now_ms, connection_number)
        return (session, True) if session.partitions else (None, False)
    if request.session_id != NO_SESSION:
        sessions.remove(request.session_id)
    if request.session_epoch == FINAL_EPOCH:
        return None, False
    now_ms = services.clock.now_ms()
    created = sessions.create(
        items,
        uses_topic_ids=by_id,
        is_privileged=False,
        now_ms=now_ms,
        connection_number=connection_number,
    )
    return created, False
