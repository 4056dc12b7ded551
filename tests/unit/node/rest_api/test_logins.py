"""Known passwords, waits after wrong ones, and sessions: their content, their expiry and their limits."""

import itertools
from collections.abc import Iterable

import pytest

from ottla.metadata_raft.image import ScramCredential
from ottla.node.rest_api import known_passwords, login_waits, sessions
from ottla.node.rest_api.known_passwords import KnownPasswords
from ottla.node.rest_api.login_waits import FREE, MAX_WAIT_S, LoginWaits
from ottla.node.rest_api.sessions import Session, Sessions, is_own_token

KEY = bytes(32)
CREDENTIAL = ScramCredential(b"salt", b"stored", b"server", 4_096)


def made(idle_s: float = 10.0, max_s: float = 100.0) -> Sessions:
    numbers = itertools.count(1)
    return Sessions(lambda size: next(numbers).to_bytes(size, "big"), idle_s=idle_s, max_s=max_s)


# ---- passwords ---------------------------------------------------------------------------------------------


def test_a_password_is_known_for_its_user_and_credential_alone() -> None:
    known = KnownPasswords(bytes(32))
    known.add("ann", "right", CREDENTIAL)

    assert known.is_right("ann", "right", CREDENTIAL)
    assert not known.is_right("ann", "wrong", CREDENTIAL)
    assert not known.is_right("bob", "right", CREDENTIAL)
    assert known.is_right("ann", "right", CREDENTIAL)


def test_a_password_is_forgotten_when_its_credential_changes() -> None:
    known = KnownPasswords(bytes(32))
    known.add("ann", "right", CREDENTIAL)

    assert not known.is_right("ann", "right", CREDENTIAL._replace(stored_key=b"another"))
    assert not known.is_right("ann", "right", CREDENTIAL) and len(known) == 0


def test_known_passwords_have_a_limit() -> None:
    known = KnownPasswords(bytes(32))
    for number in range(known_passwords.MAX_USERS + 10):
        known.add(f"user-{number}", "right", CREDENTIAL)

    assert len(known) == known_passwords.MAX_USERS
    assert not known.is_right("user-0", "right", CREDENTIAL)


def test_no_password_is_kept_as_it_is() -> None:
    known = KnownPasswords(bytes(32))
    known.add("ann", "very-secret", CREDENTIAL)

    assert "very-secret" not in repr(vars(known))


# ---- waits -------------------------------------------------------------------------------------------------


def test_some_wrong_passwords_are_free_and_then_the_wait_doubles() -> None:
    waits, found = LoginWaits(KEY), []
    for _ in range(FREE + 4):
        waits.failed("ann", "10.0.0.1", 0.0)
        found.append(waits.wait_s("ann", "10.0.0.1", 0.0))

    assert found == [0.0] * (FREE - 1) + [1.0, 2.0, 4.0, 8.0, 16.0]
    assert waits.wait_s("ann", "10.0.0.1", 15.0) == 1.0 and waits.wait_s("ann", "10.0.0.1", 16.0) == 0.0


def test_other_users_and_addresses_do_not_wait() -> None:
    waits = LoginWaits(KEY)
    for _ in range(1_000):
        waits.failed("ann", "10.0.0.1", 0.0)

    assert waits.wait_s("ann", "10.0.0.1", 0.0) == MAX_WAIT_S
    assert waits.wait_s("ann", "10.0.0.2", 0.0) == 0.0 and waits.wait_s("bob", "10.0.0.1", 0.0) == 0.0


def test_the_right_password_and_time_end_a_wait() -> None:
    waits = LoginWaits(KEY)
    for _ in range(FREE + 1):
        waits.failed("ann", "a", 0.0)
        waits.failed("bob", "a", 0.0)
    waits.succeeded("ann", "a")

    assert waits.wait_s("ann", "a", 0.0) == 0.0 and waits.wait_s("bob", "a", 0.0) > 0
    assert waits.wait_s("bob", "a", login_waits.FORGOTTEN_AFTER_S + 1) == 0.0 and len(waits) == 0


def test_waits_have_a_limit_also_in_the_length_of_names() -> None:
    waits = LoginWaits(KEY)
    for number in range(login_waits.MAX_REMEMBERED + 100):
        waits.failed(f"user-{number}", "a", 0.0)
    for number in range(FREE + 1):
        waits.failed("x" * login_waits.MAX_USER_CHARS + str(number), "a", 0.0)

    assert len(waits) == login_waits.MAX_REMEMBERED
    assert waits.wait_s("x" * 10_000, "a", 0.0) > 0


def try_passwords(waits: LoginWaits, user: str, addresses: Iterable[str], now_s: float = 0.0) -> int:
    """Try a wrong password from each address, all at once; return the number that were checked."""
    begun = []
    for address in addresses:
        if not waits.wait_s(user, address, now_s):
            waits.begun(user, address, now_s)
            begun.append(address)
    for address in begun:
        waits.failed(user, address, now_s)
    return len(begun)


def test_guesses_for_one_user_from_very_many_addresses_are_bounded_also_at_once() -> None:
    waits = LoginWaits(KEY)
    botnet = [f"10.1.{number // 250}.{number % 250}" for number in range(5_000)]

    assert try_passwords(waits, "ann", botnet) == login_waits.UNKNOWN_ADDRESS_BURST
    assert [try_passwords(waits, "ann", botnet, now_s) for now_s in (1.0, 2.0, 12.0)] == [1, 1, 10]
    assert try_passwords(waits, "bob", botnet[:50]) == 50


