"""Topics as an administrator sees them: created, grown, and their settings read and changed.

Each function asks about many topics at once and returns the outcome or the error of each. Retriable errors
are retried; a repeated request may find the work of the first one done, so TOPIC_ALREADY_EXISTS and
INVALID_PARTITIONS may be the outcome for a topic whose first answer was lost.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, TypeVar

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ottla.node.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.node.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from ottla.node.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.pipeline.client.answers import to_error
from ottla.pipeline.client.metadata import Cluster
from ottla.pipeline.client.retries import is_retriable

R = TypeVar("R")

CLUSTER_DEFAULT: Final = -1  # for the number of partitions and of replicas (KIP-464)
# A topic has some forty settings, described in 20 kB: this many make an answer of a few megabytes.
MAX_TOPICS_PER_REQUEST: Final = 200
_TOPIC: Final = 2  # the type of a resource


class ConfigSource(IntEnum):
    """The origin of a setting's value; numbers of newer servers count as UNKNOWN."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to be created."""

    name: str
    partitions_count: int = CLUSTER_DEFAULT
    replication_factor: int = CLUSTER_DEFAULT
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """The value of one setting of a topic; None if it has none, or must not be shown."""

    value: str | None
    source: ConfigSource
    is_read_only: bool
    is_sensitive: bool


def create_topics(cluster: Cluster, topics: Sequence[NewTopic]) -> dict[str, KafkaError | None]:
    """Create topics; return the error of each by name, or None if it was created."""
    wanted = {topic.name: topic for topic in topics}

    def request_part(names: Sequence[str]) -> dict[str, KafkaError | None]:
        request = CreateTopicsRequest(
            topics=[_creatable(wanted[name]) for name in names],
            timeout_ms=cluster.settings.request_timeout_ms,
        )
        response: CreateTopicsResponse = cluster.connections.to_any().request(request)
        return {
            one.name: _outcome(one.error_code, f"creating topic {one.name}", one.error_message)
            for one in response.topics
        }

    made = _request_in_parts(cluster, [*wanted], request_part)
    for name in wanted:
        cluster.forget_topic(name)
    return made


def create_partitions(cluster: Cluster, counts: Mapping[str, int]) -> dict[str, KafkaError | None]:
    """Raise topics to these numbers of partitions; return the error of each by name, or None on success."""

    def request_part(names: Sequence[str]) -> dict[str, KafkaError | None]:
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=name, count=counts[name], assignments=None) for name in names],
            timeout_ms=cluster.settings.request_timeout_ms,
        )
        response: CreatePartitionsResponse = cluster.connections.to_any().request(request)
        return {
            one.name: _outcome(one.error_code, f"adding partitions to topic {one.name}", one.error_message)
            for one in response.results
        }

    grown = _request_in_parts(cluster, [*counts], request_part)
    for name in counts:
        cluster.forget_topic(name)
    return grown


def describe_configs(cluster: Cluster, topics: Sequence[str]) -> dict[str, dict[str, TopicConfig]]:
    """Return the settings of each topic by their names; topics that do not exist are absent."""

    def request_part(names: Sequence[str]) -> dict[str, dict[str, TopicConfig] | KafkaError]:
        resources = [
            DescribeConfigsResource(resource_type=_TOPIC, resource_name=name, configuration_keys=None)
            for name in names
        ]
        request = DescribeConfigsRequest(resources=resources)
        response: DescribeConfigsResponse = cluster.connections.to_any().request(request)
        return {one.resource_name: _configs(one) for one in response.results}

    found: dict[str, dict[str, TopicConfig]] = {}
    for name, outcome in _request_in_parts(cluster, topics, request_part).items():
        if not isinstance(outcome, KafkaError):
            found[name] = outcome
        elif outcome.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise outcome
    return found


def alter_configs(
    cluster: Cluster, changes: Mapping[str, Mapping[str, str | None]]
) -> dict[str, KafkaError | None]:
    """Set settings of topics, or with None remove them so that the cluster's value applies; others stay.

    Returns the error of each topic, or None if all of its changes were made.
    """

    def request_part(names: Sequence[str]) -> dict[str, KafkaError | None]:
        request = IncrementalAlterConfigsRequest(
            resources=[_alteration(name, changes[name]) for name in names]
        )
        response: IncrementalAlterConfigsResponse = cluster.connections.to_any().request(request)
        return {
            one.resource_name: _outcome(
                one.error_code, f"changing settings of topic {one.resource_name}", one.error_message
            )
            for one in response.responses
        }

    return _request_in_parts(cluster, [*changes], request_part)


# ---- requests and answers -------------------------------------------------------------------------


def _request_in_parts(
    cluster: Cluster,
    names: Sequence[str],
    request_part: Callable[[Sequence[str]], Mapping[str, R | KafkaError]],
) -> dict[str, R | KafkaError]:
    """Return the result of `request_part` for each name, in requests of bounded size; retries errors."""
    found: dict[str, R | KafkaError] = {}
    for start in range(0, len(names), MAX_TOPICS_PER_REQUEST):
        part = names[start : start + MAX_TOPICS_PER_REQUEST]

        def attempt(part: Sequence[str] = part) -> None:
            left = [name for name in part if name not in found]
            answers = request_part(left)
            problem: KafkaError | None = None
            for name in left:
                outcome: R | KafkaError = (
                    answers[name]
                    if name in answers
                    else KafkaError(ErrorCode.INVALID_REQUEST, f"the response does not contain topic {name}")
                )
                if isinstance(outcome, KafkaError) and _is_transient(outcome):
                    problem = outcome
                else:
                    found[name] = outcome
            if problem is not None:
                raise problem

        cluster.retry(attempt)
    return found


def _is_transient(error: KafkaError) -> bool:
    # The controller was asked, whose metadata is the newest: an unknown topic does not exist.
    return is_retriable(error) and error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _outcome(error_code: int, subject: str, message: str | None) -> KafkaError | None:
    return to_error(error_code, subject, message) if error_code else None


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions_count,
        replication_factor=topic.replication_factor,
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()],
    )


def _configs(result: DescribeConfigsResult) -> dict[str, TopicConfig] | KafkaError:
    if result.error_code:
        return to_error(result.error_code, f"settings of topic {result.resource_name}", result.error_message)
    known = {source.value for source in ConfigSource}
    return {
        one.name: TopicConfig(
            value=one.value,
            source=ConfigSource(one.config_source) if one.config_source in known else ConfigSource.UNKNOWN,
            is_read_only=one.read_only,
            is_sensitive=one.is_sensitive,
        )
        for one in result.configs
    }


def _alteration(topic: str, changes: Mapping[str, str | None]) -> AlterConfigsResource:
    to_set, to_delete = 0, 1
    return AlterConfigsResource(
        resource_type=_TOPIC,
        resource_name=topic,
        configs=[
            AlterableConfig(name=name, config_operation=to_delete if value is None else to_set, value=value)
            for name, value in changes.items()
        ],
    )
