"""The changes of the cluster in requests and their responses, for the audit log.

The table has a line for each API that changes the cluster itself; the records, groups and transactions of
ordinary clients are not changes. Of settings and quotas the names are logged, never the values, and of users
only the name and the mechanism.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.logstore.words.errors import ErrorCode
from ottla.logstore.words.topic_partition import uuid_to_text
from ottla.metadata_raft.acl import AclOperation, AclPermissionType, PatternType, word
from ottla.metadata_raft.records import ConfigResourceType
from ottla.metadata_raft.scram import ScramMechanism
from ottla.node.audit.audit_event import CLUSTER, GROUP, RESOURCE_WORDS, TOPIC
from ottla.node.net.answers import EncodedBody
from ottla.node.wire.api_keys import ApiKey

if TYPE_CHECKING:  # messages are loaded when they are first needed
    from ottla.node.kafka_api.packed_commit import PackedCommit
    from ottla.node.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
    from ottla.node.wire.messages.alter_client_quotas import (
        AlterClientQuotasRequest,
        AlterClientQuotasResponse,
    )
    from ottla.node.wire.messages.alter_partition_reassignments import (
        AlterPartitionReassignmentsRequest,
        AlterPartitionReassignmentsResponse,
    )
    from ottla.node.wire.messages.alter_replica_log_dirs import (
        AlterReplicaLogDirsRequest,
        AlterReplicaLogDirsResponse,
    )
    from ottla.node.wire.messages.alter_share_group_offsets import (
        AlterShareGroupOffsetsRequest,
        AlterShareGroupOffsetsResponse,
    )
    from ottla.node.wire.messages.alter_user_scram_credentials import (
        AlterUserScramCredentialsRequest,
        AlterUserScramCredentialsResponse,
    )
    from ottla.node.wire.messages.create_acls import CreateAclsRequest, CreateAclsResponse
    from ottla.node.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
    from ottla.node.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
    from ottla.node.wire.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
    from ottla.node.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
    from ottla.node.wire.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
    from ottla.node.wire.messages.delete_share_group_offsets import (
        DeleteShareGroupOffsetsRequest,
        DeleteShareGroupOffsetsResponse,
    )
    from ottla.node.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
    from ottla.node.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
    from ottla.node.wire.messages.incremental_alter_configs import (
        IncrementalAlterConfigsRequest,
        IncrementalAlterConfigsResponse,
    )
    from ottla.node.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
    from ottla.node.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
    from ottla.node.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
    from ottla.node.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
    from ottla.node.wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
    from ottla.node.wire.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse

DEFAULT_NAME: Final = "<default>"  # the entity that stands for all others, in the notation of Kafka's tools
MAX_NAMES: Final = 50  # in a detail
# Partitions of a topic or a group searched for the first error: a turn must be short.
MAX_LOOKED_AT: Final = 4_096
_CONFIG_WORDS: Final = {
    ConfigResourceType.TOPIC: TOPIC,
    ConfigResourceType.BROKER: "Broker",
    ConfigResourceType.BROKER_LOGGER: "BrokerLogger",
    ConfigResourceType.GROUP: GROUP,
    ConfigResourceType.CLIENT_METRICS: "ClientMetrics",
}


class ChangeOutcome(NamedTuple):
    """A requested change with its error code, 0 if it was made."""

    resource_type: str
    resource_name: str
    error_code: int
    detail: str = ""


def _names(names: Iterable[str]) -> str:
    return ", ".join(islice(dict.fromkeys(names), MAX_NAMES))


def _first_error(codes: Iterable[int]) -> int:
    return next((code for code in islice(codes, MAX_LOOKED_AT) if code), 0)


def _created_topics(
    request: "CreateTopicsRequest", response: "CreateTopicsResponse"
) -> Iterator[ChangeOutcome]:
    for topic in response.topics if not request.validate_only else ():
        yield ChangeOutcome(TOPIC, topic.name, topic.error_code)


def _deleted_topics(
    request: "DeleteTopicsRequest", response: "DeleteTopicsResponse"
) -> Iterator[ChangeOutcome]:
    for topic in response.responses:
        name = topic.name if topic.name is not None else uuid_to_text(topic.topic_id)
        yield ChangeOutcome(TOPIC, name, topic.error_code)


def _created_partitions(
    request: "CreatePartitionsRequest", response: "CreatePartitionsResponse"
) -> Iterator[ChangeOutcome]:
    counts = {topic.name: topic.count for topic in request.topics}
    for topic in response.results if not request.validate_only else ():
        yield ChangeOutcome(TOPIC, topic.name, topic.error_code, f"{counts.get(topic.name, 0)} partitions")


def _deleted_records(
    request: "DeleteRecordsRequest", response: "DeleteRecordsResponse"
) -> Iterator[ChangeOutcome]:
    for topic in response.topics:
        yield ChangeOutcome(TOPIC, topic.name, _first_error(one.error_code for one in topic.partitions))


def _altered_configs(
    request: "IncrementalAlterConfigsRequest", response: "IncrementalAlterConfigsResponse"
) -> Iterator[ChangeOutcome]:
    if request.validate_only:
        return
    requested = {(one.resource_type, one.resource_name): one.configs for one in request.resources}
    for result in response.responses:
        number, name = result.resource_type, result.resource_name
        kind = next((text for one, text in _CONFIG_WORDS.items() if one == number), "Unknown")
        names = _names(config.name for config in requested.get((number, name), ()))
        yield ChangeOutcome(kind, name or DEFAULT_NAME, result.error_code, names)


def _created_acls(request: "CreateAclsRequest", response: "CreateAclsResponse") -> Iterator[ChangeOutcome]:
    for entry, result in zip(request.creations, response.results, strict=False):
        yield _acl_change(
            entry.resource_type,
            entry.resource_name,
            result.error_code,
            entry.resource_pattern_type,
            entry.principal,
            entry.host,
            entry.operation,
            entry.permission_type,
        )


def _deleted_acls(request: "DeleteAclsRequest", response: "DeleteAclsResponse") -> Iterator[ChangeOutcome]:
    for result in response.filter_results:
        if result.error_code:
            yield ChangeOutcome(CLUSTER, "", result.error_code)
        for entry in result.matching_acls:
            yield _acl_change(
                entry.resource_type,
                entry.resource_name,
                entry.error_code,
                entry.pattern_type,
                entry.principal,
                entry.host,
                entry.operation,
                entry.permission_type,
            )


def _acl_change(
    resource_type: int,
    name: str,
    error_code: int,
    pattern_type: int,
    principal: str,
    host: str,
    operation: int,
    permission: int,
) -> ChangeOutcome:
    kind = next((text for one, text in RESOURCE_WORDS.items() if one == resource_type), "Unknown")
    detail = (
        f"{word(AclPermissionType, permission)} {principal} from {host} the operation "
        f"{word(AclOperation, operation)} on the {word(PatternType, pattern_type)} name"
    )
    return ChangeOutcome(kind, name, error_code, detail)


def _altered_quotas(
    request: "AlterClientQuotasRequest", response: "AlterClientQuotasResponse"
) -> Iterator[ChangeOutcome]:
    pairs = zip(request.entries, response.entries, strict=False) if not request.validate_only else ()
    for entry, result in pairs:
        entity = ",".join(
            f"{one.entity_type}={DEFAULT_NAME if one.entity_name is None else one.entity_name}"
            for one in entry.entity
        )
        keys = _names(f"{one.key} removed" if one.remove else one.key for one in entry.ops)
        yield ChangeOutcome("ClientQuota", entity, result.error_code, keys)


def _altered_users(
    request: "AlterUserScramCredentialsRequest", response: "AlterUserScramCredentialsResponse"
) -> Iterator[ChangeOutcome]:
    requested: dict[str, list[str]] = {}
    for deletion in request.deletions:
        requested.setdefault(deletion.name, []).append(f"{_mechanism(deletion.mechanism)} removed")
    for upsertion in request.upsertions:
        requested.setdefault(upsertion.name, []).append(f"{_mechanism(upsertion.mechanism)} set")
    for result in response.results:
        yield ChangeOutcome("User", result.user, result.error_code, _names(requested.get(result.user, ())))


def _mechanism(number: int) -> str:
    return next(
        (one.name.replace("_", "-") for one in ScramMechanism if one.value == number), "unknown mechanism"
    )


def _reassigned(
    request: "AlterPartitionReassignmentsRequest", response: "AlterPartitionReassignmentsResponse"
) -> Iterator[ChangeOutcome]:
    for topic in response.responses:
        code = response.error_code or _first_error(one.error_code for one in topic.partitions)
        yield ChangeOutcome(
            TOPIC, topic.name, code, _partitions(one.partition_index for one in topic.partitions)
        )
    if response.error_code and not response.responses:
        yield ChangeOutcome(CLUSTER, "", response.error_code)


def _partitions(numbers: Iterable[int]) -> str:
    return f"partitions {_names(str(one) for one in numbers)}"


def _moved_in_node(
    request: "AlterReplicaLogDirsRequest", response: "AlterReplicaLogDirsResponse"
) -> Iterator[ChangeOutcome]:
    for topic in response.results:
        code = _first_error(one.error_code for one in topic.partitions)
        numbers = _partitions(one.partition_index for one in topic.partitions)
        yield ChangeOutcome(TOPIC, topic.topic_name, code, numbers)


def _elected(request: "ElectLeadersRequest", response: "ElectLeadersResponse") -> Iterator[ChangeOutcome]:
    kind = "unclean election" if request.election_type else "preferred leaders"
    if response.error_code and not response.replica_election_results:
        yield ChangeOutcome(CLUSTER, "", response.error_code, kind)
    for topic in response.replica_election_results:
        for one in topic.partition_result:
            code = response.error_code or one.error_code
            # Nothing had to be done, so nothing has changed.
            if code != ErrorCode.ELECTION_NOT_NEEDED:
                yield ChangeOutcome(TOPIC, topic.topic, code, f"{kind}, partitions {one.partition_id}")


def _updated_features(
    request: "UpdateFeaturesRequest", response: "UpdateFeaturesResponse"
) -> Iterator[ChangeOutcome]:
    codes = {one.feature: one.error_code for one in response.results}
    for update in request.feature_updates if not request.validate_only else ():
        code = codes.get(update.feature, 0) or response.error_code
        yield ChangeOutcome("Feature", update.feature, code, f"level {update.max_version_level}")


def _added_voter(request: "AddRaftVoterRequest", response: "AddRaftVoterResponse") -> Iterator[ChangeOutcome]:
    yield ChangeOutcome("Voter", str(request.voter_id), response.error_code)


def _removed_voter(
    request: "RemoveRaftVoterRequest", response: "RemoveRaftVoterResponse"
) -> Iterator[ChangeOutcome]:
    yield ChangeOutcome("Voter", str(request.voter_id), response.error_code)


def _unregistered_broker(
    request: "UnregisterBrokerRequest", response: "UnregisterBrokerResponse"
) -> Iterator[ChangeOutcome]:
    yield ChangeOutcome("Broker", str(request.broker_id), response.error_code)


def _deleted_groups(
    request: "DeleteGroupsRequest", response: "DeleteGroupsResponse"
) -> Iterator[ChangeOutcome]:
    for group in response.results:
        yield ChangeOutcome(GROUP, group.group_id, group.error_code)
    # The client did not wait for the response.
    for group_id in request.groups_names if not response.results else ():
        yield ChangeOutcome(GROUP, group_id, 0)


def _deleted_offsets(
    request: "OffsetDeleteRequest", response: "OffsetDeleteResponse"
) -> Iterator[ChangeOutcome]:
    codes = (one.error_code for topic in response.topics for one in topic.partitions)
    code = response.error_code or _first_error(codes)
    yield ChangeOutcome(GROUP, request.group_id, code, _names(topic.name for topic in request.topics))


def _altered_share_offsets(
    request: "AlterShareGroupOffsetsRequest", response: "AlterShareGroupOffsetsResponse"
) -> Iterator[ChangeOutcome]:
    codes = (one.error_code for topic in response.responses for one in topic.partitions)
    code = response.error_code or _first_error(codes)
    yield ChangeOutcome(GROUP, request.group_id, code, _names(topic.topic_name for topic in request.topics))


def _deleted_share_offsets(
    request: "DeleteShareGroupOffsetsRequest", response: "DeleteShareGroupOffsetsResponse"
) -> Iterator[ChangeOutcome]:
    code = response.error_code or _first_error(topic.error_code for topic in response.responses)
    yield ChangeOutcome(GROUP, request.group_id, code, _names(topic.topic_name for topic in request.topics))


def _reset_offsets(
    request: "OffsetCommitRequest | PackedCommit", response: "OffsetCommitResponse | EncodedBody"
) -> Iterator[ChangeOutcome]:
    """Yield the commit of a client that is not a member of the group: tools reset offsets this way."""
    if not _is_of_outsider(request):
        return
    if isinstance(response, EncodedBody):
        code = response.error_code
    else:
        code = _first_error(one.error_code for topic in response.topics for one in topic.partitions)
    yield ChangeOutcome(GROUP, request.group_id, code)


def _is_of_outsider(request: "OffsetCommitRequest | PackedCommit") -> bool:
    return not request.member_id and request.generation_id_or_member_epoch < 0


def _wrote_markers(
    request: "WriteTxnMarkersRequest", response: "WriteTxnMarkersResponse"
) -> Iterator[ChangeOutcome]:
    for marker in response.markers:
        for topic in marker.topics:
            code = _first_error(one.error_code for one in topic.partitions)
            yield ChangeOutcome(TOPIC, topic.name, code, f"markers of producer {marker.producer_id}")
    for one in request.markers if not response.markers else ():  # the client did not wait for the response
        for named in one.topics:
            yield ChangeOutcome(TOPIC, named.name, 0, f"markers of producer {one.producer_id}")


# Takes a request and its response, both of the API's own classes.
Changes = Callable[..., Iterator[ChangeOutcome]]

CHANGES: Final[Mapping[int, Changes]] = {
    ApiKey.CREATE_TOPICS: _created_topics,
    ApiKey.DELETE_TOPICS: _deleted_topics,
    ApiKey.CREATE_PARTITIONS: _created_partitions,
    ApiKey.DELETE_RECORDS: _deleted_records,
    ApiKey.ALTER_CONFIGS: _altered_configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _altered_configs,
    ApiKey.CREATE_ACLS: _created_acls,
    ApiKey.DELETE_ACLS: _deleted_acls,
    ApiKey.ALTER_CLIENT_QUOTAS: _altered_quotas,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _altered_users,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _reassigned,
    ApiKey.ALTER_REPLICA_LOG_DIRS: _moved_in_node,
    ApiKey.ELECT_LEADERS: _elected,
    ApiKey.UPDATE_FEATURES: _updated_features,
    ApiKey.ADD_RAFT_VOTER: _added_voter,
    ApiKey.REMOVE_RAFT_VOTER: _removed_voter,
    ApiKey.UNREGISTER_BROKER: _unregistered_broker,
    ApiKey.DELETE_GROUPS: _deleted_groups,
    ApiKey.OFFSET_DELETE: _deleted_offsets,
    ApiKey.OFFSET_COMMIT: _reset_offsets,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: _altered_share_offsets,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: _deleted_share_offsets,
    ApiKey.WRITE_TXN_MARKERS: _wrote_markers,
}

# For APIs that ordinary clients use: returns True if the request may be an administrator's. Other requests
# are not logged, and these only if the log of changes is enabled.
MAY_BE_CHANGES: Final[Mapping[int, Callable[..., bool]]] = {ApiKey.OFFSET_COMMIT: _is_of_outsider}
