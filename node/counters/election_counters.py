"""Counts elections of partition leaders, from the metadata, on the controller's node."""

from collections.abc import Callable

from ottla.metadata_raft.delta import MetadataChanges
from ottla.metadata_raft.image import MetadataImage


class ElectionCounters:
    """Elections while this node was the controller, so that the sum over nodes is right."""

    __slots__ = ("_is_controller", "elections", "unclean")

    def __init__(self, is_controller: Callable[[], bool] = lambda: True) -> None:
        self._is_controller = is_controller
        self.elections = 0
        # Those that chose a replica neither in sync nor eligible: records may be lost.
        self.unclean = 0

    def note(self, image: MetadataImage, changes: MetadataChanges) -> None:
        """Count the elections in `changes`, except those of new topics."""
        if not self._is_controller():
            return
        for before, after in changes.topics:
            if before is None or after is None or before.topic_id != after.topic_id:
                continue
            for old, new in zip(before.partitions, after.partitions, strict=False):
                if new is old or new.leader == old.leader or not new.has_leader:
                    continue
                self.elections += 1
                self.unclean += new.leader not in (*old.isr, *old.eligible_leader_replicas)
