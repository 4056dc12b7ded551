"""A fake cluster with one connection, which returns prepared responses and records its requests."""

from collections.abc import Sequence
from typing import Any, cast

from ottla.logstore.words.errors import KafkaError
from ottla.node.client.cluster_client import Client
from ottla.node.client.deadline import Deadline
from ottla.node.net.peer_client import PeerClient
from ottla.node.wire.messages.metadata import MetadataResponse, MetadataResponseBroker


class ScriptedCluster:
    """A cluster that returns its answers one by one; an error among them is raised."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.requests: list[Any] = []

    async def request(self, request: Any, response: type[Any], *, timeout_s: float) -> Any:
        """Return the next answer as a connection does."""
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, KafkaError):
            raise answer
        assert isinstance(answer, response)
        return answer

    def client(self) -> Client:
        """Return a client of this cluster."""
        return cast(Client, _Client(self))


class _Client:
    """The client of a scripted cluster; it retries a retriable error once, without a pause."""

    remaining_s = 5.0
    remaining_ms = 5_000
    deadline = Deadline.after(5.0)

    def __init__(self, cluster: ScriptedCluster) -> None:
        self._cluster = cluster

    async def __aenter__(self) -> "_Client":
        return self

    async def __aexit__(self, *error: object) -> None:
        return None

    async def controller(self) -> PeerClient:
        return cast(PeerClient, self._cluster)

    async def any_node(self) -> PeerClient:
        return cast(PeerClient, self._cluster)

    async def node(self, node_id: int) -> PeerClient:
        return cast(PeerClient, self._cluster)

    async def refresh(self, names: Sequence[str]) -> MetadataResponse:
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=one, host="h", port=one) for one in (0, 1)]
        )

    def until(self, deadline: Deadline) -> "_Client":
        return self

    async def retry(self, attempt: Any) -> Any:
        try:
            return await attempt()
        except KafkaError as error:
            if not error.code.retriable:
                raise
            return await attempt()


def only_request(cluster: ScriptedCluster) -> Any:
    """Return the one request that was sent."""
    requests: Sequence[Any] = cluster.requests
    assert len(requests) == 1
    return requests[0]
