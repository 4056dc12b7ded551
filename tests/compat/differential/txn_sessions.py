"""Sessions of transactions: producers send requests in a fixed order; their responses and the log are kept.

As in `group_sessions`, a session is a plain function of a `TxnSession` and runs against both servers, with
requests of several ages. Producer ids become names in the order in which they were given out; times are left
out. The number of CONCURRENT_TRANSACTIONS responses while markers are being written is a race: such requests
are sent again, and only the last response counts.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from ottla.groupcoord.transactions.transaction import Transaction
from ottla.groupcoord.transactions.transaction_records import decode_key, decode_value
from ottla.logstore.record import build_batch, iterate_records, marker_of_batch
from ottla.logstore.record_batch import iterate_headers
from ottla.node.coordinators.key_partition import partition_for
from tests.compat.wire_client import WireClient, eventually, only

TRANSACTIONS_TOPIC: Final = "__transaction_state"
TRANSACTIONS_PARTITIONS: Final = 50
FETCH_VERSION: Final = 12  # the last one that names topics
TIMEOUT_S: Final = 60.0
TIMEOUT_MS: Final = 60_000
# BEGINS: the coordinator is loading or moving. PASSES also has the codes while a leader waits for the
# coordinator (19), and while markers are being written (51).
BEGINS: Final = {14, 15, 16}
PASSES: Final = BEGINS | {19, 51}
AT_REST: Final = {"Empty", "CompleteCommit", "CompleteAbort"}

# An age names the request versions that clients of that time send together; the last one has
# transaction.version 2.
VERSIONS: Final[dict[str, dict[str, int]]] = {
    "old": {"init_producer_id": 1, "add_partitions_to_txn": 0, "add_offsets_to_txn": 0, "end_txn": 1}
    | {"txn_offset_commit": 2, "produce": 7},
    "middle": {"init_producer_id": 3, "add_partitions_to_txn": 2, "add_offsets_to_txn": 2, "end_txn": 2}
    | {"txn_offset_commit": 3, "produce": 9},
    "new": {"init_producer_id": 5, "add_partitions_to_txn": 3, "add_offsets_to_txn": 4, "end_txn": 4}
    | {"txn_offset_commit": 4, "produce": 11},
    "v2": {"init_producer_id": 5, "add_partitions_to_txn": 3, "add_offsets_to_txn": 4, "end_txn": 5}
    | {"txn_offset_commit": 5, "produce": 12},
}
EVERY_AGE: Final = tuple(VERSIONS)

Script = Callable[["TxnSession"], None]


class Pair(NamedTuple):
    producer_id: int
    epoch: int

    def moved(self, by: int) -> "Pair":
        return Pair(self.producer_id, self.epoch + by)


@dataclass(slots=True)
class TxnSession:
    """One server's side of a session: an id, its producers by name, and the responses so far."""

    bootstrap: str
    name: str  # of the transactional id, and of a group
    topic: str  # of three partitions
    age: str
    answers: list[tuple[str, Any]] = field(default_factory=list)
    pairs: dict[str, Pair] = field(default_factory=dict)
    _names: dict[int, str] = field(default_factory=dict)
    _sequences: dict[tuple[Pair, int], int] = field(default_factory=dict)
    _begins: dict[int, int] = field(default_factory=dict)
    _clients: dict[str, WireClient] = field(default_factory=dict)

    @property
    def moves_epoch(self) -> bool:
        return self.age == "v2"

    def client(self, client_name: str) -> WireClient:
        if client_name not in self._clients:
            self._clients[client_name] = WireClient(self.bootstrap, client_id=client_name)
        return self._clients[client_name]

    def close(self) -> None:
        for client in self._clients.values():
            client.close()

    def note(self, label: str, value: Any) -> None:
        self.answers.append((label, value))

    def call(self, client_name: str, api: str, codes: Callable[[Any], Sequence[int]], **fields: Any) -> Any:
        """Send a request until the response has no transient error."""
        version = VERSIONS[self.age].get(api, 0)
        return eventually(
            lambda: self.client(client_name).call(api, version, **fields),
            lambda found: not PASSES & set(codes(found)),
            TIMEOUT_S,
        )

    def named(self, producer_id: int) -> str:
        """Return the name of a producer id: p0, p1, ... in the order of their appearance; -1 stays."""
        if producer_id < 0:
            return str(producer_id)
        return self._names.setdefault(producer_id, f"p{len(self._names)}")

    # ---- requests --------------------------------------------------------------------------------

    def init(
        self,
        client_name: str,
        *,
        expected: Pair | None = None,
        transactional_id: str | None = None,
        **fields: Any,
    ) -> Any:
        request: dict[str, Any] = {
            "transactional_id": self.name if transactional_id is None else transactional_id,
            "transaction_timeout_ms": TIMEOUT_MS,
        }
        if expected is not None:
            request |= {"producer_id": expected.producer_id, "producer_epoch": expected.epoch}
        found = self.call(
            client_name, "init_producer_id", lambda one: [one.error_code], **{**request, **fields}
        )
        if not found.error_code:
            self.pairs[client_name] = Pair(found.producer_id, found.producer_epoch)
        self.note(
            f"{client_name}: init", (found.error_code, self.named(found.producer_id), found.producer_epoch)
        )
        return found

    def add(
        self,
        client_name: str,
        *partitions: int,
        pair: Pair | None = None,
        topic: str = "",
        name: str | None = None,
    ) -> None:
        """Send AddPartitionsToTxn, also in the protocol in which clients add partitions by writing."""
        producer_id, epoch = pair or self.pairs[client_name]
        request = {
            "v3_and_below_transactional_id": self.name if name is None else name,
            "v3_and_below_producer_id": producer_id,
            "v3_and_below_producer_epoch": epoch,
            "v3_and_below_topics": [{"name": topic or self.topic, "partitions": list(partitions)}],
        }

        def codes(found: Any) -> list[int]:
            return [
                one.partition_error_code
                for each in found.results_by_topic_v3_and_below
                for one in each.results_by_partition
            ]

        found = self.call(client_name, "add_partitions_to_txn", codes, **request)
        self.note(f"{client_name}: add {partitions}", sorted(codes(found)))

    def begin(self, client_name: str, *partitions: int) -> None:
        """Add the partitions where the protocol requires it, and write to each."""
        if not self.moves_epoch:
            self.add(client_name, *partitions)
        for partition in partitions:
            self.produce(client_name, partition)

    def produce(
        self,
        client_name: str,
        partition: int,
        *,
        pair: Pair | None = None,
        sequence: int | None = None,
        is_transactional: bool = True,
        named: bool = True,
    ) -> None:
        """Write two records; the sequence continues unless it is given."""
        self._note_begin(partition)
        pair = pair or self.pairs[client_name]
        following = self._sequences.get((pair, partition), 0)
        first = following if sequence is None else sequence
        batch = build_batch(
            [(None, b"value", int(time.time() * 1000), ())] * 2,
            producer_id=pair.producer_id,
            producer_epoch=pair.epoch,
            base_sequence=first,
            is_transactional=is_transactional,
        )
        request = {
            "transactional_id": self.name if named else None,
            "acks": -1,
            "timeout_ms": 30_000,
            "topic_data": [
                {"name": self.topic, "partition_data": [{"index": partition, "records": bytes(batch)}]}
            ],
        }

        def codes(found: Any) -> list[int]:
            return [only(only(found.responses).partition_responses).error_code]

        found = self.call(client_name, "produce", codes, **request)
        if codes(found) == [0]:
            self._sequences[pair, partition] = first + 2
        self.note(f"{client_name}: produce {partition}", codes(found))

    def end(
        self,
        client_name: str,
        *,
        commits: bool,
        pair: Pair | None = None,
        name: str | None = None,
        settles: bool = True,
    ) -> Any:
        producer_id, epoch = pair or self.pairs[client_name]
        request = {
            "transactional_id": self.name if name is None else name,
            "producer_id": producer_id,
            "producer_epoch": epoch,
            "committed": commits,
        }
        found = self.call(client_name, "end_txn", lambda one: [one.error_code], **request)
        state = (found.error_code, self.named(found.producer_id), found.producer_epoch)
        if not found.error_code and self.moves_epoch and pair is None:
            self.pairs[client_name] = Pair(found.producer_id, found.producer_epoch)
        self.note(
            f"{client_name}: {'commit' if commits else 'abort'}", state if self.moves_epoch else state[0]
        )
        if settles:
            self.settle()
        return found

    def commit(self, client_name: str, **options: Any) -> Any:
        return self.end(client_name, commits=True, **options)

    def abort(self, client_name: str, **options: Any) -> Any:
        return self.end(client_name, commits=False, **options)

    def add_offsets(self, client_name: str, *, pair: Pair | None = None, group: str | None = None) -> None:
        producer_id, epoch = pair or self.pairs[client_name]
        request = {
            "transactional_id": self.name,
            "producer_id": producer_id,
            "producer_epoch": epoch,
            "group_id": self.name if group is None else group,
        }
        found = self.call(client_name, "add_offsets_to_txn", lambda one: [one.error_code], **request)
        self.note(f"{client_name}: add offsets", found.error_code)

    def send_offset(
        self,
        client_name: str,
        offset: int,
        *,
        pair: Pair | None = None,
        group: str | None = None,
        **fields: Any,
    ) -> None:
        """Send TxnOffsetCommit for partition 0."""
        producer_id, epoch = pair or self.pairs[client_name]
        one = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
        request = {
            "transactional_id": self.name,
            "group_id": self.name if group is None else group,
            "producer_id": producer_id,
            "producer_epoch": epoch,
            "topics": [{"name": self.topic, "partitions": [one]}],
            **fields,
        }

        def codes(found: Any) -> list[int]:
            return [only(only(found.topics).partitions).error_code]

        found = self.call(client_name, "txn_offset_commit", codes, **request)
        self.note(f"{client_name}: offset {offset}", codes(found))

    def fetch_offset(self, *, stable: bool) -> None:
        """Fetch the offset of partition 0.

        A stable offset is known only when the marker is written, so the request is repeated until then.
        """
        wanted = [{"name": self.topic, "partition_indexes": [0]}]
        group = {"group_id": self.name, "topics": wanted}
        found = eventually(
            lambda: only(
                self.client("admin").call("offset_fetch", 8, groups=[group], require_stable=stable).groups
            ),
            lambda one: not BEGINS & {one.error_code},
            TIMEOUT_S,
        )
        if found.error_code:
            self.note("admin: offsets", found.error_code)
        else:
            one = only(only(found.topics).partitions)
            self.note("admin: offset", (one.error_code, one.committed_offset))

    def describe(self, *names: str) -> list[Any]:
        found = self._described(*names)
        self.note(
            "admin: describe",
            [
                (
                    one.error_code,
                    one.transaction_state,
                    one.transaction_timeout_ms,
                    one.transaction_start_time_ms > 0,
                    self.named(one.producer_id) if not one.error_code else "",
                    one.producer_epoch,
                    sorted((topic.topic, sorted(topic.partitions)) for topic in one.topics),
                )
                for one in found
            ],
        )
        return found

    def _described(self, *names: str) -> list[Any]:
        return eventually(
            lambda: self.client("admin").call(
                "describe_transactions", 0, transactional_ids=list(names or [self.name])
            ),
            lambda found: not BEGINS & {one.error_code for one in found.transaction_states},
            TIMEOUT_S,
        ).transaction_states

    def settle(self) -> None:
        """Wait until all markers are written."""
        found = eventually(
            self._described,
            lambda found: (
                only(found).error_code != 0 or only(found).transaction_state in AT_REST | {"Ongoing"}
            ),
            TIMEOUT_S,
        )
        assert not only(found).transaction_state.startswith("Prepare"), found

    def list_own(self, version: int = 2, **filters: Any) -> None:
        """Note the listed transactions of this session."""
        request = {"state_filters": [], "producer_id_filters": [], **filters}
        found = eventually(
            lambda: self.client("admin").call("list_transactions", version, **request),
            lambda one: one.error_code not in BEGINS,
            TIMEOUT_S,
        )
        listed = [
            (one.transactional_id, self.named(one.producer_id), one.transaction_state)
            for one in found.transaction_states
            if one.transactional_id.startswith(self.name)
        ]
        self.note("admin: list", (found.error_code, sorted(found.unknown_state_filters), sorted(listed)))

    def producers(self, partition: int) -> None:
        """Note the producers of this session in a partition, and whether they have an open transaction."""
        topics = [{"name": self.topic, "partition_indexes": [partition]}]
        found = only(
            only(self.client("admin").call("describe_producers", 0, topics=topics).topics).partitions
        )
        own = [
            (
                self.named(one.producer_id),
                one.producer_epoch,
                one.last_sequence,
                one.coordinator_epoch,
                one.current_txn_start_offset >= 0,
            )
            for one in found.active_producers
            if one.producer_id in self._names
        ]
        self.note("admin: producers", (found.error_code, sorted(own)))

    def write_marker(
        self,
        partition: int,
        pair: Pair,
        *,
        commits: bool,
        version: int = 1,
        coordinator_epoch: int = 0,
        **fields: Any,
    ) -> None:
        """Write a marker, as an administrator does to end a hanging transaction."""
        self._note_begin(partition)
        marker = {
            "producer_id": pair.producer_id,
            "producer_epoch": pair.epoch,
            "transaction_result": commits,
            "coordinator_epoch": coordinator_epoch,
            "topics": [{"name": self.topic, "partition_indexes": [partition]}],
            **fields,
        }
        found = self.client("admin").call("write_txn_markers", version, markers=[marker])
        codes = [
            one.error_code for each in found.markers for topic in each.topics for one in topic.partitions
        ]
        self.note(f"admin: marker {partition}", codes)

    # ---- what was logged ---------------------------------------------------------------------------

    def _note_begin(self, partition: int) -> None:
        if partition not in self._begins:
            wanted = [{"partition_index": partition, "timestamp": -1}]
            found = self.client("admin").call(
                "list_offsets", 5, replica_id=-1, topics=[{"name": self.topic, "partitions": wanted}]
            )
            one = only(only(found.topics).partitions)
            if not one.error_code:
                self._begins[partition] = one.offset

    def logged(self) -> list[Any]:
        """Return the states of the id, and the batches of its producers by partition."""
        states = [self._state(one) for one in self._states()]
        return [states, *((partition, self._batches(partition)) for partition in sorted(self._begins))]

    def _states(self) -> Iterator[Transaction | None]:
        partition = partition_for(self.name, TRANSACTIONS_PARTITIONS)
        for batch in self._read(TRANSACTIONS_TOPIC, partition, 0):
            for record in iterate_records(batch):
                if decode_key(record.key or b"") == self.name:
                    yield None if record.value is None else decode_value(self.name, record.value)

    def _state(self, one: Transaction | None) -> Any:
        if one is None:
            return None
        return (
            one.state.value,
            self.named(one.producer_id),
            one.producer_epoch,
            self.named(one.previous_producer_id),
            self.named(one.next_producer_id),
            one.next_producer_epoch,
            one.timeout_ms,
            sorted((each.topic, each.partition) for each in one.partitions),
            one.start_ms > 0,
            one.client_version,
        )

    def _batches(self, partition: int) -> list[Any]:
        found = []
        for batch in self._read(self.topic, partition, self._begins[partition]):
            header = next(iterate_headers(batch))[1]
            if header.producer_id not in self._names:
                continue
            marker = marker_of_batch(batch) if header.is_control else None
            value = (
                header.base_sequence
                if marker is None
                else (marker.control_type.name, marker.coordinator_epoch)
            )
            found.append(
                (self.named(header.producer_id), header.producer_epoch, header.is_transactional, value)
            )
        return found

    def _read(self, topic: str, partition: int, offset: int) -> Iterator[bytes]:
        """Yield all batches from an offset on."""
        while True:
            one = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
            answer = self.client("admin").call(
                "fetch",
                FETCH_VERSION,
                max_wait_ms=0,
                min_bytes=0,
                max_bytes=1 << 20,
                isolation_level=0,
                session_epoch=-1,
                topics=[{"topic": topic, "partitions": [one]}],
            )
            found = only(only(answer.responses).partitions)
            assert found.error_code == 0, found
            content = bytes(found.records or b"")
            if not content:
                return
            for position, header in iterate_headers(content):
                offset = header.next_offset
                yield content[position : position + header.size_bytes]


