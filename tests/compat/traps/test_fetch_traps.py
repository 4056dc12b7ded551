"""Traps 13 to 19 and 38, with ListOffsets and OffsetForLeaderEpoch: the requests of a consumer."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.compat.batches import batch, now_ms, read_headers
from tests.compat.conftest import create_topic, topic_id_of
from tests.compat.wire_client import WireClient, only

Connect = Callable[..., WireClient]
SESSIONLESS = (0, -1)
NEW_SESSION = (0, 0)


def append(client: WireClient, topic: str, *batches: bytes, partition: int = 0) -> None:
    for one in batches:
        wanted = {"name": topic, "partition_data": [{"index": partition, "records": one}]}
        answer = client.call("produce", 9, acks=-1, timeout_ms=5000, topic_data=[wanted])
        assert only(only(answer.responses).partition_responses).error_code == 0


def partition_of(offset: int = 0, partition: int = 0, **fields: Any) -> dict[str, Any]:
    return {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1 << 20, **fields}


def fetch_all(client: WireClient, topic: str, partitions: list[dict[str, Any]], **fields: Any) -> Any:
    """Return the whole response to a Fetch of version 11."""
    request = {
        "max_wait_ms": 0,
        "min_bytes": 0,
        "topics": [{"topic": topic, "partitions": partitions}],
        **fields,
    }
    return client.call("fetch", 11, **request)


def fetch(client: WireClient, topic: str, offset: int = 0, **fields: Any) -> Any:
    """Return the only partition of a Fetch response; some of the fields are those of the partition."""
    own = {
        name: fields.pop(name) for name in ("partition_max_bytes", "current_leader_epoch") if name in fields
    }
    return only(only(fetch_all(client, topic, [partition_of(offset, **own)], **fields).responses).partitions)


def test_trap_13_a_fetch_waits_for_min_bytes_or_max_wait(client: WireClient, topic: str) -> None:
    began = time.monotonic()
    waited = fetch(client, topic, max_wait_ms=400, min_bytes=1)
    after_ms = (time.monotonic() - began) * 1000
    began = time.monotonic()
    at_once = fetch(client, topic, max_wait_ms=30_000, min_bytes=0)
    without_ms = (time.monotonic() - began) * 1000

    assert after_ms > 350
    assert without_ms < 20_000
    assert waited.records == at_once.records == b"", "empty, not null"


def test_trap_13_an_append_wakes_a_waiting_fetch(client: WireClient, connect: Connect, topic: str) -> None:
    wanted = {"topic": topic, "partitions": [partition_of()]}
    began = time.monotonic()
    waiting = client.send("fetch", 11, max_wait_ms=30_000, min_bytes=1, topics=[wanted])
    time.sleep(0.2)
    append(connect(), topic, batch())

    found = only(only(client.receive("fetch", 11, waiting).responses).partitions)

    assert time.monotonic() - began < 20
    assert len(read_headers(found.records)) == 1


def test_trap_13_more_bytes_than_there_are_wait_for_more(
    client: WireClient, connect: Connect, topic: str
) -> None:
    append(client, topic, batch())
    wanted = {"topic": topic, "partitions": [partition_of()]}
    waiting = client.send("fetch", 11, max_wait_ms=10_000, min_bytes=500, topics=[wanted])
    assert client.is_silent()

    append(connect(), topic, batch([b"x" * 500]))

    assert (
        len(read_headers(only(only(client.receive("fetch", 11, waiting).responses).partitions).records)) == 2
    )


def test_trap_13_one_batch_comes_even_if_it_is_larger_than_every_limit(
    client: WireClient, topic: str
) -> None:
    append(client, topic, batch([b"x" * 5000]), batch([b"y" * 5000]))

    found = fetch(client, topic, max_bytes=1, partition_max_bytes=1)

    assert len(read_headers(found.records)) == 1


def test_trap_13_only_the_first_batch_of_the_whole_answer_may_break_the_limit(client: WireClient) -> None:
    name = create_topic(client, partitions=2)
    for partition in (0, 1):
        append(client, name, batch([b"x" * 5000]), partition=partition)
    wanted = [partition_of(partition=index, partition_max_bytes=1) for index in (0, 1)]

    found = only(fetch_all(client, name, wanted, max_bytes=1).responses).partitions

    assert [len(read_headers(one.records)) for one in found] == [1, 0]


def test_trap_13_the_batch_that_contains_the_offset_is_returned_whole(client: WireClient, topic: str) -> None:
    append(client, topic, batch([b"a", b"b", b"c"]), batch([b"d", b"e"]))

    found = read_headers(fetch(client, topic, offset=1).records)

    assert [header["base_offset"] for header in found] == [0, 3]


def test_trap_14_a_fetch_that_times_out_is_an_empty_success(client: WireClient, topic: str) -> None:
    found = fetch(client, topic, max_wait_ms=100, min_bytes=1)

    assert (found.error_code, found.records) == (0, b"")


JAVA_ACCEPTS = {-1, 0, 1, 2, 3, 6, 9, 29, 56, 74, 75, 78, 100, 103}


def test_trap_14_fetch_answers_only_errors_that_javas_client_knows(client: WireClient, topic: str) -> None:
    odd = [
        partition_of(7),
        partition_of(-5),
        partition_of(partition=-1),
        partition_of(current_leader_epoch=99),
    ]

    for one in odd:
        found = only(only(fetch_all(client, topic, [one]).responses).partitions)
        assert found.error_code in JAVA_ACCEPTS - {0}
        assert not found.records


def test_trap_15_sessions_remember_partitions_and_leave_out_unchanged_ones(
    client: WireClient, connect: Connect
) -> None:
    name = create_topic(client, partitions=3)
    wanted = [partition_of(partition=index) for index in range(3)]

    first = fetch_all(client, name, wanted, session_id=NEW_SESSION[0], session_epoch=NEW_SESSION[1])
    quiet = client.call(
        "fetch", 11, max_wait_ms=0, min_bytes=0, session_id=first.session_id, session_epoch=1, topics=[]
    )
    append(connect(), name, batch(), partition=1)
    changed = client.call(
        "fetch", 11, max_wait_ms=1000, min_bytes=1, session_id=first.session_id, session_epoch=2, topics=[]
    )

    sessionless = fetch_all(client, name, wanted, session_id=SESSIONLESS[0], session_epoch=SESSIONLESS[1])

    assert (sessionless.error_code, sessionless.session_id) == (0, 0)
    assert first.error_code == 0
    if first.session_id == 0:
        pytest.skip("the server declined the session, which is legal")
    assert len(only(first.responses).partitions) == 3
    assert (quiet.error_code, quiet.session_id, list(quiet.responses)) == (0, first.session_id, [])
    assert [one.partition_index for one in only(changed.responses).partitions] == [1]


def test_trap_15_forgotten_partitions_leave_the_session(client: WireClient, connect: Connect) -> None:
    name = create_topic(client, partitions=2)
    first = fetch_all(
        client, name, [partition_of(), partition_of(partition=1)], session_id=0, session_epoch=0
    )
    append(connect(), name, batch(), partition=0)

    found = client.call(
        "fetch",
        11,
        max_wait_ms=0,
        min_bytes=0,
        session_id=first.session_id,
        session_epoch=1,
        topics=[],
        forgotten_topics_data=[{"topic": name, "partitions": [0]}],
    )

    assert (found.error_code, list(found.responses)) == (0, [])


def test_trap_15_a_wrong_epoch_is_71_and_an_unknown_session_70(client: WireClient, topic: str) -> None:
    first = fetch_all(client, topic, [partition_of()], session_id=0, session_epoch=0)
    session = first.session_id

    wrong = client.call(
        "fetch", 11, max_wait_ms=0, min_bytes=0, session_id=session, session_epoch=5, topics=[]
    )
    unknown = client.call(
        "fetch", 11, max_wait_ms=0, min_bytes=0, session_id=12345, session_epoch=1, topics=[]
    )

    assert wrong.error_code == 71
    assert unknown.error_code == 70
    assert not wrong.responses
    assert not unknown.responses


def test_trap_15_sessions_at_version_13_are_kept_by_topic_id(client: WireClient, topic: str) -> None:
    topic_id = topic_id_of(client, topic)
    wanted = {"topic_id": topic_id, "partitions": [partition_of()]}
    ask = {"max_wait_ms": 0, "min_bytes": 0}

    first = client.call("fetch", 13, **ask, session_id=0, session_epoch=0, topics=[wanted])
    append(client, topic, batch())
    second = client.call("fetch", 13, **ask, session_id=first.session_id, session_epoch=1, topics=[])

    assert first.error_code == 0
    assert bytes(only(second.responses).topic_id) == topic_id


def test_trap_16_no_preferred_read_replica_is_named(client: WireClient, topic: str) -> None:
    append(client, topic, batch())

    found = fetch(client, topic, rack_id="somewhere")

    assert found.preferred_read_replica == -1
    assert found.records


def test_trap_17_beyond_the_end_is_out_of_range_and_at_the_end_is_empty(
    client: WireClient, topic: str
) -> None:
    append(client, topic, batch())

    at_end, beyond, before = (fetch(client, topic, offset) for offset in (1, 2, -2))

    assert (at_end.error_code, at_end.records, at_end.high_watermark) == (0, b"", 1)
    for one in (beyond, before):
        assert one.error_code == 1
        assert (one.high_watermark, one.last_stable_offset, one.log_start_offset) == (-1, -1, -1)


def test_trap_17_a_deleted_offset_is_out_of_range(client: WireClient, topic: str) -> None:
    append(client, topic, batch(), batch(), batch())
    wanted = {"name": topic, "partitions": [{"partition_index": 0, "offset": 2}]}
    deleted = only(client.call("delete_records", 2, topics=[wanted], timeout_ms=5000).topics)

    assert (only(deleted.partitions).error_code, only(deleted.partitions).low_watermark) == (0, 2)
    assert fetch(client, topic, 1).error_code == 1
    found = fetch(client, topic, 2)
    assert (found.error_code, found.log_start_offset) == (0, 2)


def test_trap_18_leader_epochs_are_fenced_on_both_sides(client: WireClient, topic: str) -> None:
    append(client, topic, batch())

    assert fetch(client, topic, current_leader_epoch=0).error_code == 0
    assert fetch(client, topic, current_leader_epoch=1).error_code == 75
    listed = list_offsets(client, topic, -1, current_leader_epoch=1)
    assert listed.error_code == 75


def list_offsets(client: WireClient, topic: str, timestamp: int, version: int = 11, **fields: Any) -> Any:
    isolation = {"isolation_level": fields.pop("isolation_level")} if "isolation_level" in fields else {}
    wanted = {"partition_index": 0, "timestamp": timestamp, **fields}
    answer = client.call(
        "list_offsets", version, replica_id=-1, topics=[{"name": topic, "partitions": [wanted]}], **isolation
    )
    return only(only(answer.topics).partitions)


def test_trap_18_offsets_come_with_their_own_epoch_and_none_on_an_empty_log(
    client: WireClient, topic: str
) -> None:
    empty = list_offsets(client, topic, -3)
    latest_of_empty = list_offsets(client, topic, -1)
    append(client, topic, batch())

    assert (empty.error_code, empty.offset, empty.leader_epoch) == (0, -1, -1)
    assert (latest_of_empty.error_code, latest_of_empty.offset) == (0, 0)
    assert list_offsets(client, topic, -2).leader_epoch == 0
    assert list_offsets(client, topic, -1).leader_epoch == 0


def test_trap_18_the_end_of_an_epoch_is_found_and_an_unknown_epoch_has_none(
    client: WireClient, topic: str
) -> None:
    append(client, topic, batch([b"a", b"b"]))

    def end_of(epoch: int, current: int = -1) -> Any:
        wanted = {"partition": 0, "current_leader_epoch": current, "leader_epoch": epoch}
        answer = client.call(
            "offset_for_leader_epoch", 4, replica_id=-1, topics=[{"topic": topic, "partitions": [wanted]}]
        )
        found = only(only(answer.topics).partitions)
        return (found.error_code, found.leader_epoch, found.end_offset)

    assert end_of(0) == (0, 0, 2)
    assert end_of(7) == (0, -1, -1)
    assert end_of(0, current=9)[0] == 75


def test_trap_19_no_match_is_no_error(client: WireClient, topic: str) -> None:
    append(client, topic, batch(base_timestamp=1000))

    found = list_offsets(client, topic, now_ms())

    assert (found.error_code, found.timestamp, found.offset) == (0, -1, -1)


def test_trap_19_timestamps_find_the_first_record_that_is_not_older(client: WireClient, topic: str) -> None:
    append(client, topic, *(batch(base_timestamp=stamp) for stamp in (1000, 2000, 3000)))

    found = list_offsets(client, topic, 1500)
    latest_time = list_offsets(client, topic, -3)

    assert (found.timestamp, found.offset) == (2000, 1)
    assert (latest_time.timestamp, latest_time.offset) == (3000, 2)
    assert list_offsets(client, topic, -1, isolation_level=1).offset == 3


@pytest.mark.parametrize(("timestamp", "since"), [(-3, 7), (-4, 8), (-5, 9), (-6, 11)])
def test_trap_19_special_timestamps_below_their_version_are_unsupported(
    client: WireClient, topic: str, timestamp: int, since: int
) -> None:
    append(client, topic, batch())

    assert list_offsets(client, topic, timestamp, version=since - 1).error_code == 35
    assert list_offsets(client, topic, timestamp, version=since).error_code == 0


def test_trap_38_duplicate_partitions_in_a_request_do_not_harm(client: WireClient, topic: str) -> None:
    append(client, topic, batch())
    twice = {"name": topic, "partitions": [{"partition_index": 0, "timestamp": -1}] * 2}

    listed = client.call("list_offsets", 5, replica_id=-1, topics=[twice])
    fetched = fetch_all(client, topic, [partition_of(), partition_of()])
    metadata = client.call("metadata", 12, topics=[{"name": topic}, {"name": topic}])

    assert {one.error_code for topics in listed.topics for one in topics.partitions} == {42}
    assert fetched.responses
    assert metadata.topics
    assert client.call("metadata", 12, topics=[]).brokers


@pytest.mark.parametrize("version", range(4, 19))
def test_section_1_every_version_of_fetch_reads(client: WireClient, topic: str, version: int) -> None:
    append(client, topic, batch([b"a", b"b"]))
    newest = {one.api_key: one.max_version for one in client.call("api_versions", 0).api_keys}[1]
    if version > newest:
        pytest.skip(f"the server ends at version {newest}")
    named = {"topic": topic} if version < 13 else {"topic_id": topic_id_of(client, topic)}

    answer = client.call(
        "fetch", version, max_wait_ms=0, min_bytes=0, topics=[{**named, "partitions": [partition_of()]}]
    )

    found = only(only(answer.responses).partitions)
    assert (found.error_code, found.high_watermark, len(read_headers(found.records))) == (0, 2, 1)
    assert found.aborted_transactions is None
