"""When leaders are elected without that anybody asks: soft state of the controller.

Every `leader.imbalance.check.interval.seconds` leadership goes back to preferred replicas, if
`auto.leader.rebalance.enable` is on; every `unclean.leader.election.interval.ms`, and when settings change,
partitions that nobody leads get a leader where their topic allows an unclean election.
"""

from itertools import islice

from ottla.metadata_raft.controller_config import ControllerConfig
from ottla.metadata_raft.election_control import MAX_ELECTIONS_AT_ONCE, preferred_elections, unclean_elections
from ottla.metadata_raft.image import MetadataImage
from ottla.metadata_raft.records import MetadataRecord


class DueElections:
    """The next time of each. Changed by its controller alone."""

    def __init__(self) -> None:
        self.begin(0)

    def begin(self, now_ms: int) -> None:
        """A reign begins: partitions without a leader are looked for at once, the rest has time."""
        self._unclean_at_ms = now_ms
        self._balanced_at_ms = now_ms

    def settings_changed(self) -> None:
        """A topic may allow an unclean election now."""
        self._unclean_at_ms = 0

    def due(self, image: MetadataImage, config: ControllerConfig, now_ms: int) -> list[MetadataRecord]:
        """The elections that are due; while there are more, the next call has them."""
        records: list[MetadataRecord] = []
        if now_ms >= self._unclean_at_ms:
            records = list(islice(unclean_elections(image, config), MAX_ELECTIONS_AT_ONCE))
            if len(records) < MAX_ELECTIONS_AT_ONCE:
                self._unclean_at_ms = now_ms + config.unclean_leader_election_interval_ms
        interval_ms = config.leader_imbalance_check_interval_seconds * 1_000
        is_time = config.auto_leader_rebalance_enable and now_ms >= self._balanced_at_ms + interval_ms
        if is_time and not records:
            records = list(islice(preferred_elections(image), MAX_ELECTIONS_AT_ONCE))
            if len(records) < MAX_ELECTIONS_AT_ONCE:
                self._balanced_at_ms = now_ms
        return records
