"""Up to where a partition's records are safe: the smallest log end offset of the in-sync replicas."""

from collections.abc import Mapping, Sequence


def high_watermark_of(
    *,
    leader_id: int,
    leader_end_offset: int,
    in_sync_replicas: Sequence[int],
    follower_end_offsets: Mapping[int, int],
) -> int:
    """The high watermark that the replicas' positions allow.

    A follower in the ISR that has not fetched yet holds it at 0: a leader that was just elected does not know
    what its followers have, and must not promise it.
    """
    high_watermark = leader_end_offset
    for replica_id in in_sync_replicas:
        if replica_id != leader_id:
            high_watermark = min(high_watermark, follower_end_offsets.get(replica_id, 0))
    return high_watermark
