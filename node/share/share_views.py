"""Tells what share-partitions have in flight, wherever in the cluster they are led.

Only a leader knows it, and only while members read: their locks and counts are in its memory. The leaders are
asked for all of their share-partitions at once; what is not told in time is left out.
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

TIMEOUT_S: Final = 5.0  # for a leader that hangs: whoever looks will look again
PURPOSE: Final = "share-views"
USUAL_RANGES: Final = 10
# In one answer: some 60 bytes each and a member id, and 2 us to encode.
RANGES_IN_ALL: Final = 10_000
MANY_RANGES: Final = 1_000  # a step with more has a turn of its own

Views = dict[SharePartitionKey, WindowView]


class ShareViews:
    """Answers for this node, and asks others. Lives on the event loop."""

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
        """Begin to `look` while whoever asks has other questions to wait for."""
        return self._start_task(self.look(keys))

    async def look(self, keys: Iterable[SharePartitionKey], *, timeout_s: float = TIMEOUT_S) -> Views:
        """Return what each share-partition has in flight whose leader tells it in time."""
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
                    # Some milliseconds: the next look at the time is due at once.
                    for _ in range(STEPS_PER_LOOK):
                        yield
        return views

    # ---- partitions that others lead ---------------------------------------------------------------------

    async def _ask_peer(self, leader: int, keys: Iterable[SharePartitionKey], max_ranges: int) -> Views:
        peer = await self._connect(leader, PURPOSE)
        request = await take_turns(_question(keys, max_ranges))
        return await take_turns(_answers(await peer.request(request, DescribeSharePartitionsResponse)))

    async def answer_peer(self, request: DescribeSharePartitionsRequest) -> DescribeSharePartitionsResponse:
        """Return what this node knows of the share-partitions that a node asks for."""
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


def _question(keys: Iterable[SharePartitionKey], max_ranges: int) -> Steps[DescribeSharePartitionsRequest]:
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


def _answers(response: DescribeSharePartitionsResponse) -> Steps[Views]:
    views: Views = {}
    for group in response.groups:
        for topic in group.topics:
            for one in topic.partitions:
                yield
                key = SharePartitionKey(group.group_id, topic.topic_id, one.partition_index)
                views[key] = _view(one.in_flight)
    return views


def _with_letters(view: WindowView, led: LedPartition) -> WindowView:
    """Return the view with when its dead letters failed, if they did."""
    if not view.letter_failure:
        return view
    ago_s = asyncio.get_running_loop().time() - led.letter_failed_s
    return view._replace(letter_failure_ms=max(int(ago_s * 1000), 0), letters_go_on=not led.letters_lost)


def in_flight_state(view: WindowView) -> InFlightState:
    """Return a view as it stands in messages."""
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