# ---- the sessions ------------------------------------------------------------------------------------------

SESSIONS: list[tuple[Script, tuple[str, ...]]] = []


def session(*ages: str) -> Callable[[Script], Script]:
    """Register a session, for these ages or for all."""

    def enter(script: Script) -> Script:
        SESSIONS.append((script, ages or EVERY_AGE))
        return script

    return enter


@session()
def commits_and_aborts(s: TxnSession) -> None:
    s.init("a")
    for ends in (s.commit, s.abort, s.abort, s.commit):
        s.begin("a", 0, 1)
        s.describe()
        s.producers(0)
        ends("a")
        s.describe()
        s.producers(0)


@session()
def ends_are_requested_twice(s: TxnSession) -> None:
    s.init("a")
    for commits in (True, False):
        before = s.pairs["a"]
        s.begin("a", 0)
        s.end("a", commits=commits)
        s.end("a", commits=commits, pair=before)
        if commits or not s.moves_epoch:  # else see `a_commit_comes_after_the_abort`
            s.end("a", commits=not commits, pair=before)


@session()
def there_is_nothing_to_end(s: TxnSession) -> None:
    s.init("a")
    if not s.moves_epoch:  # else it is one of the DIFFERENCES
        s.commit("a")
    s.abort("a")
    s.describe()
    s.begin("a", 0)
    s.commit("a")
    s.abort("a")
    s.abort("a")
    s.describe()


