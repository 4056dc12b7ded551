"""The warning of commands that show what a node knows: it may be cut off from the metadata quorum."""

import sys
from contextlib import suppress

from logstore.errors import KafkaError
from node.client.cluster_admin import describe_cluster
from node.client.cluster_client import Client
from node.client.quorum_silence import cut_off_sentence


async def warn_if_cut_off(client: Client) -> None:
    """Say on stderr that what is shown is old, if the node that answered hears no leader of the quorum."""
    with suppress(KafkaError):  # what it was asked for before has been answered
        since_ms = (await describe_cluster(client)).cut_off_since_ms
        if since_ms >= 0:
            print(f"warning: {cut_off_sentence(since_ms)}", file=sys.stderr)
