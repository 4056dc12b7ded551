"""Collects the records in flight of share-partitions from their leaders.

Only a leader knows them, and only while members read: locks and counts are in its memory. Each leader is
asked once for all of its share-partitions; those without an answer in time are left out.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Final

from ottla.groupcoord.share_state.share_state_words import SharePartitionKey
from ottla.metadata_raft.image import MetadataImage
from ottla.node.handing_over import StartTask
from ottla.node.net.peer_client import PeerClient
from ottla.node.share.led_partition import LedPartition
from ottla.node.share.share_partition_manager import SharePartitionManager
from ottla.node.share.window_view import MAX_RANGES, RangeView, WindowView
from ottla.node.wire.messages.describe_share_partitions import (
    DescribedShareGroup,
    DescribedSharePartition,
    DescribedShareTopic,
    DescribeSharePartitionsGroup,
    DescribeSharePartitionsRequest,
    DescribeSharePartitionsResponse,
    DescribeSharePartitionsTopic,
    InFlightRange,
    InFlightState,
)
from ottla.node.work.each_leader import ask_each_leader
from ottla.node.work.turns import STEPS_PER_LOOK, Steps, take_turns

TIMEOUT_S: Final = 5.0  # for a leader that does not answer; the user can ask again
PURPOSE: Final = "share-views"
USUAL_RANGES: Final = 10
# Ranges in one response: some 60 bytes and a member id each, and 2 us to encode.
RANGES_IN_ALL: Final = 10_000
MANY_RANGES: Final = 1_000  # a step with more has a turn of its own

Views = dict[SharePartitionKey, WindowView]


class ShareViews:
    """Collects views from this node and others. For the event loop only."""

    def __init__(
        self,
        *,
        node_id: int,
        shares: SharePartitionManager,
        image: Callable[[], MetadataImage],
        connect: Callable[[int, str], Awaitable[PeerClient]],
        start_task: StartTask,
    ) -> None:
        self._node_id = node_id
        self._shares = shares
        self._image = image
        self._connect = connect
        self._start_task = start_task

    def begin(self, keys: Iterable[SharePartitionKey]) -> Awaitable[Views]:
        """Start `look` in a task, so that the caller can wait for other answers at the same time."""
        return self._start_task(self.look(keys))

    async def look(self, keys: Iterable[SharePartitionKey], *, timeout_s: float = TIMEOUT_S) -> Views:
        """Return the view of each share-partition whose leader answers in time."""
        wanted = list(dict.fromkeys(keys))
        max_ranges = max(1, min(USUAL_RANGES, RANGES_IN_ALL // max(len(wanted), 1)))
        image = self._image()

        def leader_of(key: SharePartitionKey) -> int | None:
            topic = image.topics.by_id.get(key.topic_id)
            if topic is None or not 0 <= key.partition < len(topic.partitions):
                return None
            return topic.partitions[key.partition].leader

        return await ask_each_leader(
            wanted,
            leader_of=leader_of,
            node_id=self._node_id,
            here=lambda mine: take_turns(self._look_here(mine, max_ranges)),
            there=partial(self._ask_peer, max_ranges=max_ranges),
            deadline=asyncio.get_running_loop().time() + timeout_s,
        )

    def _look_here(self, keys: Iterable[SharePartitionKey], max_ranges: int) -> Steps[Views]:
        views: Views = {}
        for key in keys:
            yield
            view = self._shares.view(key, max_ranges)
            if view is not None:
                led = self._shares.share_partitions[key]
                views[key] = _with_letters(view, led)
                if led.core.in_flight_range_count > MANY_RANGES:
                    # This took some milliseconds, so the time must be checked at once.
                    for _ in range(STEPS_PER_LOOK):
                        yield
        return views

    # ---- partitions that other nodes lead ----------------------------------------------------------------

    async def _ask_peer(self, leader: int, keys: Iterable[SharePartitionKey], max_ranges: int) -> Views:
        peer = await self._connect(leader, PURPOSE)
        request = await take_turns(_request_of(keys, max_ranges))
        return await take_turns(_views_of(await peer.request(request, DescribeSharePartitionsResponse)))

    async def answer_peer(self, request: DescribeSharePartitionsRequest) -> DescribeSharePartitionsResponse:
        """Answer another node with the views of share-partitions that this node leads."""
        max_ranges = max(0, min(request.max_ranges, MAX_RANGES))
        return await take_turns(self._answer(request, max_ranges))

    def _answer(
        self, request: DescribeSharePartitionsRequest, max_ranges: int
    ) -> Steps[DescribeSharePartitionsResponse]:
        groups = []
        for group in request.groups:
            topics = []
            for topic in group.topics:
                keys = [SharePartitionKey(group.group_id, topic.topic_id, one) for one in topic.partitions]
                views = yield from self._look_here(keys, max_ranges)
                partitions = [
                    DescribedSharePartition(partition_index=key.partition, in_flight=in_flight_state(view))
                    for key, view in views.items()
                ]
                topics.append(DescribedShareTopic(topic_id=topic.topic_id, partitions=partitions))
            groups.append(DescribedShareGroup(group_id=group.group_id, topics=topics))
        return DescribeSharePartitionsResponse(groups=groups)


def _request_of(keys: Iterable[SharePartitionKey], max_ranges: int) -> Steps[DescribeSharePartitionsRequest]:
    by_group: dict[str, dict[bytes, list[int]]] = {}
    for key in keys:
        yield
        by_group.setdefault(key.group, {}).setdefault(key.topic_id, []).append(key.partition)
    groups = [
        DescribeSharePartitionsGroup(
            group_id=group,
            topics=[
                DescribeSharePartitionsTopic(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in topics.items()
            ],
        )
        for group, topics in by_group.items()
    ]
    return DescribeSharePartitionsRequest(max_ranges=max_ranges, groups=groups)


def _views_of(response: DescribeSharePartitionsResponse) -> Steps[Views]:
    views: Views = {}
    for group in response.groups:
        for topic in group.topics:
            for one in topic.partitions:
                yield
                key = SharePartitionKey(group.group_id, topic.topic_id, one.partition_index)
                views[key] = _view(one.in_flight)
    return views


def _with_letters(view: WindowView, led: LedPartition) -> WindowView:
    """Return the view with the time of the last failure of its dead letters, if there was one."""
    if not view.letter_failure:
        return view
    ago_s = asyncio.get_running_loop().time() - led.letter_failed_s
    return view._replace(letter_failure_ms=max(int(ago_s * 1000), 0), letters_go_on=not led.letters_lost)


def in_flight_state(view: WindowView) -> InFlightState:
    """Convert a view to its form in messages."""
    fields = view._asdict()
    fields["oldest"] = None if view.oldest is None else InFlightRange(**view.oldest._asdict())
    fields["most_delivered"] = [InFlightRange(**one._asdict()) for one in view.most_delivered]
    fields["next_locks"] = [InFlightRange(**one._asdict()) for one in view.next_locks]
    return InFlightState(**fields)


def _view(state: InFlightState) -> WindowView:
    return WindowView(
        start_offset=state.start_offset,
        end_offset=state.end_offset,
        acquired=state.acquired,
        available=state.available,
        acknowledged=state.acknowledged,
        archived=state.archived,
        delayed=state.delayed,
        backing_off=state.backing_off,
        delivery_count_limit=state.delivery_count_limit,
        stalled_ms=state.stalled_ms,
        oldest=None if state.oldest is None else _range(state.oldest),
        most_delivered=[_range(one) for one in state.most_delivered],
        next_locks=[_range(one) for one in state.next_locks],
        letter_failure=state.letter_failure,
        letter_failure_ms=state.letter_failure_ms,
        letters_go_on=state.letters_go_on,
    )


def _range(one: InFlightRange) -> RangeView:
    return RangeView(
        one.first_offset,
        one.last_offset,
        one.delivery_count,
        one.state,
        one.member_id,
        one.lock_left_ms,
    )
