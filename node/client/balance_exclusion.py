"""The lists of brokers that a balance empties, or gives no leaders."""

from ottla.node.client import cluster_admin
from ottla.node.client.cluster_client import Client
from ottla.node.client.config_admin import (
    SUBTRACT,
    ConfigChange,
    change_config,
    config_of_all_brokers,
    config_of_broker,
    describe_resources,
)


async def change_exclusion(client: Client, setting: str, broker_id: int, operation: int) -> None:
    """Add a broker to a list (APPEND), or remove it (SUBTRACT).

    Nothing happens in a cluster that has no such setting, as Apache Kafka.
    """
    cluster = await cluster_admin.describe_cluster(client)
    up = config_of_broker(min(one.broker_id for one in cluster.brokers if not one.is_fenced))
    found = {one.name: one.value or "" for one in (await describe_resources(client, [up]))[up]}
    is_listed = str(broker_id) in found.get(setting, "").split(",")
    if setting in found and is_listed == (operation == SUBTRACT):
        await change_config(
            client, config_of_all_brokers(), [ConfigChange(setting, operation, str(broker_id))]
        )
