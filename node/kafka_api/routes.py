"""The routes: decoder, handler and encoder of each version of an API, put together when first needed."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from ottla.logstore.words.errors import KafkaError
from ottla.logstore.words.schema import schema_of
from ottla.logstore.words.schema_compiler import Decoder, Encoder, check_version, encoder
from ottla.metadata_raft.acl import AclOperation
from ottla.node.counters.request_counters import AllRequestCounters, RequestCounters
from ottla.node.kafka_api.api_description import ApiDescription, RepeatedRequests
from ottla.node.kafka_api.changes import CHANGES, MAY_BE_CHANGES, Changes
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.kafka_api.request_decoders import limited_decoder
from ottla.node.kafka_api.served_apis import (
    PROOFS,
    Served,
    describe,
    handler_module,
    is_advertised,
    is_served,
)
from ottla.node.net.answers import CloseConnection, Result
from ottla.node.services import QuorumServices, Services
from ottla.node.wire import codec
from ottla.node.wire.peer_api import api_of

# It takes `Services` or `QuorumServices`; the request and the response are of its API.
Handler: TypeAlias = Callable[[Any, RequestContext, Any], Result[Any]]

FOLLOWERS_FETCH = "FetchFollower"  # Kafka counts these separately


class Route(NamedTuple):
    """The decoder, handler and encoder of one version of one API."""

    decode: Decoder[Any]
    encode: Encoder[Any]
    handle: Handler
    services: Any  # `QuorumServices` for APIs that are served early, otherwise `Services`
    response_class: type
    header_version: int  # of the request
    repeated: RepeatedRequests | None  # for Produce: serves requests that need not be decoded again
    prefix_bytes: int  # in the response: size, correlation id and, in flexible headers, the empty tag section
    has_error_code: bool  # a response may be an error as a whole
    counters: RequestCounters
    follower_counters: RequestCounters | None  # for Fetch: requests of followers, which both counters count
    small_bytes: int  # a larger request is decoded and answered off the loop
    description: ApiDescription
    of_cluster: tuple[AclOperation, ...]  # the rights on the cluster; a client needs one of them
    changes: Changes | None  # the changes of the cluster for the audit log
    may_be_change: Callable[..., bool] | None  # for an API that ordinary clients use


def make_route(
    api_key: int,
    version: int,
    *,
    served: Served,
    quorum_services: QuorumServices | None,
    services: Services | None,
    counters: AllRequestCounters,
) -> Route:
    """Return the route of a version of an API; raise CloseConnection if it is not served."""
    if not is_served(api_key):
        raise CloseConnection(f"API key {api_key} is not supported")
    key = api_of(api_key)
    request_class, response_class = codec.request_class(key), codec.response_class(key)
    if not is_advertised(served, key, version):
        raise CloseConnection(f"version {version} of {key.api_name} is not supported")
    try:
        check_version(request_class, version)
        decode, encode = limited_decoder(key, version), encoder(response_class, version)
    except KafkaError:
        raise CloseConnection(f"version {version} of {key.api_name} is not supported") from None
    described = describe(key)
    if described.decoder_of is not None:
        decode = described.decoder_of(version, decode)
    handle: Handler = _no_handler if key in PROOFS else handler_module(key).handle
    given = quorum_services if described.is_served_early else services
    repeated = None
    if described.repeated_of is not None:
        assert services is not None, "clients wait until the services exist"
        repeated = described.repeated_of(services, version, counters.of(key.api_name, version))
    fields = schema_of(response_class).plain_fields(version)
    return Route(
        decode=decode,
        encode=encode,
        handle=handle,
        services=given,
        response_class=response_class,
        header_version=codec.request_header_version(key, version),
        repeated=repeated,
        prefix_bytes=8 + (codec.response_header_version(key, version) >= 1),
        has_error_code=any(field.name == "error_code" for field in fields),
        counters=counters.of(key.api_name, version),
        follower_counters=(counters.of(FOLLOWERS_FETCH, version) if described.counts_followers else None),
        small_bytes=described.small_bytes,
        description=described,
        of_cluster=described.asks.one_of_cluster,
        changes=CHANGES.get(api_key),
        may_be_change=MAY_BE_CHANGES.get(api_key),
    )


def _no_handler(services: object, context: RequestContext, request: Any) -> Result[Any]:
    raise AssertionError("the dispatcher itself answers the proofs of nodes")
