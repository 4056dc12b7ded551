"""The warnings of all commands about nodes that are cut off from the quorum or do not answer.

`client_of` passes both functions to the client of each command, so that no command has to call them.
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
    """Print a warning if the first node that answers is cut off from the leader of the quorum.

    This is the first request of a command: if the node is cut off, its metadata are old, and many waits are
    vain.
    """
    with suppress(KafkaError):  # the command itself reports the error of the same nodes
        connection = await client.any_node()
        if ApiKey.DESCRIBE_CLUSTER not in connection.versions:
            return
        response = await connection.request(
            DescribeClusterRequest(include_contact=True),
            DescribeClusterResponse,
            timeout_s=client.remaining_s,
        )
        if response.cut_off_since_ms >= 0:  # -1 from an older node and from Apache Kafka
            client.note_cut_off(response.cut_off_since_ms)
            print(f"warning: {cut_off_sentence(response.cut_off_since_ms)} {DOCTOR}", file=sys.stderr)


def warn_of_silent_nodes(client: Client) -> None:
    """Print on stderr the nodes that did not answer; if none did, the command itself reports it."""
    if client.has_answered:
        for name, reason in client.silent_nodes.items():
            print(f"warning: {name} does not answer: {reason.detail}", file=sys.stderr)
