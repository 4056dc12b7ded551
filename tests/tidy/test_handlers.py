"""The module of each handler has the request, the response and the versions of its API.

mypy checks a handler against its annotations. These tests check the annotations against the API, because the
dispatcher finds a handler by the name of its module.
"""

import typing

import pytest

from ottla.node.kafka_api.served_apis import SERVED, SERVED_TO_PEERS, describe, handler_module, served_by
from ottla.node.services import QuorumServices, Services
from ottla.node.settings.config import parse_config
from ottla.node.wire import codec
from ottla.node.wire.api_keys import ApiKey
from ottla.node.wire.peer_api import PeerApi

ALL: list[ApiKey | PeerApi] = [*SERVED, *SERVED_TO_PEERS]


@pytest.mark.parametrize("api", ALL, ids=lambda api: api.api_name)
def test_a_handler_takes_and_answers_the_messages_of_its_api(api: ApiKey | PeerApi) -> None:
    annotations = handler_module(api).handle.__annotations__

    taken, promised = (_messages(annotations[name]) for name in ("request", "return"))

    assert codec.request_class(api) in taken
    assert promised == {codec.response_class(api)}


@pytest.mark.parametrize("api", ALL, ids=lambda api: api.api_name)
def test_handlers_that_serve_early_take_only_the_services_that_exist_then(api: ApiKey | PeerApi) -> None:
    taken = handler_module(api).handle.__annotations__["services"]

    assert taken is (QuorumServices if describe(api).is_served_early else Services)


def test_the_advertised_versions_are_those_of_the_modules() -> None:
    stable = {api: describe(api).versions for api in ALL}
    of_all = {
        api: (described.versions[0], described.unstable_version or described.versions[1])
        for api in SERVED
        for described in [describe(api)]
    }

    assert stable == {**SERVED, **SERVED_TO_PEERS}
    assert of_all == served_by(parse_config({"unstable.api.versions.enable": "true"}))


def _messages(annotation: object) -> set[type]:
    """Return the classes of messages in an annotation."""
    parts = typing.get_args(annotation)
    if parts:
        return set().union(*(_messages(part) for part in parts))
    is_message = isinstance(annotation, type) and annotation.__name__.endswith(("Request", "Response"))
    return {annotation} if is_message else set()