@session()
def a_successor_fences(s: TxnSession) -> None:
    s.init("old")
    s.begin("old", 0, 1)
    s.init("new")
    s.add("old", 2)
    s.produce("old", 0)
    s.produce("old", 2)
    s.send_offset("old", 5)
    s.add_offsets("old")
    s.commit("old")
    s.abort("old")
    s.begin("new", 0)
    s.produce("old", 0)
    s.commit("old")
    s.commit("new")
    s.producers(0)


@session()
def wrong_pairs(s: TxnSession) -> None:
    s.init("a")
    for is_open in (False, True):
        if is_open:
            s.begin("a", 0)
        pair = s.pairs["a"]
        for wrong in (pair.moved(1), pair.moved(-1), Pair(pair.producer_id + 1_000_000, pair.epoch)):
            s.add("a", 1, pair=wrong)
            s.add_offsets("a", pair=wrong)
            s.produce("a", 1, pair=wrong)
            s.send_offset("a", 1, pair=wrong)
            s.commit("a", pair=wrong, settles=False)
            s.abort("a", pair=wrong, settles=False)
        s.describe()
    s.commit("a")
    s.add("a", 0, name=f"{s.name}-unknown")
    s.commit("a", name=f"{s.name}-unknown", settles=False)
    s.add("a", 0, name="")
    s.commit("a", name="", settles=False)
    s.describe(f"{s.name}-unknown", "", s.name)


