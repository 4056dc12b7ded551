"""Decodes records of the internal topics into text: of `__cluster_metadata`, `__consumer_offsets`,
`__transaction_state` and `__share_group_state`.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import fields

from ottla.groupcoord import record_codec as group_record_codec
from ottla.groupcoord.group_records import OFFSETS_TOPIC
from ottla.groupcoord.share_state import share_state_records
from ottla.groupcoord.share_state.share_state import ShareState
from ottla.groupcoord.share_state.share_state_records import SnapshotRecord, UpdateRecord
from ottla.groupcoord.share_state.share_state_words import SharePartitionKey, StateBatch
from ottla.groupcoord.transactions.transaction import NO_EPOCH, NO_PRODUCER_ID, Transaction
from ottla.groupcoord.transactions.transaction_records import TRANSACTIONS_TOPIC, decode_key, decode_value
from ottla.logstore.record import Record
from ottla.logstore.words.errors import KafkaError
from ottla.logstore.words.schema import SECRET
from ottla.logstore.words.topic_partition import uuid_to_text
from ottla.metadata_raft import record_codec
from ottla.metadata_raft.records import ConfigRecord, UserScramCredentialRecord
from ottla.node.share.dead_letters import read_note
from ottla.node.wire.describe import describe

# Returns the key and the payload of a record as text, each None if it is missing.
Wording = Callable[[Record], tuple[str | None, str | None]]


def as_text(content: bytes) -> str:
    """Return bytes as text, with \\xNN for each byte that is not UTF-8."""
    return content.decode("utf-8", "backslashreplace")


def plain(record: Record) -> tuple[str | None, str | None]:
    """Return key and value without decoding them."""
    return (
        None if record.key is None else as_text(record.key),
        None if record.value is None else as_text(record.value),
    )


def metadata(record: Record) -> tuple[str | None, str | None]:
    """Decode a record of `__cluster_metadata`; one of an unknown type stays as it is, secrets are hidden."""
    try:
        decoded = record_codec.decode_record(record.value)
    except KafkaError:
        if any(
            record_codec.is_record_of(one, record.value) for one in (UserScramCredentialRecord, ConfigRecord)
        ):
            return plain(record)[0], SECRET
        return plain(record)
    return plain(record)[0], json.dumps({"type": type(decoded).__name__, "data": describe(decoded)})


def group(record: Record) -> tuple[str | None, str | None]:
    """Decode a record of `__consumer_offsets`; one of an unknown type stays as it is."""
    if record.key is None:
        return plain(record)
    try:
        decoded = group_record_codec.decode_record(record.key, record.value)
    except KafkaError:
        return plain(record)
    if decoded is None:
        return plain(record)
    key = {name: value for name, value in decoded._asdict().items() if name != "value"}
    return json.dumps(key), None if decoded.value is None else json.dumps(describe(decoded.value))


def transaction(record: Record) -> tuple[str | None, str | None]:
    """Decode a record of `__transaction_state`; one of an unknown type stays as it is."""
    if record.key is None:
        return plain(record)
    try:
        transactional_id = decode_key(record.key)
        if transactional_id is None:
            return plain(record)
        t = None if record.value is None else decode_value(transactional_id, record.value)
    except KafkaError:
        return plain(record)
    if record.value is not None and t is None:
        return plain(record)
    key = json.dumps({"transactional_id": transactional_id})
    return key, None if t is None else json.dumps(transaction_fields(t))


def transaction_fields(t: Transaction) -> dict[str, object]:
    """Return the fields of a transaction; the tagged fields of version 1 are left out if they are not set."""
    shown: dict[str, object] = {
        "state": t.state.value,
        "producer_id": t.producer_id,
        "producer_epoch": t.producer_epoch,
        "timeout_ms": t.timeout_ms,
        "partitions": [str(partition) for partition in sorted(t.partitions)],
        "last_update_ms": t.last_update_ms,
        "start_ms": t.start_ms,
        "client_version": t.client_version,
    }
    if t.previous_producer_id != NO_PRODUCER_ID:
        shown["previous_producer_id"] = t.previous_producer_id
    if t.next_producer_id != NO_PRODUCER_ID:
        shown["next_producer_id"] = t.next_producer_id
    if t.next_producer_epoch != NO_EPOCH:
        shown["next_producer_epoch"] = t.next_producer_epoch
    return shown


def share_state(record: Record) -> tuple[str | None, str | None]:
    """Decode a record of `__share_group_state`; one of an unknown type stays as it is."""
    if record.key is None:
        return plain(record)
    try:
        known = share_state_records.decode_key(record.key)
        decoded = share_state_records.decode_record(record.key, record.value)
    except KafkaError:
        return plain(record)
    if known is None or decoded is None:
        return plain(record)
    kind = "update" if known.kind == share_state_records.UPDATE_KEY else "snapshot"
    key = json.dumps({"type": kind, **share_partition_fields(decoded.key)})
    match decoded:
        case SnapshotRecord(_, None):
            return key, None
        case SnapshotRecord(_, state):
            assert state is not None
            return key, json.dumps(share_state_fields(state))
        case UpdateRecord(_, update):
            shown = update._asdict() | {"batches": batch_rows(update.batches)}
            return key, json.dumps(_with_note(shown, update.dead_letters))


def share_partition_fields(key: SharePartitionKey) -> dict[str, object]:
    return {"group": key.group, "topic_id": uuid_to_text(key.topic_id), "partition": key.partition}


def share_state_fields(state: ShareState) -> dict[str, object]:
    shown: dict[str, object] = {
        field.name: getattr(state, field.name) for field in fields(state) if field.name != "batches"
    }
    return _with_note({**shown, "batches": batch_rows(state.batches)}, state.dead_letters)


def _with_note(shown: dict[str, object], note: bytes | None) -> dict[str, object]:
    """Return the fields with the note on dead letters decoded, or without it if it is empty."""
    del shown["dead_letters"]
    return shown | {"dead_letters": _note_fields(note)} if note else shown


def _note_fields(content: bytes) -> object:
    try:
        number, letters = read_note(content)
    except ValueError:
        return content.hex()
    if letters is None:
        return {"number": number}
    return {
        "number": number,
        "producer_id": letters.producer_id,
        "producer_epoch": letters.producer_epoch,
        "topic_id": uuid_to_text(letters.topic_id),
        "partition": letters.partition,
        "records": [{**one._asdict(), "reason": one.reason.value} for one in letters.records],
    }


def batch_rows(batches: Sequence[StateBatch]) -> list[dict[str, object]]:
    return [batch._asdict() for batch in batches]


def wording_for(directory: str) -> Wording:
    """Return the decoder for the records of a partition, by the name of its directory."""
    if directory.startswith("__cluster_metadata-"):
        return metadata
    if directory.startswith(f"{OFFSETS_TOPIC}-"):
        return group
    if directory.startswith(f"{TRANSACTIONS_TOPIC}-"):
        return transaction
    if directory.startswith(f"{share_state_records.SHARE_STATE_TOPIC}-"):
        return share_state
    return plain
