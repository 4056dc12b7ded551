"""The lists of brokers that a balance empties, or gives no leaders."""

from ottla.node.client import cluster_admin
from ottla.node.client.cluster_client import Client
from ottla.node.client.config_admin import (
    DELETE,
    SUBTRACT,
    ConfigChange,
    change_config,
    config_of_all_brokers,
    config_of_broker,
    describe_resources,
)
from ottla.node.client.refusal import Refused


async def settings_of_first_broker(client: Client) -> dict[str, str]:
    """Return the settings of the first broker that is up, by id; Refused if all are fenced."""
    cluster = await cluster_admin.describe_cluster(client)
    alive = [one.broker_id for one in cluster.brokers if not one.is_fenced]
    if not alive:
        raise Refused("All brokers are fenced: start one, or wait until one has started.")
    resource = config_of_broker(min(alive))
    found = await describe_resources(client, [resource])
    return {one.name: one.value or "" for one in found[resource]}


async def change_exclusion(client: Client, setting: str, broker_id: int, operation: int) -> None:
    """Add a broker to a list (APPEND), or remove it (SUBTRACT).

    Nothing happens in a cluster that has no such setting, as Apache Kafka.
    """
    found = await settings_of_first_broker(client)
    listed = {one for one in found.get(setting, "").split(",") if one}
    if setting not in found or (str(broker_id) in listed) != (operation == SUBTRACT):
        return
    change = ConfigChange(setting, operation, str(broker_id))
    if operation == SUBTRACT and listed == {str(broker_id)}:
        change = ConfigChange(setting, DELETE)  # an empty list would stay among the settings
    await change_config(client, config_of_all_brokers(), [change])
