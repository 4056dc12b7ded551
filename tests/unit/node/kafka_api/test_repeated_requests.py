"""Any API may serve requests that begin like an earlier one without its handler."""

import struct
from dataclasses import replace
from typing import Any

import pytest

from ottla.node.kafka_api import routes
from ottla.node.kafka_api.served_apis import describe
from ottla.node.net.answers import Run
from ottla.node.wire import codec
from ottla.node.wire.api_keys import ApiKey
from ottla.node.wire.messages.api_versions import ApiVersionsRequest
from tests.unit.node.fakes import connection_of
from tests.unit.node.kafka_api.serving import dispatcher_of
from tests.unit.node.replica.replica_world import CONNECTION, ReplicaWorld

PEER = connection_of(CONNECTION)


class FromMemory:
    """Answers every request but the first of a version from memory."""

    def __init__(self, services: object, version: int, counters: object) -> None:
        self.learned: list[Any] = []

    def serve(self, frame: memoryview, correlation_id: int, connection: object) -> bytes | None:
        return b"as before" if self.learned else None

    def serve_run(self, view: memoryview, position: int, end: int, access: object) -> Run | None:
        return Run(end, 2, [b"both as before"]) if self.learned else None

    def learn(
        self,
        frame: memoryview,
        body_at: int,
        context: object,
        request: Any,
        result: object,
        prefix_bytes: int,
    ) -> None:
        self.learned.append((bytes(frame[body_at:]), request, result))


def test_an_api_may_serve_requests_that_begin_like_an_earlier_one_without_its_handler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def described(api: Any) -> Any:
        found = describe(api)
        return replace(found, repeated_of=FromMemory) if api is ApiKey.API_VERSIONS else found

    monkeypatch.setattr(routes, "describe", described)
    world = ReplicaWorld()
    world.supported_features = {}  # type: ignore[attr-defined]
    dispatcher = dispatcher_of(world)
    named = ApiVersionsRequest(client_software_name="test", client_software_version="1.0")
    request_frame = memoryview(b"".join(codec.encode_request(ApiKey.API_VERSIONS, 3, 7, "test", named))[4:])
    two = memoryview((struct.pack(">i", len(request_frame)) + bytes(request_frame)) * 2)
    assert dispatcher.serve_run(PEER, two, 0, len(two)) is None

    first = dispatcher.serve(PEER, request_frame)

    assert first != [b"as before"]
    assert dispatcher.serve(PEER, request_frame) == [b"as before"]
    assert dispatcher.serve_run(PEER, two, 0, len(two)) == Run(len(two), 2, [b"both as before"])
    repeated: Any = dispatcher.routes[ApiKey.API_VERSIONS, 3].repeated
    ((body, request, _),) = repeated.learned
    assert request_frame[-len(body) :] == body and request.client_software_name == "test"
