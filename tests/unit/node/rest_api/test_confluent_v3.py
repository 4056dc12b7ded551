"""Every operation of Confluent's v3 with its input and output, compared with our OpenAPI document.

The table has the operations of kafka-rest 8.5, and of its schemas the names of all fields with their types.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import pytest

from ottla.node.rest_api.all_routes import ALL_ROUTES
from ottla.node.rest_api.openapi import document
from ottla.node.rest_api.route import JSON

DOCUMENT: Final = document(ALL_ROUTES, version="1")

# Fields of each resource in addition to kind, metadata and cluster_id. `?` may be absent, `~` may be null.
RESOURCES: Final = """
KafkaCluster controller?:link acls:link brokers:link broker_configs:link consumer_groups:link topics:link \
  partition_reassignments:link
KafkaAcl resource_type:string resource_name:string pattern_type:string principal:string host:string \
  operation:string permission:string
KafkaClusterConfig config_type:string CONFIG
KafkaBrokerConfig broker_id:integer CONFIG
KafkaTopicConfig topic_name:string CONFIG
KafkaBroker broker_id:integer host?~:string port?~:integer rack?~:string configs:link partition_replicas:link
KafkaReplica topic_name:string partition_id:integer broker_id:integer is_leader:boolean is_in_sync:boolean \
  broker:link
KafkaConsumerGroup consumer_group_id:string is_simple:boolean partition_assignor:string state:string \
  type:string is_mixed_consumer_group:boolean coordinator:link consumers:link lag_summary:link
KafkaConsumer consumer_group_id:string consumer_id:string instance_id?~:string client_id:string \
  assignments:link
KafkaConsumerGroupLagSummary consumer_group_id:string max_lag_consumer_id:string \
  max_lag_instance_id?~:string max_lag_client_id:string max_lag_topic_name:string \
  max_lag_partition_id:integer max_lag:integer total_lag:integer max_lag_consumer:link max_lag_partition:link
KafkaConsumerLag consumer_group_id:string topic_name:string partition_id:integer current_offset:integer \
  log_end_offset:integer lag:integer consumer_id:string instance_id?~:string client_id:string
KafkaConsumerAssignment consumer_group_id:string consumer_id:string topic_name:string partition_id:integer \
  partition:link lag:link
KafkaTopic topic_name:string is_internal:boolean replication_factor:integer partitions_count:integer \
  partitions:link configs:link partition_reassignments:link authorized_operations?:[string]
KafkaPartition topic_name:string partition_id:integer leader?:link replicas:link reassignment:link
KafkaPartitionWithOffsets topic_name:string partition_id:integer earliest_offset:integer latest_offset:integer
KafkaReassignment topic_name:string partition_id:integer adding_replicas:[integer] \
  removing_replicas:[integer] replicas:link
""".replace(
    "CONFIG\n",
    "name:string value?~:string is_default:boolean is_read_only:boolean is_sensitive:boolean source:string "
    "synonyms:[object]\n",
)
# Method, path below /v3/clusters, status, answer; then `?` with query parameters, `<` with fields of the
# body. `[KafkaX]` is a KafkaXList.
OPERATIONS: Final = """
GET / 200 [KafkaCluster]
GET /{} 200 KafkaCluster
GET /{}/acls 200 [KafkaAcl] ? resource_type resource_name pattern_type principal host operation permission
POST /{}/acls 201 - < resource_type resource_name pattern_type principal host operation permission
POST /{}/acls:batch 201 - < data
DELETE /{}/acls 200 data ? resource_type resource_name pattern_type principal host operation permission
GET /{}/broker-configs 200 [KafkaClusterConfig]
POST /{}/broker-configs:alter 204 - < data validate_only?
GET /{}/broker-configs/{} 200 KafkaClusterConfig
PUT /{}/broker-configs/{} 204 - < value?
DELETE /{}/broker-configs/{} 204 -
GET /{}/brokers 200 [KafkaBroker]
GET /{}/brokers/{} 200 KafkaBroker
GET /{}/brokers/-/configs 200 [KafkaBrokerConfig]
GET /{}/brokers/{}/configs 200 [KafkaBrokerConfig]
POST /{}/brokers/{}/configs:alter 204 - < data validate_only?
GET /{}/brokers/{}/configs/{} 200 KafkaBrokerConfig
PUT /{}/brokers/{}/configs/{} 204 - < value?
DELETE /{}/brokers/{}/configs/{} 204 -
GET /{}/brokers/{}/partition-replicas 200 [KafkaReplica]
GET /{}/consumer-groups 200 [KafkaConsumerGroup]
GET /{}/consumer-groups/{} 200 KafkaConsumerGroup
GET /{}/consumer-groups/{}/consumers 200 [KafkaConsumer]
GET /{}/consumer-groups/{}/consumers/{} 200 KafkaConsumer
GET /{}/consumer-groups/{}/consumers/{}/assignments 200 [KafkaConsumerAssignment]
GET /{}/consumer-groups/{}/consumers/{}/assignments/{}/partitions/{} 200 KafkaConsumerAssignment
GET /{}/consumer-groups/{}/lag-summary 200 KafkaConsumerGroupLagSummary
GET /{}/consumer-groups/{}/lags 200 [KafkaConsumerLag]
GET /{}/consumer-groups/{}/lags/{}/partitions/{} 200 KafkaConsumerLag
GET /{}/topics 200 [KafkaTopic]
POST /{}/topics 201 KafkaTopic < topic_name partitions_count? replication_factor? replicas_assignments? \
  configs? validate_only?
