"""Throttles of replication (KIP-73): the rates of brokers, and the topics to which they apply.

A rate without a topic throttles nothing, and neither does a topic without a rate.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from ottla.logstore.words.errors import KafkaError
from ottla.node.client import topic_admin
from ottla.node.client.ask_brokers import ask_brokers
from ottla.node.client.cluster_admin import BROKER_RESOURCE, describe_cluster
from ottla.node.client.cluster_client import Client, check
from ottla.node.client.config_admin import config_of_broker
from ottla.node.client.refusal import Refused, find_broker
from ottla.node.client.topic_admin import ConfigResource, config_of_topic
from ottla.node.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
LOG_DIRS_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
RATES: Final = (LEADER_RATE, FOLLOWER_RATE, LOG_DIRS_RATE)
LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"
EVERY_REPLICA: Final = "*"
UNLIMITED: Final = 2**63 - 1
TOPICS_PER_REQUEST: Final = 500  # the response has a result for each, and is decoded in one turn


class BrokerThrottle(NamedTuple):
    """The limits of a broker in bytes per second, by the names of `RATES`; unlimited rates are left out.

    They limit what it sends to followers, what it fetches itself, and what it copies between its directories.
    """

    broker_id: int
    rates: Mapping[str, int]


class TopicThrottle(NamedTuple):
    """The throttled replicas of a topic, as PARTITION:BROKER, or * for all."""

    topic: str
    leader_replicas: Sequence[str]
    follower_replicas: Sequence[str]


class Throttles(NamedTuple):
    """All throttles; brokers without a limit and topics without a replica are left out."""

    brokers: Sequence[BrokerThrottle]
    topics: Sequence[TopicThrottle]
    problems: Mapping[int, KafkaError] = MappingProxyType({})  # of brokers that did not answer


async def get_throttles(client: Client) -> Throttles:
    """Return the throttles of all brokers that are up, and of all topics."""

    async def ask(client: Client, broker_id: int) -> BrokerThrottle:
        values = await _values_once(client, [config_of_broker(broker_id)], RATES)
        return BrokerThrottle(broker_id, _limits(values.get(str(broker_id), {})))

    answers = await ask_brokers(client, ask)
    brokers = [one for _, one in sorted(answers.found.items())]
    names = [topic.name or "" for topic in await topic_admin.describe_topics(client, None)]
    topics = []
    for begin in range(0, len(names), TOPICS_PER_REQUEST):
        resources = [config_of_topic(name) for name in names[begin : begin + TOPICS_PER_REQUEST]]
        values = await _values(client, resources, [LEADER_REPLICAS, FOLLOWER_REPLICAS])
        topics += [
            TopicThrottle(name, _replicas(lists, LEADER_REPLICAS), _replicas(lists, FOLLOWER_REPLICAS))
            for name, lists in sorted(values.items())
        ]
    return Throttles(
        [one for one in brokers if one.rates],
        [one for one in topics if one.leader_replicas or one.follower_replicas],
        answers.problems,
    )


async def set_throttles(
    client: Client,
    *,
    rates: Mapping[str, int],
    broker_ids: Sequence[int] | None,
    topics: Sequence[str],
) -> None:
    """Limit these brokers (None: all that are up), and apply the limits to all replicas of these topics.

    A rate of `RATES` that is not given stays as it is. Refused for a broker that is fenced or does not exist,
    UNKNOWN_TOPIC_OR_PARTITION for a topic that does not exist; nothing is changed then.
    """
    brokers = (await describe_cluster(client)).brokers
    for broker_id in broker_ids or ():
        if find_broker(brokers, broker_id).is_fenced:
            raise Refused(f"Broker {broker_id} is fenced, so its limits cannot be set; start it first.")
    alive = sorted(one.broker_id for one in brokers if not one.is_fenced)
    await topic_admin.describe_topics(client, list(topics))
    # Safe to interrupt: a topic without a rate has no effect, nor has a rate without a topic.
    for name in topics:
        await _alter(
            client,
            config_of_topic(name),
            {LEADER_REPLICAS: EVERY_REPLICA, FOLLOWER_REPLICAS: EVERY_REPLICA},
            (),
        )
    settings = {name: str(rates[name]) for name in RATES if name in rates}
    for broker_id in alive if broker_ids is None else sorted(set(broker_ids)):
        await _alter(client, config_of_broker(broker_id), settings, ())


async def clear_throttles(client: Client) -> Throttles:
    """Remove all throttles, as after a reassignment; return those that were set."""
    found = await get_throttles(client)
    for error in found.problems.values():
        raise error  # else its limits would stay unnoticed
    for broker in found.brokers:
        await _alter(client, config_of_broker(broker.broker_id), {}, tuple(broker.rates))
    for topic in found.topics:
        await _alter(client, config_of_topic(topic.topic), {}, (LEADER_REPLICAS, FOLLOWER_REPLICAS))
    return found


async def _alter(
    client: Client, resource: ConfigResource, settings: Mapping[str, str], resets: Sequence[str]
) -> None:
    if settings or resets:
        await client.retry(
            lambda: topic_admin.alter_configs(
                client, resource, settings=settings, resets=resets, only_check=False
            )
        )


async def _values(
    client: Client, resources: Iterable[ConfigResource], names: Sequence[str]
) -> dict[str, dict[str, str]]:
    """Return these settings of each resource, retried until the deadline."""
    wanted = list(resources)
    return await client.retry(lambda: _values_once(client, wanted, names))


async def _values_once(
    client: Client, wanted: Sequence[ConfigResource], names: Sequence[str]
) -> dict[str, dict[str, str]]:
    """Return these settings of each resource; a broker is asked for its own, which only it knows."""
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(
                resource_type=one.kind, resource_name=one.name, configuration_keys=list(names)
            )
            for one in wanted
        ]
    )
    is_broker = wanted[0].kind == BROKER_RESOURCE
    connection = await (client.node(int(wanted[0].name)) if is_broker else client.any_node())
    response = await connection.request(request, DescribeConfigsResponse, timeout_s=client.remaining_s)
    for result in response.results:
        check(result.error_code, result.error_message, result.resource_name)
    return {
        result.resource_name: {one.name: one.value or "" for one in result.configs}
        for result in response.results
    }


def _limits(values: Mapping[str, str]) -> dict[str, int]:
    rates = {name: int(text) for name, text in values.items() if text.isdecimal()}
    return {name: rate for name, rate in rates.items() if rate < UNLIMITED}


def _replicas(values: Mapping[str, str], name: str) -> list[str]:
    return [one for one in values.get(name, "").split(",") if one]