@session("middle", "new", "v2")
def producers_resume(s: TxnSession) -> None:
    s.init("a")
    first = s.pairs["a"]
    s.init("a", expected=first)
    s.init("a", expected=first)  # a retry
    s.init("a", expected=first.moved(5))
    s.init("a", expected=Pair(first.producer_id + 1_000_000, 0))
    s.begin("a", 0)
    s.init("a", expected=s.pairs["a"])  # aborts the open transaction
    s.init("a")
    s.begin("a", 0)
    s.commit("a")
    s.init("a", expected=s.pairs["a"])
    s.init("a", expected=first)
    s.begin("a", 0)
    s.abort("a")


@session()
def requests_that_init_rejects(s: TxnSession) -> None:
    for timeout_ms in (0, -1, 900_000, 900_001, 2**31 - 1):
        s.init("a", transaction_timeout_ms=timeout_ms)
    s.init("a", transactional_id="")
    s.describe()


@session("middle", "new")
def half_a_pair_is_rejected(s: TxnSession) -> None:
    s.init("a", expected=Pair(-1, 3))
    s.init("a", expected=Pair(3, -1))


@session()
def offsets_wait_for_the_end(s: TxnSession) -> None:
    s.init("a")
    for number, ends in enumerate((s.commit, s.abort, s.commit)):
        if not s.moves_epoch:
            s.add_offsets("a")
        s.send_offset("a", 10 + number)
        s.fetch_offset(stable=True)
        s.fetch_offset(stable=False)
        s.describe()
        ends("a")
        s.fetch_offset(stable=True)


