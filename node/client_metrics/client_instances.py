"""The clients that push metrics: when each may request its subscription and push, and its series (KIP-714).

The rules and numbers are those of Kafka's ClientMetricsManager. A client is removed after a silence of three
of its intervals, at least a minute. Beyond `MAX_INSTANCES`, or the memory for them, the address with the most
clients loses the one that was silent for longest. After the connection of a client has ended, it may request
and push at once again, and the series that it pushed before stay. Pure: time is an argument.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ottla.logstore.compression import Compression
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import ZERO_UUID, uuid_to_text
from ottla.node.client_metrics.otlp_reader import Buckets
from ottla.node.client_metrics.pushed_series import PushedSeries, SeriesKey, SeriesPoint
from ottla.node.client_metrics.subscriptions import Subscriptions, Wanted
from ottla.node.net.connection_info import ConnectionInfo
from ottla.node.settings.client_metrics_config_def import (
    CLIENT_ID,
    CLIENT_INSTANCE_ID,
    SOFTWARE_NAME,
    SOFTWARE_VERSION,
    SOURCE_ADDRESS,
    SOURCE_PORT,
)
from ottla.node.work.turns import Steps

MAX_INSTANCES: Final = 16_384
MIN_EXPIRY_MS: Final = 60_000
INTERVALS_UNTIL_EXPIRY: Final = 3
SWEEP_EVERY_MS: Final = 10_000
ACCEPTED_COMPRESSIONS: Final = (Compression.ZSTD, Compression.LZ4, Compression.GZIP, Compression.SNAPPY)
_KNOWN_COMPRESSIONS: Final = frozenset(Compression)
_INSTANCE_BYTES: Final = 1_500
_RESERVED: Final = frozenset({ZERO_UUID, (1).to_bytes(16)})
_NEVER: Final = -(1 << 62)
POINTS_PER_STEP: Final = 16  # some 50 us
# One address has at most one part in this many of the series, and of the memory for them.
ADDRESS_SHARE: Final = 2


class _Used(NamedTuple):
    """A number of series and their memory."""

    series: int
    bytes: int


_NOTHING: Final = _Used(0, 0)


class ClientReading(NamedTuple):
    """The metrics that a client pushed last."""

    client_instance_id: str
    client_id: str
    series: Sequence[tuple[SeriesKey, float | Buckets]]


@dataclass(slots=True, kw_only=True)
class ClientInstance:
    """One client: its properties, its subscription, and the times of its last requests."""

    instance_id: bytes
    client: Mapping[str, str | None]  # by the names that the setting `match` allows
    connection_number: int
    wanted: Wanted
    version: int  # of the subscriptions
    series: PushedSeries
    expires_ms: int = 0
    last_get_ms: int = _NEVER
    last_push_ms: int = _NEVER
    last_error: ErrorCode = ErrorCode.NONE
    is_terminating: bool = False


# The result of a push in the counts, by the error of its response.
_RESULTS: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.NONE: "accepted",
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: "throttled",
    ErrorCode.UNKNOWN_SUBSCRIPTION_ID: "unknown subscription",
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: "unsupported compression",
    ErrorCode.TELEMETRY_TOO_LARGE: "too large",
    ErrorCode.INVALID_RECORD: "invalid",
}
PUSH_RESULTS: Final = (*_RESULTS.values(), "rejected")


@dataclass(slots=True)
class PushCounts:
    """The pushes by result, and the points left out by reason, since the node started."""

    pushes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(PUSH_RESULTS, 0))
    left_out: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("unsupported or too many", "no room"), 0)
    )


class ClientInstances:
    """All clients that have requested or pushed, and at most `max_series` series of them.

    Half of `max_bytes` is for the clients, half for the series. `is_open` returns True if the connection with
    this number is open; `unique` returns unpredictable bytes.
    """

    def __init__(
        self,
        *,
        max_bytes: int,
        max_series: Callable[[], int],
        is_open: Callable[[int], bool],
        unique: Callable[[int], bytes],
    ) -> None:
        self.subscriptions = Subscriptions()
        self.counts = PushCounts()
        self._max_bytes = max_bytes
        self._max_series = max_series
        self._is_open = is_open
        self._unique = unique
        self._by_id: dict[bytes, ClientInstance] = {}
        self._ids: dict[str, OrderedDict[bytes, None]] = {}  # by address, silent for longest first
        self._all = _NOTHING
        self._by_address: dict[str, _Used] = {}
        self._next_sweep_ms = 0

    def __len__(self) -> int:
        return len(self._by_id)

    @property
    def used_bytes(self) -> int:
        return self._all.bytes + len(self._by_id) * _INSTANCE_BYTES

    @property
    def series_count(self) -> int:
        return self._all.series

    # ---- asking and pushing ----------------------------------------------------------------------

    def get_subscriptions(
        self, instance_id: bytes, connection: ConnectionInfo, client_id: str | None, now_ms: int
    ) -> ClientInstance:
        """Return the client with its subscription; THROTTLING_QUOTA_EXCEEDED if it requests it too soon."""
        if instance_id == ZERO_UUID:
            instance_id = self._new_id()
        instance = self._instance(instance_id, connection, client_id, now_ms)
        since_ms = now_ms - max(instance.last_get_ms, instance.last_push_ms)
        if since_ms >= instance.wanted.interval_ms:
            instance.last_get_ms = now_ms
        elif instance.last_error not in (
            ErrorCode.UNKNOWN_SUBSCRIPTION_ID,
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ):
            raise _too_soon(instance_id)
        instance.last_error = ErrorCode.NONE
        return instance

    def check_push(
        self,
        instance_id: bytes,
        connection: ConnectionInfo,
        client_id: str | None,
        now_ms: int,
        *,
        subscription_id: int,
        is_terminating: bool,
        compression: int,
        size_bytes: int,
        max_bytes: int,
    ) -> None:
        """Raise the error of a push that must be rejected; its metrics are not read yet."""
        if instance_id in _RESERVED:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Invalid request from the client [{uuid_to_text(instance_id)}], invalid client instance id",
            )
        instance = self._instance(instance_id, connection, client_id, now_ms)
        try:
            _check_push(instance, now_ms, subscription_id, is_terminating=is_terminating)
            if compression not in _KNOWN_COMPRESSIONS:
                raise KafkaError(
                    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Unknown compression type {compression}."
                )
            if size_bytes > max_bytes:
                raise KafkaError(
                    ErrorCode.TELEMETRY_TOO_LARGE,
                    f"{size_bytes} bytes of metrics are more than telemetry.max.bytes, {max_bytes}.",
                )
        except KafkaError as error:
            instance.last_error = error.code
            raise
        finally:
            instance.is_terminating = is_terminating

    def note_result(self, instance_id: bytes, code: ErrorCode) -> None:
        """Record the error code of the response to a push."""
        self.counts.pushes[_RESULTS.get(code, "rejected")] += 1
        instance = self._by_id.get(instance_id)
        if instance is not None:
            instance.last_error = code

    def keep(self, instance_id: bytes, points: Sequence[SeriesPoint], left_out: int) -> Steps[None]:
        """Update the client's series with these points as far as there is room; count those left out."""
        self.counts.left_out["unsupported or too many"] += left_out
        for start in range(0, len(points), POINTS_PER_STEP):
            yield
            instance = self._by_id.get(instance_id)
            if instance is None:  # removed meanwhile
                return
            most, most_bytes = self._max_series(), self._max_bytes // 2
            used = self._by_address.get(_address_of(instance), _NOTHING)
            room = min(most - self._all.series, most // ADDRESS_SHARE - used.series)
            room_bytes = min(most_bytes - self._all.bytes, most_bytes // ADDRESS_SHARE - used.bytes)
            with self._counted(instance) as series:
                self.counts.left_out["no room"] += series.put_all(
                    points[start : start + POINTS_PER_STEP],
                    max_series=len(series) + max(0, room),
                    max_bytes=series.used_bytes + max(0, room_bytes),
                )
        instance = self._by_id.get(instance_id)
        if instance is not None:
            with self._counted(instance) as series:
                series.end_push()

    # ---- reading ---------------------------------------------------------------------------------

    def read(self, now_ms: int) -> Iterator[ClientReading | None]:
        """Yield the last values of each client, or None for a client without series."""
        self._sweep(now_ms)
        for instance in list(self._by_id.values()):
            if not len(instance.series):
                yield None
                continue
            yield ClientReading(
                uuid_to_text(instance.instance_id),
                instance.client[CLIENT_ID] or "",
                instance.series.snapshot(),
            )

    # ---- instances -------------------------------------------------------------------------------

    def _new_id(self) -> bytes:
        """Return a random UUID (RFC 9562, version 4) that no client has."""
        while True:
            drawn = bytearray(self._unique(16))
            drawn[6] = drawn[6] & 0x0F | 0x40
            drawn[8] = drawn[8] & 0x3F | 0x80
            found = bytes(drawn)
            if found not in self._by_id and not uuid_to_text(found).startswith("-"):  # no option of a tool
                return found

    def _instance(
        self, instance_id: bytes, connection: ConnectionInfo, client_id: str | None, now_ms: int
    ) -> ClientInstance:
        if now_ms >= self._next_sweep_ms:
            self._sweep(now_ms)
        known = self._by_id.get(instance_id)
        if known is not None and known.expires_ms <= now_ms:
            self._remove(instance_id)
            known = None
        if known is None or not self._is_open(known.connection_number):
            client, number = _client(instance_id, connection, client_id), connection.number
            found = self._begin(instance_id, client, number, known)
        elif known.version != self.subscriptions.version:
            found = self._begin(instance_id, known.client, known.connection_number, known)
        else:
            found = known
        found.expires_ms = now_ms + max(MIN_EXPIRY_MS, INTERVALS_UNTIL_EXPIRY * found.wanted.interval_ms)
        self._ids[_address_of(found)].move_to_end(instance_id)
        while len(self._by_id) > 1 and (
            len(self._by_id) > MAX_INSTANCES or len(self._by_id) * _INSTANCE_BYTES > self._max_bytes // 2
        ):
            # An address that invents clients displaces its own ones.
            own = _address_of(found)
            address = max(self._ids, key=lambda one: (len(self._ids[one]), one != own))
            self._remove(next(iter(self._ids[address])))
        return found

    def _begin(
        self,
        instance_id: bytes,
        client: Mapping[str, str | None],
        connection_number: int,
        before: ClientInstance | None,
    ) -> ClientInstance:
        """Register a client, or reset a known one: it may request and push at once, and keeps its series."""
        series = PushedSeries()
        if before is not None:
            series = before.series
            self._remove(instance_id)
        self._by_id[instance_id] = begun = ClientInstance(
            instance_id=instance_id,
            client=client,
            connection_number=connection_number,
            wanted=self.subscriptions.wanted_of(instance_id, client),
            version=self.subscriptions.version,
            series=series,
        )
        self._ids.setdefault(_address_of(begun), OrderedDict())[instance_id] = None
        self._count(_address_of(begun), len(series), series.used_bytes)
        return begun

    def _sweep(self, now_ms: int) -> None:
        """Remove the clients that were silent for too long."""
        self._next_sweep_ms = now_ms + SWEEP_EVERY_MS
        for instance_id in [key for key, one in self._by_id.items() if one.expires_ms <= now_ms]:
            self._remove(instance_id)

    def _remove(self, instance_id: bytes) -> None:
        gone = self._by_id.pop(instance_id)
        address = _address_of(gone)
        del self._ids[address][instance_id]
        if not self._ids[address]:
            del self._ids[address]
        self._count(address, -len(gone.series), -gone.series.used_bytes)

    @contextmanager
    def _counted(self, instance: ClientInstance) -> Iterator[PushedSeries]:
        """Yield the series of a client for changes, and update the totals afterwards."""
        series = instance.series
        count, used_bytes = len(series), series.used_bytes
        yield series
        self._count(_address_of(instance), len(series) - count, series.used_bytes - used_bytes)

    def _count(self, address: str, series: int, used_bytes: int) -> None:
        if not series:
            return
        self._all = _Used(self._all.series + series, self._all.bytes + used_bytes)
        before = self._by_address.get(address, _NOTHING)
        left = _Used(before.series + series, before.bytes + used_bytes)
        if left.series:
            self._by_address[address] = left
        else:
            del self._by_address[address]


def _address_of(instance: ClientInstance) -> str:
    return instance.client[SOURCE_ADDRESS] or ""


def _check_push(instance: ClientInstance, now_ms: int, subscription_id: int, *, is_terminating: bool) -> None:
    name = uuid_to_text(instance.instance_id)
    if instance.is_terminating:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Client [{name}] sent the previous request with state terminating to TRUE, can not accept any "
            "requests after that",
        )
    # A push after a request of the subscription is never too soon: clients delay the first push randomly.
    is_due = (
        instance.last_get_ms > instance.last_push_ms
        or now_ms - instance.last_push_ms >= instance.wanted.interval_ms
    )
    if is_due:
        instance.last_push_ms = now_ms
    elif not is_terminating:
        raise _too_soon(instance.instance_id)
    if subscription_id != instance.wanted.subscription_id:
        raise KafkaError(
            ErrorCode.UNKNOWN_SUBSCRIPTION_ID, f"Unknown client subscription id for the client [{name}]"
        )


def _client(instance_id: bytes, connection: ConnectionInfo, client_id: str | None) -> dict[str, str | None]:
    return {
        CLIENT_INSTANCE_ID: uuid_to_text(instance_id),
        CLIENT_ID: client_id,
        SOFTWARE_NAME: connection.software_name or None,
        SOFTWARE_VERSION: connection.software_version or None,
        SOURCE_ADDRESS: connection.client_host,
        SOURCE_PORT: str(connection.client_port),
    }


def _too_soon(instance_id: bytes) -> KafkaError:
    return KafkaError(
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        f"Request from the client [{uuid_to_text(instance_id)}] arrived before the next push interval time",
    )
