"""A member of a share group (KIP-932): heartbeats that return its assignment, and leaving.

It sends requests only when it is called: the caller heartbeats between its fetches, and during long work.
"""

import base64
import time
import uuid
from collections.abc import Sequence
from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client.cluster_client import Client, check
from ottla.node.wire.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

JOINING, LEAVING = 0, -1  # member epochs
LEAST_HEARTBEAT_S: Final = 0.1
MAX_HEARTBEAT_S: Final = 15.0  # the maximum of Kafka's share.heartbeat.interval.ms
MAX_PARTITIONS: Final = 100_000  # of one member
# The group no longer has this member: it joins again under the same id.
_REJOIN: Final = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH}


class ShareMember:
    """The membership of this client in one share group; `assigned` are its partitions."""

    def __init__(self, client: Client, group_id: str, topics: Sequence[str]) -> None:
        self.assigned: frozenset[TopicPartition] = frozenset()
        # Encoded as Kafka's UUIDs. Members of share groups generate their own ids.
        self.member_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        self.epoch = JOINING
        self._client = client
        self._group_id = group_id
        self._topics = sorted(set(topics))
        self._next_s = 0.0
        self._has_joined = False  # a heartbeat was sent, so the group may have this member
        self._unnamed: Assignment | None = None  # an assignment with topics whose names are unknown yet

    async def heartbeat(self) -> None:
        """Send a heartbeat if it is due; `assigned` are the partitions that the group assigns."""
        if time.monotonic() < self._next_s and self._unnamed is None:
            return
        client = self._client.renewed()
        response = await client.retry(lambda: self._ask(client))
        if response.error_code in _REJOIN:
            self.epoch, self.assigned, self._unnamed = JOINING, frozenset(), None
            response = await client.retry(lambda: self._ask(client))
        check(response.error_code, response.error_message, f"share group {self._group_id}")
        self.epoch = response.member_epoch
        interval_s = min(max(response.heartbeat_interval_ms / 1000, LEAST_HEARTBEAT_S), MAX_HEARTBEAT_S)
        self._next_s = time.monotonic() + interval_s
        if response.assignment is not None:
            self._unnamed = response.assignment
        if self._unnamed is not None:
            await self._take(client, self._unnamed)

    async def _ask(self, client: Client) -> ShareGroupHeartbeatResponse:
        """Send one heartbeat; raise an error unless the member must join again, which the response says."""
        connection = await client.coordinator(self._group_id)
        self._has_joined = True
        request = ShareGroupHeartbeatRequest(
            group_id=self._group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            subscribed_topic_names=self._topics if self.epoch == JOINING else None,
        )
        response = await connection.request(
            request, ShareGroupHeartbeatResponse, timeout_s=client.remaining_s
        )
        if response.error_code not in _REJOIN:
            check(response.error_code, response.error_message, f"share group {self._group_id}")
        return response

    async def _take(self, client: Client, assignment: Assignment) -> None:
        """Set the assignment by topic names; topics that the metadata lack are added by a later heartbeat."""
        known = {topic.topic_id: topic.name for topic in client.topics.values()}
        if any(topic.topic_id not in known for topic in assignment.topic_partitions):
            await client.refresh(self._topics)
            known = {topic.topic_id: topic.name for topic in client.topics.values()}
        partitions = frozenset(
            TopicPartition(known[topic.topic_id], number)
            for topic in assignment.topic_partitions
            if topic.topic_id in known
            for number in topic.partitions
        )
        if len(partitions) > MAX_PARTITIONS:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"share group {self._group_id} assigned over {MAX_PARTITIONS} partitions",
            )
        self.assigned = partitions
        is_complete = all(topic.topic_id in known for topic in assignment.topic_partitions)
        self._unnamed = None if is_complete else assignment

    async def leave(self) -> None:
        """Leave the group, so that the other members get the partitions at once."""
        if not self._has_joined:
            return
        self.epoch, self.assigned = LEAVING, frozenset()
        client = self._client.renewed()

        async def attempt() -> None:
            await self._ask(client)

        await client.retry(attempt)
        self.epoch, self._has_joined = JOINING, False
