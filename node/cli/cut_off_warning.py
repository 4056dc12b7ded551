"""The warnings of every command about the nodes it speaks to: one that is cut off, those that are silent.

`client_of` gives both functions to the client of each command, so that no command has to think of them.
"""

import sys
from contextlib import suppress

from ottla.logstore.words.errors import KafkaError
from ottla.node.cli.failure import DOCTOR
from ottla.node.client.cluster_client import Client
from ottla.node.client.quorum_silence import cut_off_sentence
from ottla.node.wire.api_keys import ApiKey
from ottla.node.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse


async def warn_if_cut_off(client: Client) -> None:
    """Ask the first node that answers since when it hears no leader of the quorum, and say so on stderr.

    It is the first question of a command: what is shown is old then, and much is not worth waiting for.
    """
    with suppress(KafkaError):  # the command asks the same nodes next, and says what is wrong
        connection = await client.any_node()
        if ApiKey.DESCRIBE_CLUSTER not in connection.versions:
            return
        response = await connection.request(
            DescribeClusterRequest(include_contact=True),
            DescribeClusterResponse,
            timeout_s=client.remaining_s,
        )
        if response.cut_off_since_ms >= 0:  # an older node and Apache Kafka tell nothing
            client.note_cut_off(response.cut_off_since_ms)
            print(f"warning: {cut_off_sentence(response.cut_off_since_ms)} {DOCTOR}", file=sys.stderr)


def warn_of_silent_nodes(client: Client) -> None:
    """Name on stderr the nodes that did not answer, unless none did: then the command itself says so."""
    if client.has_answered:
        for name, reason in client.silent_nodes.items():
            print(f"warning: {name} does not answer: {reason.detail}", file=sys.stderr)