@session()
def rejected_offsets(s: TxnSession) -> None:
    s.init("a")
    if not s.moves_epoch:
        s.send_offset("a", 1)  # never added
        s.add_offsets("a")
    if s.age in ("middle", "new", "v2"):
        s.send_offset("a", 1, generation_id_or_member_epoch=3, member_id="nobody")
        s.send_offset("a", 1, generation_id_or_member_epoch=-1, member_id="nobody")
    s.send_offset(
        "a",
        1,
        topics=[
            {
                "name": s.topic,
                "partitions": [
                    {"partition_index": 0, "committed_offset": 1, "committed_metadata": "x" * 5_000}
                ],
            }
        ],
    )
    s.send_offset(
        "a",
        1,
        topics=[
            {
                "name": "no such topic",
                "partitions": [{"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}],
            }
        ],
    )
    s.send_offset("a", 1)
    s.abort("a")
    s.fetch_offset(stable=True)


@session("old", "middle", "new")
def unknown_partitions(s: TxnSession) -> None:
    s.init("a")
    s.add("a", 0, 99)
    s.add("a", 0, topic=f"{s.topic}-unknown")
    s.add("a", 0, topic="__transaction_state")
    s.describe()
    s.add("a", 0, 1)
    s.add("a", 1)
    s.add("a", 2)
    s.describe()
    s.commit("a")


@session("old", "middle", "new")
def batches_outside_of_transactions(s: TxnSession) -> None:
    s.init("a")
    s.produce("a", 0)
    s.add("a", 1)
    s.produce("a", 0)
    s.produce("a", 1, named=False)
    s.produce("a", 1)
    s.produce("a", 1, is_transactional=False)
    s.commit("a")
    s.produce("a", 1)
    s.add("a", 1)
    s.produce("a", 1)
    s.produce("a", 1, sequence=50)
    s.abort("a")


@session("v2")
def sequences_start_again(s: TxnSession) -> None:
    s.init("a")
    s.produce("a", 0, sequence=4)
    s.produce("a", 0)
    s.produce("a", 0, sequence=9)
    s.produce("a", 0, sequence=0)  # sent before
    before = s.pairs["a"]
    s.commit("a")
    s.produce("a", 0, pair=before, sequence=2)
    s.produce("a", 0)
    s.produce("a", 1, is_transactional=False)
    s.abort("a")


@session("new", "v2")
def transactions_are_listed(s: TxnSession) -> None:
    s.init("a")
    s.list_own()
    s.begin("a", 0)
    s.list_own()
    s.list_own(state_filters=["Ongoing"])
    s.list_own(state_filters=["CompleteCommit", "Nonsense", "ongoing"])
    s.list_own(producer_id_filters=[s.pairs["a"].producer_id])
    s.list_own(producer_id_filters=[2**40])
    s.list_own(duration_filter=3_600_000)
    s.list_own(duration_filter=0)
    s.list_own(transactional_id_pattern=s.name[:-2] + "..")
    s.list_own(transactional_id_pattern=s.name[:-2])
    s.list_own(transactional_id_pattern="(")
    s.commit("a")
    s.list_own(version=0, state_filters=["CompleteCommit"])


@session("new", "v2")
def administrators_write_markers(s: TxnSession) -> None:
    s.init("a")
    s.begin("a", 0)
    pair = s.pairs["a"]
    s.write_marker(0, pair.moved(-1), commits=False)
    s.write_marker(0, pair, commits=False, coordinator_epoch=100)
    s.producers(0)
    s.write_marker(0, pair, commits=False, coordinator_epoch=99)
    s.write_marker(0, pair, commits=False, coordinator_epoch=100)
    s.produce("a", 0)
    s.write_marker(2, pair, commits=True, version=2, transaction_version=2)
    s.write_marker(2, pair.moved(1), commits=True, version=2, transaction_version=0)
    s.write_marker(99, pair, commits=True)


@session("new")
def a_client_changes_its_protocol(s: TxnSession) -> None:
    """Begin in the old protocol and end in the new one, then the reverse: one session with two ages."""
    s.init("a")
    s.begin("a", 0)
    s.age = "v2"
    s.commit("a")
    s.begin("a", 0)
    s.age = "new"
    s.commit("a")
    s.begin("a", 0)
    s.abort("a")
    s.age = "v2"
    s.abort("a")
    s.begin("a", 1)
    s.age = "new"
    s.init("a")
    s.describe()


# ---- where we differ ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The end of a session, on Ottla and on Apache Kafka."""

    script: Script
    ours: Any
    theirs: Any
    age: str = "v2"


def a_commit_comes_after_the_abort(s: TxnSession) -> None:
    """KAFKA-20785: the abort may have been the coordinator's, or the client's own."""
    s.init("a")
    before = s.pairs["a"]
    s.begin("a", 0)
    s.abort("a")
    s.commit("a", pair=before)


def an_older_producer_expects_its_old_epoch(s: TxnSession) -> None:
    """An older producer must not end the transaction of its successor."""
    s.init("old")
    s.init("new")
    s.begin("new", 0)
    s.init("old", expected=s.pairs["old"])
    s.commit("new")


def a_marker_comes_twice(s: TxnSession) -> None:
    s.init("a")
    for _ in range(2):
        s.write_marker(2, s.pairs["a"], commits=True, version=2, transaction_version=2)
    s.note("log", s.logged()[1])


def there_is_nothing_to_commit(s: TxnSession) -> None:
    """Ottla writes the state again before it answers, which proves it is coordinator (groupcoord D45)."""
    s.init("a")
    s.commit("a")
    _, answer = s.answers[-1]
    s.note("told and logged", (answer, [state[0] for state in s.logged()[0]]))


def a_late_copy_of_an_earlier_batch(s: TxnSession) -> None:
    """The batch that follows the copy must not be rejected as out of order."""
    s.init("a")
    s.begin("a", 0)
    s.commit("a")
    s.add("a", 0)
    s.produce("a", 0, sequence=0)
    s.produce("a", 0, sequence=2)


DIFFERENCES: Final = [
    Difference(script=a_commit_comes_after_the_abort, ours=(90, "-1", -1), theirs=(48, "-1", -1)),
    Difference(script=an_older_producer_expects_its_old_epoch, ours=(0, "p0", 2), theirs=(48, "-1", -1)),
    Difference(
        script=a_marker_comes_twice,
        ours=(2, [("p0", 0, True, ("COMMIT", 0))]),
        theirs=(2, [("p0", 0, True, ("COMMIT", 0))] * 2),
    ),
    Difference(
        script=there_is_nothing_to_commit,
        ours=((48, "-1", -1), ["Empty", "Empty"]),
        theirs=((48, "-1", -1), ["Empty"]),
    ),
    # With transaction.version 2 each transaction has its own epoch, by which a late copy is recognised.
    Difference(script=a_late_copy_of_an_earlier_batch, ours=[0], theirs=[45], age="new"),
]
