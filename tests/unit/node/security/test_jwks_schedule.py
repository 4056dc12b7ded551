"""Keys are fetched again in time, after failures with pauses, and for unknown keys without a storm."""

from ottla.node.security.jwks_schedule import (
    MAX_REMEMBERED,
    TOKEN_FETCH_PAUSE_MS,
    UNKNOWN_KID_PAUSE_MS,
    JwksSchedule,
)
from ottla.node.settings.oauthbearer_settings import JwksPauses

PAUSES = JwksPauses(refresh_ms=600_000, retry_backoff_ms=100, retry_backoff_max_ms=1_000)


def fetched(now_ms: int = 0) -> JwksSchedule:
    schedule = JwksSchedule(PAUSES)
    schedule.fetched(now_ms)
    return schedule


def test_the_first_fetch_is_due_at_once_and_the_next_after_the_refresh() -> None:
    assert JwksSchedule(PAUSES).due_ms == 0
    assert fetched(5).due_ms == 600_005


def test_after_failures_pauses_grow_up_to_a_limit_and_restart_after_a_success() -> None:
    schedule, seen = fetched(), []
    for _ in range(6):
        schedule.failed(0)
        seen.append(schedule.due_ms)
    schedule.fetched(0)
    schedule.failed(0)

    assert seen == [100, 200, 400, 800, 1_000, 1_000]
    assert schedule.due_ms == 100


def test_an_unknown_key_causes_a_fetch_soon_and_once_a_minute() -> None:
    schedule = fetched()
    now_ms = TOKEN_FETCH_PAUSE_MS

    assert schedule.ask("new", now_ms) and schedule.due_ms == now_ms
    schedule.fetched(now_ms)
    assert not schedule.ask("new", now_ms + UNKNOWN_KID_PAUSE_MS - 1)
    assert schedule.due_ms == now_ms + 600_000
    assert schedule.ask("new", now_ms + UNKNOWN_KID_PAUSE_MS)


def test_many_unknown_keys_cause_a_fetch_every_ten_seconds() -> None:
    schedule, fetches, now_ms = fetched(), 0, 0
    for number in range(6_000):
        now_ms += 10
        schedule.ask(f"made-up-{number}", now_ms)
        if schedule.due_ms <= now_ms:
            fetches += 1
            schedule.fetched(now_ms)

    assert fetches == 60_000 // TOKEN_FETCH_PAUSE_MS


def test_a_new_key_is_fetched_within_ten_seconds_despite_other_unknown_ids() -> None:
    schedule = fetched()
    for number in range(2 * MAX_REMEMBERED):
        schedule.ask(f"made-up-{number}", 1)

    schedule.ask("new", 2)

    assert schedule.due_ms <= TOKEN_FETCH_PAUSE_MS


def test_unknown_keys_do_not_hasten_retries_while_the_provider_fails() -> None:
    schedule = fetched()
    schedule.failed(0)

    assert not schedule.ask("new", 1)
    assert schedule.due_ms == 100
