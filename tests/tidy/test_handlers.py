"""Each handler takes the request of its own API and promises the response of its own API.

mypy holds what a handler returns against what it promises. That it promises what its API answers is tested
here, since the dispatcher finds a handler by the name of its module.
"""

import importlib
import typing

import pytest

from ottla.node.kafka_api.served_apis import SERVED, SERVED_TO_PEERS
from ottla.node.wire import codec
from ottla.node.wire.api_keys import ApiKey
from ottla.node.wire.peer_api import PeerApi

# Handlers that promise nothing yet; none is added here.
UNTYPED = {ApiKey.PRODUCE}


@pytest.mark.parametrize("api", [*SERVED, *SERVED_TO_PEERS], ids=lambda api: api.api_name)
def test_a_handler_takes_and_answers_the_messages_of_its_api(api: ApiKey | PeerApi) -> None:
    annotations = importlib.import_module(f"ottla.node.kafka_api.{api.name.lower()}").handle.__annotations__

    taken, promised = (_messages(annotations[name]) for name in ("request", "return"))

    assert codec.request_class(api) in taken
    assert promised == {codec.response_class(api)} or (api in UNTYPED and not promised)


def _messages(annotation: object) -> set[type]:
    """The classes of messages that a type is made of."""
    parts = typing.get_args(annotation)
    if parts:
        return set().union(*(_messages(part) for part in parts))
    is_message = isinstance(annotation, type) and annotation.__name__.endswith(("Request", "Response"))
    return {annotation} if is_message else set()
