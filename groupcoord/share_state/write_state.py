"""InitializeState, WriteState, DeleteState, and the reads.

A write is an update; after share.coordinator.snapshot.update.records.per.snapshot updates it is a snapshot. A
write moves no epoch: only an InitializeState begins another state epoch, and only a ReadState another leader
epoch.
"""

from dataclasses import replace

from ottla.groupcoord.request_token import Token
from ottla.groupcoord.share_state.check_request import check_request
from ottla.groupcoord.share_state.combine_batches import combine_batches
from ottla.groupcoord.share_state.share_state import ShareState, Update
from ottla.groupcoord.share_state.share_state_config import BATCH_BYTES, MAX_BATCHES
from ottla.groupcoord.share_state.share_state_effects import Append, Effect, Reply
from ottla.groupcoord.share_state.share_state_records import (
    ShareStateRecord,
    SnapshotRecord,
    UpdateRecord,
)
from ottla.groupcoord.share_state.share_state_shard import KnownState, ShareStateShard, fits_in_log
from ottla.groupcoord.share_state.share_state_words import (
    NOT_GIVEN,
    DeleteState,
    InitializeState,
    ReadState,
    ReadStateSummary,
    SharePartitionKey,
    StateAnswer,
    StateRead,
    StateRequest,
    StateResult,
    StateSummary,
    WriteState,
    newer_note,
    refused,
)
from ottla.logstore.words.errors import ErrorCode, KafkaError


def answer_request(shard: ShareStateShard, token: Token, request: StateRequest, now_ms: int) -> list[Effect]:
    """Decide a request; an error is an answer, too."""
    try:
        check_request(shard, request)
        record, answer = _decide(shard, request, now_ms)
    except KafkaError as error:
        return [Reply(token, refused(request, error.code, error.detail), shows_state=True)]
    if record is None:
        return [Reply(token, answer, shows_state=True)]
    return [Append((record,)), Reply(token, answer)]


def _decide(
    shard: ShareStateShard, request: StateRequest, now_ms: int
) -> tuple[ShareStateRecord | None, StateAnswer]:
    match request:
        case InitializeState():
            record = _initialize(shard, request, now_ms)
            shard.begin_incarnation(request.key, now_ms)
            return record, StateResult(request.key)
        case WriteState():
            return _write(shard, request, now_ms), StateResult(request.key)
        case DeleteState(key):
            # A state that does not exist is deleted already.
            return SnapshotRecord(key, None) if key in shard.states else None, StateResult(key)
        case ReadState():
            return _read(shard, request, now_ms)
        case ReadStateSummary(key):
            return None, _summary(shard, key)


def _initialize(shard: ShareStateShard, request: InitializeState, now_ms: int) -> ShareStateRecord:
    shard.check_room(request.key, 0)
    known = shard.states.get(request.key)
    state = ShareState(
        snapshot_epoch=0 if known is None else known.current.next_snapshot_epoch,
        state_epoch=request.state_epoch,
        leader_epoch=0,
        start_offset=request.start_offset,
        delivery_complete_count=NOT_GIVEN if request.start_offset == NOT_GIVEN else 0,
        create_time_ms=now_ms,
        write_time_ms=now_ms,
    )
    return SnapshotRecord(request.key, state)


def _write(shard: ShareStateShard, request: WriteState, now_ms: int) -> ShareStateRecord:
    known = shard.states[request.key]
    return _changed(shard, known, request, known.current.leader_epoch, now_ms)


def _read(
    shard: ShareStateShard, request: ReadState, now_ms: int
) -> tuple[ShareStateRecord | None, StateAnswer]:
    known = shard.states[request.key]
    state = known.current
    answer = StateRead(
        request.key,
        state_epoch=state.state_epoch,
        start_offset=state.start_offset,
        batches=state.batches,
        dead_letters=state.dead_letters,
        incarnation=shard.incarnation_of(request.key),
    )
    if request.leader_epoch in (NOT_GIVEN, known.leader_epoch):
        return None, answer
    fences = WriteState(
        request.key,
        state.state_epoch,
        request.leader_epoch,
        state.start_offset,
        state.delivery_complete_count,
        (),
    )
    return _changed(shard, known, fences, request.leader_epoch, now_ms), answer


def _summary(shard: ShareStateShard, key: SharePartitionKey) -> StateSummary:
    known = shard.states.get(key)
    if known is None:
        return StateSummary(key, start_offset=NOT_GIVEN)
    state = known.current
    return StateSummary(
        key,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
    )


def _changed(
    shard: ShareStateShard, known: KnownState, request: WriteState, leader_epoch: int, now_ms: int
) -> ShareStateRecord:
    """Return the record of a change, if the state may become that large."""
    key, state = request.key, known.current
    if NOT_GIVEN != request.start_offset < state.start_offset:
        # A write that was given up may come after later ones of its leader: done records would be delivered
        # again.
        complete = state.delivery_complete_count
        request = replace(request, start_offset=NOT_GIVEN, delivery_complete_count=complete)
    dead_letters = newer_note(state.dead_letters, request.dead_letters)
    is_update = known.updates < shard.config.share_coordinator_snapshot_update_records_per_snapshot
    if is_update and _has_room(shard, key, len(state.batches), len(request.batches), len(dead_letters)):
        return _update(state, request, leader_epoch)
    start_offset = state.start_offset if request.start_offset == NOT_GIVEN else request.start_offset
    batches = combine_batches(state.batches, request.batches, start_offset)
    if len(batches) > len(state.batches):
        if len(batches) > MAX_BATCHES:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "The state would have too many batches.")
        _check_size(shard, key, len(batches), len(dead_letters))
        shard.check_room(key, len(batches) - len(state.batches))
    if is_update:
        update = _update(state, request, leader_epoch)
        _check_size(shard, key, len(update.update.batches), len(dead_letters))
        return update
    _check_size(shard, key, len(batches), len(dead_letters))
    snapshot = ShareState(
        snapshot_epoch=state.next_snapshot_epoch,
        state_epoch=state.state_epoch,
        leader_epoch=leader_epoch,
        start_offset=start_offset,
        delivery_complete_count=request.delivery_complete_count,
        create_time_ms=now_ms,
        write_time_ms=now_ms,
        batches=batches,
        dead_letters=dead_letters,
    )
    return SnapshotRecord(key, snapshot)


def _update(state: ShareState, request: WriteState, leader_epoch: int) -> UpdateRecord:
    update = Update(
        snapshot_epoch=state.snapshot_epoch,
        leader_epoch=leader_epoch,
        start_offset=request.start_offset,
        delivery_complete_count=request.delivery_complete_count,
        batches=combine_batches((), request.batches, request.start_offset),
        dead_letters=request.dead_letters,
    )
    return UpdateRecord(request.key, update)


def _has_room(
    shard: ShareStateShard, key: SharePartitionKey, known: int, written: int, note_bytes: int
) -> bool:
    """Return True if there is room however the batches are combined: each written one adds two at most."""
    most = known + 2 * written
    return (
        most <= MAX_BATCHES
        and fits_in_log(shard.config, key, most, note_bytes)
        and shard.bytes.fits(BATCH_BYTES * 2 * written + note_bytes, eighths=8)
    )


def _check_size(shard: ShareStateShard, key: SharePartitionKey, batches: int, note_bytes: int) -> None:
    """Raise UNKNOWN_SERVER_ERROR for a record that the log would reject, as Kafka's append does."""
    if not fits_in_log(shard.config, key, batches, note_bytes):
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "The state has too many batches for one record.")