GET /{}/topics/{} 200 KafkaTopic ? include_authorized_operations
PATCH /{}/topics/{} 200 KafkaTopic < partitions_count
DELETE /{}/topics/{} 204 -
GET /{}/topics/-/configs 200 [KafkaTopicConfig]
GET /{}/topics/{}/configs 200 [KafkaTopicConfig]
POST /{}/topics/{}/configs:alter 204 - < data validate_only?
GET /{}/topics/{}/configs/{} 200 KafkaTopicConfig
PUT /{}/topics/{}/configs/{} 204 - < value?
DELETE /{}/topics/{}/configs/{} 204 -
GET /{}/topics/-/partitions/-/reassignment 200 [KafkaReassignment]
GET /{}/topics/{}/partitions 200 [KafkaPartition]
GET /{}/topics/{}/partitions/{} 200 KafkaPartition
GET /{}/topics/{}/partitions/-/reassignment 200 [KafkaReassignment]
GET /{}/topics/{}/partitions/{}/reassignment 200 KafkaReassignment
GET /{}/topics/{}/partitions/{}/offset 200 KafkaPartitionWithOffsets ? offset_type
GET /{}/topics/{}/partitions/{}/replicas 200 [KafkaReplica]
GET /{}/topics/{}/partitions/{}/replicas/{} 200 KafkaReplica
POST /{}/topics/{}/records 200 error_code,message?,cluster_id?,topic_name?,partition_id?,offset?,timestamp?,\
key?,value? < partition_id? headers? key? value? timestamp?
POST /{}/topics/{}/records:batch 207 successes?,failures? < entries
"""
# Only in ours: the type of a setting, and its documentation.
OURS: Final = {"type", "documentation"}
# Required by Confluent's: a group whose coordinator is unknown is shown without one.
MAY_BE_ABSENT: Final = {"coordinator"}


class Operation(NamedTuple):
    """One line of the table."""

    method: str
    path: str
    status: str
    answer: str
    query: list[str]
    body: list[str]

    @property
    def document(self) -> dict[str, Any]:
        """Return this operation from our document."""
        found: dict[str, Any] = PATHS[f"/v3/clusters{self.path.rstrip('/')}"][self.method.lower()]
        return found


PATHS: Final = {re.sub(r"{\w+}", "{}", path): one for path, one in DOCUMENT["paths"].items()}


def operations() -> Iterator[Operation]:
    for line in filter(None, OPERATIONS.splitlines()):
        head, _, body = line.partition(" < ")
        head, _, query = head.partition(" ? ")
        yield Operation(*head.split(), query.split(), body.split())


def resolved(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" not in schema:
        return schema
    found: Mapping[str, Any] = DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return found


def type_of(schema: Mapping[str, Any]) -> str:
    if schema.get("$ref", "").endswith("/Relationship"):
        return "link"
    found = resolved(schema)
    names = found["type"]
    [name] = {names} if isinstance(names, str) else set(names) - {"null"}
    return f"[{type_of(found['items'])}]" if name == "array" else str(name)


def is_null(schema: Mapping[str, Any]) -> bool:
    return "null" in resolved(schema)["type"]


def check_resource(schema: Mapping[str, Any], kind: str) -> None:
    found = resolved(schema)
    fields, required = found["properties"], set(found["required"])
    [line] = [one for one in RESOURCES.splitlines() if one.startswith(f"{kind} ")]
    theirs = dict(one.split(":") for one in line.split()[1:])
    assert fields["kind"]["examples"] == [kind]
    assert {"kind", "metadata", "cluster_id"} <= required
    names = {one.rstrip("?~") for one in theirs} | {"kind", "metadata", "cluster_id"}
    assert names <= set(fields) and set(fields) - names <= OURS
    for name, kind_of_field in theirs.items():
        field = name.rstrip("?~")
        assert type_of(fields[field]) == kind_of_field, field
        assert "?" in name or field in required | MAY_BE_ABSENT, field
        assert "~" in name or not is_null(fields[field]), field


def test_the_table_is_whole() -> None:
    assert len(list(operations())) == 50


@pytest.mark.parametrize("one", list(operations()), ids=lambda one: f"{one.method} {one.path}")
def test_an_operation_gives_and_takes_what_confluents_does(one: Operation) -> None:
    answer = one.document["responses"][one.status]
    schema = answer["content"][JSON]["schema"] if one.answer != "-" else None
    ours = {name["name"] for name in one.document.get("parameters", ()) if name["in"] == "query"}

    if schema is None:
        assert "content" not in answer
    elif one.answer == "data":  # a list without metadata
        assert set(resolved(schema)["properties"]) == {"data"}
    elif one.answer.startswith("["):
        listed, kind = resolved(schema), one.answer.strip("[]")
        assert set(listed["properties"]) == set(listed["required"]) == {"kind", "metadata", "data"}
        assert listed["properties"]["kind"]["examples"] == [f"{kind}List"]
        metadata = resolved(listed["properties"]["metadata"])
        assert set(metadata["properties"]) == {"self", "next"} and is_null(metadata["properties"]["next"])
        check_resource(listed["properties"]["data"]["items"], kind)
    elif one.answer.startswith("Kafka"):
        metadata = resolved(resolved(schema)["properties"]["metadata"])
        assert set(metadata["properties"]) == {"self", "resource_name"}
        check_resource(schema, one.answer)
    else:
        fields = one.answer.split(",")
        assert set(resolved(schema)["properties"]) == {name.rstrip("?") for name in fields}
        assert {name for name in fields if "?" not in name} <= set(resolved(schema)["required"])
    assert set(one.query) <= ours
    if one.body:
        body = resolved(one.document["requestBody"]["content"][JSON]["schema"])
        assert {name.rstrip("?") for name in one.body} == set(body["properties"])
        assert set(body.get("required", ())) <= {name for name in one.body if "?" not in name}