def test_a_user_that_has_logged_in_before_is_not_locked_out_by_unknown_clients() -> None:
    waits = LoginWaits(KEY)
    waits.begun("ann", "192.168.0.1", 0.0)
    waits.succeeded("ann", "192.168.0.1")
    try_passwords(waits, "ann", (f"10.1.1.{number}" for number in range(250)))

    assert waits.wait_s("ann", "192.168.0.1", 0.0) == 0.0
    assert 0.0 < waits.wait_s("ann", "192.168.0.2", 0.0) <= 1.0 / login_waits.UNKNOWN_ADDRESS_PER_SECOND


def test_right_passwords_cost_unknown_clients_nothing() -> None:
    waits = LoginWaits(KEY)
    for number in range(1_000):
        address = f"10.1.{number // 250}.{number % 250}"
        assert waits.wait_s("ann", address, 0.0) == 0.0
        waits.begun("ann", address, 0.0)
        waits.succeeded("ann", address)


def test_tries_that_were_not_verified_cost_nothing() -> None:
    waits = LoginWaits(KEY)
    for number in range(1_000):
        waits.begun("ann", f"10.0.0.{number % 200}", 0.0)
        waits.release("ann", f"10.0.0.{number % 200}")

    assert waits.wait_s("ann", "10.0.1.1", 0.0) == 0.0


def test_names_that_were_made_up_do_not_push_out_what_is_known_of_a_user() -> None:
    waits = LoginWaits(KEY)
    waits.begun("ann", "192.168.0.1", 0.0)
    waits.succeeded("ann", "192.168.0.1")
    botnet = [f"10.1.1.{number}" for number in range(250)]
    try_passwords(waits, "ann", botnet)
    for number in range(2 * login_waits.MAX_REMEMBERED):
        try_passwords(waits, f"made-up-{number}", ["10.2.0.1"])

    assert try_passwords(waits, "ann", (f"10.3.1.{number}" for number in range(250))) == 0
    assert waits.wait_s("ann", "192.168.0.1", 0.0) == 0.0


def test_the_addresses_of_a_user_have_a_limit_and_push_out_its_own() -> None:
    waits = LoginWaits(KEY)
    waits.succeeded("bob", "192.168.0.1")
    for number in range(login_waits.MAX_ADDRESSES_OF_USER + 1):
        waits.succeeded("ann", f"10.0.0.{number}")
    for user in ("ann", "bob"):
        try_passwords(waits, user, (f"10.1.1.{number}" for number in range(250)))

    assert waits.wait_s("ann", "10.0.0.0", 0.0) > 0 and waits.wait_s("ann", "10.0.0.1", 0.0) == 0.0
    assert waits.wait_s("bob", "192.168.0.1", 0.0) == 0.0


# ---- sessions ----------------------------------------------------------------------------------------------


def test_a_session_is_found_by_its_id_alone() -> None:
    known = made()
    first_id, first = known.begin("User:ann", now_s=0.0)
    second_id, second = known.begin("User:ann", now_s=0.0)

    assert known.find(first_id, 1.0) is first and known.find(second_id, 1.0) is second
    assert known.find(first_id[:-1], 1.0) is None and known.find("", 1.0) is None
    assert first.csrf_token not in (first_id, second.csrf_token)


def test_a_session_ends_when_it_is_not_used_and_at_its_end_in_any_case() -> None:
    known = made(idle_s=10.0, max_s=25.0)
    idle_id, _ = known.begin("User:ann", now_s=0.0)
    used_id, _ = known.begin("User:ann", now_s=0.0)

    assert known.find(used_id, 9.0) is not None and known.find(used_id, 18.0) is not None
    assert known.find(idle_id, 10.0) is None
    assert known.find(used_id, 24.9) is not None and known.find(used_id, 25.0) is None


def test_a_session_does_not_outlive_the_token_that_it_began_with() -> None:
    known = made()
    session_id, _ = known.begin("User:ann", now_s=0.0, ends_s=3.0)

    assert known.find(session_id, 2.9) is not None and known.find(session_id, 3.0) is None


def test_a_session_that_was_ended_is_not_found_again() -> None:
    known = made()
    session_id, session = known.begin("User:ann", now_s=0.0)
    known.end(session)
    known.end(session)

    assert known.find(session_id, 0.0) is None and len(known) == 0


def test_sessions_have_limits_and_one_principal_pushes_out_its_own() -> None:
    known = made()
    bobs, _ = known.begin("User:bob", now_s=0.0)
    first, _ = known.begin("User:ann", now_s=0.0)
    for _ in range(sessions.MAX_SESSIONS_OF_PRINCIPAL):
        known.begin("User:ann", now_s=0.0)

    assert len(known) == sessions.MAX_SESSIONS_OF_PRINCIPAL + 1
    assert known.find(first, 0.0) is None and known.find(bobs, 0.0) is not None


def test_all_sessions_together_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "MAX_SESSIONS", 5 * sessions.MAX_SESSIONS_OF_PRINCIPAL)
    known = made()
    for number in range(7):
        for _ in range(sessions.MAX_SESSIONS_OF_PRINCIPAL):
            known.begin(f"User:{number}", now_s=0.0)

    assert len(known) == sessions.MAX_SESSIONS


def test_the_token_of_another_session_is_none() -> None:
    known = made()
    _, first = known.begin("User:ann", now_s=0.0)
    _, second = known.begin("User:ann", now_s=0.0)

    assert is_own_token(first, first.csrf_token)
    assert not is_own_token(first, second.csrf_token) and not is_own_token(first, "")
    assert not is_own_token(first, "\udcff")


def test_a_session_shows_none_of_its_secrets() -> None:
    known = made()
    session_id, session = known.begin("User:ann", now_s=0.0, user="ann", credential=CREDENTIAL)

    assert isinstance(session, Session)
    assert session.csrf_token not in repr(session) and session_id not in repr(session)
