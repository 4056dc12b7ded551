"""The description of an API that its module has beside `handle`: versions, rights, limits, errors."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from ottla.logstore.words.schema_compiler import Decoder
from ottla.metadata_raft.acl import AclOperation, ResourceType
from ottla.node.authorization.access import Access
from ottla.node.counters.request_counters import RequestCounters
from ottla.node.kafka_api.request_context import ConnectionInfo, RequestContext
from ottla.node.net.answers import Pending, Result, Run
from ottla.node.services import Services
from ottla.node.wire.request_limits import RequestLimits

# A larger request is decoded and answered off the loop, however few its elements.
SMALL_REQUEST_BYTES: Final = 131_072
ANY_BYTES: Final = sys.maxsize  # for APIs that copy nothing but names


class RepeatedRequests(Protocol):
    """Serves requests of one version that begin like an earlier one, without decoding that part again."""

    def serve(
        self, frame: memoryview, correlation_id: int, connection: ConnectionInfo
    ) -> bytes | Pending | Result[Any]:
        """Return the answer to one request; None if the handler has to answer it."""
        ...

    def serve_run(self, view: memoryview, position: int, end: int, access: Access) -> Run | None:
        """Serve at once the first requests in `view`, starting with the one whose size is at `position`.

        Return None if there are fewer than two of them or if the handler has to answer the first one, for
        example because `access` is not known to allow it.
        """
        ...

    def learn(
        self,
        frame: memoryview,
        body_at: int,
        context: RequestContext,
        request: Any,
        result: Result[Any],
        prefix_bytes: int,
    ) -> None:
        """Remember the beginning of a request that the handler answered with this result."""
        ...


class Echo(NamedTuple):
    """A copy of elements from the request's array `source` into the response's `target`.

    Nested arrays follow after dots. `names` are the fields that both have, or `SOURCE>TARGET`. For an array
    of plain values it is the name of the field that gets the value.
    """

    source: str
    target: str
    names: tuple[str, ...] = ()
    inner: "Echo | None" = None


PARTITIONS: Final = Echo("partitions", "partitions", ("partition_index",))
PARTITION_INDEXES: Final = Echo("partition_indexes", "partitions", ("partition_index",))


class Asks(NamedTuple):
    """The rights that an API requires of a client.

    The dispatcher checks `of_cluster` and rejects the request as a whole; the right `or_of_cluster` is
    sufficient too. The handler checks `by_handler` for the resources that the request names; for some of
    these one of several rights is enough.
    """

    of_cluster: AclOperation | None = None
    by_handler: tuple[tuple[AclOperation, ResourceType], ...] = ()
    or_of_cluster: AclOperation | None = None
    is_for_peers: bool = False  # the client must have proven to be a node of the cluster

    @property
    def one_of_cluster(self) -> tuple[AclOperation, ...]:
        """The rights on the cluster, in the order of the checks; a client needs one of them."""
        return tuple(one for one in (self.of_cluster, self.or_of_cluster) if one is not None)


NOTHING: Final = Asks()
PEERS_ONLY: Final = Asks(is_for_peers=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiDescription:
    """One API as this node serves it.

    `asks` are the rights that a client needs. `versions` are the first and the last version that are served;
    `unstable_version` is the last one if versions that are not final are served too. `decoder_of` wraps the
    decoder of a version in one that reads requests of one shape in its own way; `repeated_of` makes the
    object that serves requests that begin like an earlier one without decoder and handler. `old_ids` are
    fields that may name groups and transactional ids older than their limit.
    """

    versions: tuple[int, int]
    asks: Asks
    limits: RequestLimits
    unstable_version: int | None = None
    old_ids: tuple[str, ...] = ()
    decoder_of: Callable[[int, Decoder[Any]], Decoder[Any]] | None = None
    repeated_of: Callable[[Services, int, RequestCounters], RepeatedRequests] | None = None
    # For an API whose response has no top-level error code in some versions: the elements that get it. Arrays
    # that a version lacks are skipped.
    echoes: Sequence[Echo] = ()
    # Other nodes need it to start, so it is served while clients still wait, and gets `QuorumServices`.
    is_served_early: bool = False
    # If True, a large request stops at its next step when its client has disconnected. It is False for
    # Metadata, which may create topics.
    changes_nothing: bool = False
    small_bytes: int = SMALL_REQUEST_BYTES
    counts_followers: bool = False  # requests of followers are also counted separately, as in Kafka
