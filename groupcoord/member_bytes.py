"""Bytes of group members, and their limits: for one shard and for all shards of a node.

A member stays until its session is over, even if its client is gone, and may bring a megabyte of metadata.
Members that come when there is no room get COORDINATOR_NOT_AVAILABLE: their clients look for the coordinator,
try again, and get in when others have left. A large request leaves a quarter of the room to small ones, so
that a few large members do not keep all others out. The last eighth is for small assignments of present
members.
"""

from typing import Final

from ottla.groupcoord.coordinator_config import MAX_MEMBER_BYTES_PER_SHARD
from ottla.groupcoord.shard_bytes import ShardBytes
from ottla.logstore.words.errors import ErrorCode, KafkaError

# A member with its names and timer; also a client that only got a member id, with a group and timer of its
# own.
MEMBER_BYTES: Final = 2_000
NAME_BYTES: Final = 100  # of a subscribed topic, beside its characters, as measured
LITTLE_BYTES: Final = 16_384  # enough for a member of thousands of partitions with an ordinary client


def check_members(members: ShardBytes, more_bytes: int, *, is_member: bool = False) -> None:
    """Raise COORDINATOR_NOT_AVAILABLE if members may not take `more_bytes` more.

    `is_member` is True for bytes of members that are in their group already.
    """
    if more_bytes <= 0:
        return
    eighths = 6 if more_bytes > LITTLE_BYTES else 8 if is_member else 7
    if members.total + more_bytes > MAX_MEMBER_BYTES_PER_SHARD * eighths // 8:
        raise KafkaError(
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            "the members of the groups in this partition of __consumer_offsets take too much memory: use "
            "fewer members or topics, or another group id",
        )
    if not members.fits(more_bytes, eighths=eighths):
        raise KafkaError(
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            "the members of all groups use all the memory that the broker reserves for them: raise its "
            "ottla.memory.max.bytes, or use fewer members",
        )
