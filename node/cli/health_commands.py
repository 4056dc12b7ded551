"""`ottla cluster health` and `ottla cluster info`. Each returns the exit code."""

import sys

from ottla.node.cli.answers import print_json
from ottla.node.cli.failure import DOCTOR, EXIT_FAILURE
from ottla.node.cli.topic_commands import counted, print_table
from ottla.node.client import cluster_admin, topic_admin
from ottla.node.client.cluster_client import Client
from ottla.node.client.cluster_health import cluster_health


async def health(client: Client, as_json: bool) -> int:
    """Print the health of the cluster, and the partitions with problems; return 1 if it is not healthy."""
    async with client:
        found = await cluster_health(client)
    problems = {
        "leaderless": found.leaderless,
        "offline": found.offline,
        "under_min_isr": found.under_min_isr,
        "under_replicated": found.under_replicated,
        "unclean": found.unclean,
    }
    fenced = [one.broker_id for one in found.brokers if one.is_fenced]
    if as_json:
        document = {
            "is_healthy": found.is_healthy,
            "reason": found.reason,
            "controller": found.controller_id if found.controller_id >= 0 else None,
            "brokers": [one.broker_id for one in found.brokers],
            "fenced_brokers": fenced,
            "topics": found.topics,
            "partitions": found.partitions,
            **{name: [one._asdict() for one in some] for name, some in problems.items()},
        }
        print_json(document)
    elif found.is_healthy:
        print(
            f"healthy: {counted(len(found.brokers), 'broker')}, {counted(found.topics, 'topic')}, "
            f"{counted(found.partitions, 'partition')}"
        )
    else:
        print(f"not healthy: {found.reason}")
        rows = [
            (one.topic, one.partition, name.replace("_", " "))
            for name, some in problems.items()
            for one in some
        ]
        if rows:
            print_table(("topic", "partition", "problem"), rows)
        print(f"ottla: {DOCTOR}", file=sys.stderr)
    return 0 if found.is_healthy else EXIT_FAILURE


async def info(client: Client, as_json: bool) -> int:
    """Print the id of the cluster, its controller, its brokers, and the number of topics and partitions."""
    async with client:
        cluster = await cluster_admin.describe_cluster(client)
        topics = await topic_admin.describe_topics(client, None)
    controller = cluster.controller_id if cluster.controller_id >= 0 else None
    brokers = sorted(cluster.brokers, key=lambda one: one.broker_id)
    own = [one for one in topics if not one.is_internal]
    partitions = sum(len(one.partitions) for one in topics)
    document = {
        "cluster_id": cluster.cluster_id,
        "controller": controller,
        "topics": len(own),
        "internal_topics": len(topics) - len(own),
        "partitions": partitions,
        "brokers": [
            {
                "broker": one.broker_id,
                "host": one.host,
                "port": one.port,
                "rack": one.rack,
                "state": "fenced" if one.is_fenced else "active",
            }
            for one in brokers
        ],
    }
    if as_json:
        print_json(document)
        return 0
    print(
        f"cluster {cluster.cluster_id}  controller {'unknown' if controller is None else controller}  "
        f"{counted(len(own), 'topic')}  {counted(len(topics) - len(own), 'internal topic')}  "
        f"{counted(partitions, 'partition')}"
    )
    print_table(
        ("broker", "address", "rack", "state"),
        [
            (one.broker_id, f"{one.host}:{one.port}", one.rack, "fenced" if one.is_fenced else "active")
            for one in brokers
        ],
    )
    return 0
