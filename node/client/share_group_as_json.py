"""The records in flight of share groups as JSON, for the command line and the REST API."""

from typing import Final

from ottla.logstore.words.errors import ErrorCode
from ottla.node.share.record_state import RecordState
from ottla.node.wire.messages.describe_share_partitions import InFlightRange, InFlightState

_STATES: Final = {int(state): state.name.lower() for state in RecordState}


def state_word(state: int) -> str:
    """Return the state of a record as a word, or as a number if only a newer server knows it."""
    return _STATES.get(state, str(state))


def in_flight_as_json(state: InFlightState) -> dict[str, object]:
    """Return the records in flight of a partition: counts of records, and the ranges that matter most."""
    return {
        "start": state.start_offset,
        "end": state.end_offset,
        "acquired": state.acquired,
        "available": state.available,
        "acknowledged": state.acknowledged,
        "archived": state.archived,
        "delayed": state.delayed,
        "backing_off": state.backing_off,
        "delivery_count_limit": state.delivery_count_limit,
        "stalled_ms": state.stalled_ms,
        "oldest": None if state.oldest is None else range_as_json(state.oldest),
        "most_delivered": [range_as_json(one) for one in state.most_delivered],
        "next_locks": [range_as_json(one) for one in state.next_locks],
        "dead_letter_error": error_word(state.letter_failure),
        "dead_letter_error_ms": state.letter_failure_ms if state.letter_failure_ms >= 0 else None,
        "dead_letters_lost": bool(state.letter_failure) and not state.letters_go_on,
    }


def error_word(code: int) -> str | None:
    """Return the name of an error, or its number if only a newer server knows it; None if it is none."""
    if not code:
        return None
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)


def range_as_json(one: InFlightRange) -> dict[str, object]:
    """Return a range of records in the same state; member and lock are null if no member holds it."""
    return {
        "first_offset": one.first_offset,
        "last_offset": one.last_offset,
        "delivery_count": one.delivery_count,
        "state": state_word(one.state),
        "member": one.member_id,
        "lock_left_ms": None if one.member_id is None else one.lock_left_ms,
    }
