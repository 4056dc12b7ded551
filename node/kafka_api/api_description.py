"""The description that each API's module has beside `handle`: versions, limits, how a request is refused."""

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

# A request of more bytes is read and answered beside the loop, however few its elements.
SMALL_REQUEST_BYTES: Final = 131_072
ANY_BYTES: Final = sys.maxsize  # where nothing is copied but names


class RepeatedRequests(Protocol):
    """Serves requests of one version that begin like an earlier one, without decoding the same again."""

    def serve(
        self, frame: memoryview, correlation_id: int, connection: ConnectionInfo
    ) -> bytes | Pending | Result[Any]:
        """Return the answer to one request; None where the handler is to answer it."""
        ...

    def serve_run(self, view: memoryview, position: int, end: int, access: Access) -> Run | None:
        """Serve at once the first requests in `view`, from that whose size stands at `position`.

        None where there are not two of them, or the handler is to answer the first, as where `access` is not
        known to allow it.
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
        """Note how a request begins to which the handler gave this result."""
        ...


class Echo(NamedTuple):
    """Elements of the request's array `source` (behind a dot: arrays in it) in the response's `target`.

    `names` are the fields that they share, or `SOURCE>TARGET`. Of an array of plain values, the name of the
    field that becomes the value.
    """

    source: str
    target: str
    names: tuple[str, ...] = ()
    inner: "Echo | None" = None


PARTITIONS: Final = Echo("partitions", "partitions", ("partition_index",))
PARTITION_INDEXES: Final = Echo("partition_indexes", "partitions", ("partition_index",))


class Asks(NamedTuple):
    """The rights that an API asks for before it serves a client.

    `of_cluster` is asked by the dispatcher, which refuses the request as a whole; `or_of_cluster` is as good.
    `by_handler` is asked by the handler, of the resources that the request names; of some of these one is
    enough.
    """

    of_cluster: AclOperation | None = None
    by_handler: tuple[tuple[AclOperation, ResourceType], ...] = ()
    or_of_cluster: AclOperation | None = None
    is_for_peers: bool = False  # asks whether the client has proven to be a node of the cluster

    @property
    def one_of_cluster(self) -> tuple[AclOperation, ...]:
        """The rights on the cluster of which a client needs one, in the order in which they are asked."""
        return tuple(one for one in (self.of_cluster, self.or_of_cluster) if one is not None)


NOTHING: Final = Asks()
PEERS_ONLY: Final = Asks(is_for_peers=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiDescription:
    """One API as this node serves it.

    `asks` are the rights that a client needs. `versions` are the first and the last that are served;
    `unstable_version` is the last one where versions that are not final are served, too. `decoder_of` makes,
    of the decoder of a version, one that reads requests of one shape its own way; `repeated_of` makes what
    serves requests that begin like an earlier one, past decoder and handler. `old_ids` are texts that may
    name what is older than their limit.
    """

    versions: tuple[int, int]
    asks: Asks
    limits: RequestLimits
    unstable_version: int | None = None
    old_ids: tuple[str, ...] = ()
    decoder_of: Callable[[int, Decoder[Any]], Decoder[Any]] | None = None
    repeated_of: Callable[[Services, int, RequestCounters], RepeatedRequests] | None = None
    # Of an API some versions of whose response have no error at the top: the elements that bear it. Of arrays
    # that a version lacks, nothing.
    echoes: Sequence[Echo] = ()
    # Other nodes need it to start, so it is served while clients still wait, and gets `QuorumServices`.
    is_served_early: bool = False
    # So a large request ends at its next step once its client has gone. (Metadata may create topics.)
    changes_nothing: bool = False
    small_bytes: int = SMALL_REQUEST_BYTES
    counts_followers: bool = False  # also apart, as Kafka does
