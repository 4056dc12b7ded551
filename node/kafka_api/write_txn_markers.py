"""WriteTxnMarkers: writes the markers of ended transactions to their partitions.

Versions 1 and 2; since 2 the coordinator sends the producer's version of transactions (KIP-1228).
Coordinators send it to leaders, administrators to abort a hanging transaction. The response has no error of
its own, and has a producer once, however many of its markers the request has.
"""

from typing import Final

from ottla.logstore.words.errors import ErrorCode
from ottla.metadata_raft.acl import AclOperation
from ottla.node.coordinators.marker_messages import Codes, from_wire, to_response
from ottla.node.coordinators.marker_writer import PEER_WAIT_MS
from ottla.node.kafka_api.api_description import PARTITION_INDEXES, ApiDescription, Asks, Echo
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.net.answers import BuiltInThread, Delayed, Result
from ottla.node.net.connection_info import NO_PEER
from ottla.node.services import Services
from ottla.node.wire.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from ottla.node.wire.request_limits import MANY_PARTITIONS, TOPIC, RequestLimits
from ottla.node.work.turns import Steps, in_turns

API: Final = ApiDescription(
    versions=(1, 2),
    asks=Asks(of_cluster=AclOperation.ALTER, or_of_cluster=AclOperation.CLUSTER_ACTION),
    limits=RequestLimits(MANY_PARTITIONS, {"markers.topics.name": TOPIC}),
    echoes=(
        Echo("markers", "markers", ("producer_id",), Echo("topics", "topics", ("name",), PARTITION_INDEXES)),
    ),
)


def handle(
    services: Services, context: RequestContext, request: WriteTxnMarkersRequest
) -> Result[WriteTxnMarkersResponse]:
    return in_turns(_answer(services, context, request), is_large=context.is_large)


def _answer(
    services: Services, context: RequestContext, request: WriteTxnMarkersRequest
) -> Steps[Result[WriteTxnMarkersResponse]]:
    markers = yield from from_wire(request)

    def answer(codes: Codes) -> Result[WriteTxnMarkersResponse]:
        if context.is_large:
            return BuiltInThread(lambda: to_response(markers, codes))
        return to_response(markers, codes)

    wait_ms = services.config.request_timeout_ms
    peer_id = context.connection.peer_id
    if peer_id != NO_PEER and request.number >= 0:
        if services.marker_writer.is_late(peer_id, request.sender_epoch, request.number):
            return answer([[ErrorCode.REQUEST_TIMED_OUT] * len(each.partitions) for each in markers])
        wait_ms = min(wait_ms, PEER_WAIT_MS)
    written = yield from services.marker_writer.write(markers, wait_ms)
    if isinstance(written, Delayed):
        settle = written.answer
        return written._replace(answer=lambda outcome: answer(settle(outcome)))
    return answer(written)
