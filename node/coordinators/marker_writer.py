"""Writes transaction markers into the partitions that this node leads.

A marker is answered when it is committed. A marker in a partition of `__consumer_offsets` goes through the
group coordinator, which commits or drops the offsets of the transaction.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from ottla.groupcoord.group_records import OFFSETS_TOPIC
from ottla.logstore.partition_log import AppendResult
from ottla.logstore.record import ControlType, EndTransactionMarker
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.clock import Clock
from ottla.node.coordinators.group_runtime import GroupRuntime
from ottla.node.coordinators.marker_messages import Codes, MarkedPartition, Marker
from ottla.node.net.answers import Delayed
from ottla.node.replica.delayed_produce import RequiredOffset, later_of
from ottla.node.replica.partition import Partition
from ottla.node.replica.replica_manager import ReplicaManager
from ottla.node.work.turns import Steps

# The longest wait of a peer's request. Markers that are not committed by then fail, and the peer sends them
# again: its other markers must not wait for one partition that is replicated slowly.
PEER_WAIT_MS: Final = 1_000


_COORDINATOR_ERRORS: Final = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
)


class MarkerWriter:
    """Writes markers for the coordinators on this node and on others, and for administrators."""

    def __init__(
        self,
        *,
        replicas: ReplicaManager,
        groups: GroupRuntime,
        is_cut_off: Callable[[], bool],
        clock: Clock,
    ) -> None:
        self._replicas = replicas
        self._groups = groups
        self._is_cut_off = is_cut_off
        self._clock = clock
        self._newest: dict[int, tuple[int, int]] = {}  # peer -> its process and the number of its request

    def is_late(self, peer_id: int, sender_epoch: int, number: int) -> bool:
        """Return True if a request with this number or a newer one came from the sender before: a late copy.

        Otherwise remember this one as the newest. With old clients the next transaction has the same epoch,
        so a late marker would end that one.
        """
        this = (sender_epoch, number)
        if this <= self._newest.get(peer_id, (-1, -1)):
            return True
        self._newest[peer_id] = this
        return False

    def write(self, markers: Sequence[Marker], wait_ms: int) -> Steps[Codes | Delayed[Codes]]:
        """Append the markers in their order, and return a code for each of their partitions, perhaps later.

        A marker that is not committed after `wait_ms` gets REQUEST_TIMED_OUT. It is in the log then, and
        writing it again does no harm.
        """
        places: dict[Partition, RequiredOffset] = {}
        located: list[tuple[int, int, Partition]] = []
        codes: Codes = []
        for marker in markers:
            of_marker: list[ErrorCode] = []
            for named in marker.partitions:
                try:
                    partition, result = self._append(marker, named)
                except KafkaError as error:
                    of_marker.append(error.code)
                else:
                    if partition.log.high_watermark <= result.last_offset:
                        place = RequiredOffset(result.last_offset + 1, partition.leader_epoch)
                        places[partition] = later_of(places.get(partition), place)
                        located.append((len(codes), len(of_marker), partition))
                    of_marker.append(ErrorCode.NONE)
                yield
            codes.append(of_marker)
        if not places:
            return codes

        def settle(outcome: Mapping[Partition, ErrorCode]) -> Codes:
            for number, position, partition in located:
                codes[number][position] = outcome[partition]
            return codes

        return Delayed(self._replicas.delay_produce(places, wait_ms), settle, is_carried_out=True)

    def _append(self, marker: Marker, named: MarkedPartition) -> tuple[Partition, AppendResult]:
        if marker.producer_id < 0 or marker.producer_epoch < 0:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "The marker names no producer.")  # as Kafka says
        if self._is_cut_off():
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "The controller cannot be reached.")
        partition = self._replicas.partition((named.topic, named.partition))
        partition.check_leader(named.leader_epoch)
        control_type = ControlType.COMMIT if marker.is_commit else ControlType.ABORT
        record = EndTransactionMarker(control_type, marker.coordinator_epoch)
        if named.topic == OFFSETS_TOPIC:
            result = self._end_in_groups(named.partition, record, marker)
        else:
            result = partition.append_marker(
                record,
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                transaction_version=marker.transaction_version,
                now_ms=self._clock.now_ms(),
            )
        return partition, result

    def _end_in_groups(self, index: int, record: EndTransactionMarker, marker: Marker) -> AppendResult:
        try:
            return self._groups.end_transaction(
                index,
                record,
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                transaction_version=marker.transaction_version,
            )
        except KafkaError as error:
            if error.code in _COORDINATOR_ERRORS:
                # Transaction coordinators do not expect these errors of groups; after this one they retry.
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, error.detail) from None
            raise
