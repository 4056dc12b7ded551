"""A stand-in for a node that has only metadata; handlers can be called on it as the dispatcher calls them."""

import asyncio
import random
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from ottla.logstore.words.schema_compiler import decode, encode
from ottla.metadata_raft.cluster_features import SUPPORTED_FEATURES
from ottla.metadata_raft.commands import BrokerHeartbeat
from ottla.metadata_raft.image import Endpoint
from ottla.metadata_raft.quorum_memory import MemoryQuorum
from ottla.node.authorization.access import ANONYMOUS, Access
from ottla.node.clock import ManualClock
from ottla.node.kafka_api.request_context import ConnectionInfo, RequestContext
from ottla.node.metadata.broker_lifecycle import Registration
from ottla.node.metadata.metadata_publisher import MetadataPublisher, controller_config
from ottla.node.metadata.metadata_runtime import MetadataRuntime
from ottla.node.metadata.producer_ids import ProducerIds
from ottla.node.net.answers import EncodedBody
from ottla.node.security.administrators import Administrators
from ottla.node.settings.config import BrokerConfig, parse_config
from ottla.node.wire import codec
from ottla.node.wire.api_keys import ApiKey
from tests.unit.metadata_raft.metadata_world import EMPTY
from tests.unit.node.handler_results import settled

CONNECTION = ConnectionInfo(
    access=Access(ANONYMOUS, "127.0.0.1"),
    number=1,
    connection_id="test",
    listener_name="PLAINTEXT",
    security_protocol="PLAINTEXT",
    client_host="127.0.0.1",
    client_port=1,
    local_host="127.0.0.1",
    local_port=9092,
)


class Replicas:
    """Stands in for the replica manager, and records the changes that the publisher applies to it."""

    def __init__(self) -> None:
        self.applied: list[Any] = []

    def apply(self, image: Any, changes: Any) -> None:
        self.applied.append(changes)


class MetadataNode:
    """Stands in for the services of a node in handlers."""

    def __init__(self, settings: Mapping[str, str] | None = None, *, by_hand: bool = False) -> None:
        self.config: BrokerConfig = parse_config(settings or {})
        self.unique = random.Random(0).randbytes
        self.has_authorizer = True
        self.cut_off_since_ms: int | None = None
        self.quorum = MemoryQuorum(by_hand=by_hand)
        self.clock = ManualClock()
        self.metadata = MetadataRuntime(
            quorum=self.quorum,
            image=EMPTY,
            config=controller_config(self.config),
            clock=self.clock,
            broker_id=self.config.node_id,
        )
        self.producer_ids = ProducerIds(self.metadata)
        self.administrators = Administrators(list, lambda: False)
        self.replicas = Replicas()
        self.metadata.add_listener(
            MetadataPublisher(config=self.config, replicas=self.replicas, set_config=self._set_config)
        )

    def _set_config(self, config: BrokerConfig) -> None:
        self.config = config
        self.metadata.reconfigure(controller_config(config))

    @property
    def quorum_leader_id(self) -> int:
        return self.metadata.controller_id

    def endpoint_of(self, broker_id: int, connection: ConnectionInfo) -> Endpoint | None:
        broker = self.metadata.image.brokers.get(broker_id)
        return None if broker is None else broker.listeners.get(connection.listener_name)

    async def in_thread(self, work: Callable[[], Any]) -> Any:
        return work()

    async def start(self, incarnation_id: bytes = b"incarnation-id-1") -> None:
        await self.register(incarnation_id)
        await self.unfence()

    async def register(self, incarnation_id: bytes) -> None:
        registration = Registration(
            broker_id=self.config.node_id,
            incarnation_id=incarnation_id,
            listeners={"PLAINTEXT": Endpoint("localhost", 9092)},
            rack="r1",
            log_dirs=[b"directory-id-16-"],
            features=SUPPORTED_FEATURES,
        )
        reply = await self.metadata.submit(registration.command())
        self.metadata.broker_epoch = reply.broker_epoch

    async def unfence(self) -> None:
        await self.metadata.submit(
            BrokerHeartbeat(
                broker_id=self.config.node_id,
                broker_epoch=self.metadata.broker_epoch,
                current_metadata_offset=self.metadata.image.version,
            )
        )

    async def ask(self, version: int, request: Any) -> Any:
        """Return the response to a request; both are encoded and decoded on the way."""
        name = type(request).__name__.removesuffix("Request")
        key = next(key for key in ApiKey if key.api_name == name)
        request = decode(codec.request_class(key), version, encode(request, version))
        context = RequestContext(key, version, 1, "client", CONNECTION)
        module = import_module(f"ottla.node.kafka_api.{key.name.lower()}")
        answer = await settled(module.handle(self, context, request))
        body = b"".join(answer.buffers) if isinstance(answer, EncodedBody) else encode(answer, version)
        return decode(codec.response_class(key), version, body)


def ask(*requests: tuple[int, Any], settings: Mapping[str, str] | None = None) -> list[Any]:
    """Return the responses of a new node to requests (version, request), one after another."""

    async def scene() -> list[Any]:
        node = MetadataNode(settings)
        await node.start()
        return [await node.ask(version, request) for version, request in requests]

    return asyncio.run(scene())
