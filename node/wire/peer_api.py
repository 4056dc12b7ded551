"""The APIs that nodes of a cluster use among themselves, by number; they are not offered to clients.

They use the listener for connections between brokers, beside Apache Kafka's own APIs, once PEER_HANDSHAKE has
proven that both ends belong to the cluster; ACT_FOR has a proof of its own. Their numbers are far above
Kafka's; their notation is the same.
"""

from enum import IntEnum
from functools import cache
from typing import Final

from ottla.node.wire.api_keys import ApiKey

FIRST_PEER_API: Final = 30_000


class PeerApi(IntEnum):
    """The number of a private API: the first field of a request header (int16)."""

    PEER_HANDSHAKE = 30_000
    SUBMIT_COMMAND = 30_001
    FETCH_METADATA = 30_002
    FETCH_METADATA_SNAPSHOT = 30_003
    DESCRIBE_LAG = 30_004
    ACT_FOR = 30_005
    DESCRIBE_SHARE_PARTITIONS = 30_006

    @property
    def api_name(self) -> str:
        """Return the name in Kafka's spelling: `SubmitCommand`."""
        return "".join(word.capitalize() for word in self.name.split("_"))


def api_of(api_key: int) -> ApiKey | PeerApi:
    """Return the API of that number; ValueError if there is none."""
    return PeerApi(api_key) if api_key >= FIRST_PEER_API else ApiKey(api_key)


@cache
def name_of(api_key: int) -> str:
    """Return the name of the API of that number, in Kafka's spelling; ValueError if there is none."""
    return api_of(api_key).api_name
