"""Credentials of users that do not exist never change, and look like those of existing users."""

import base64
import hmac
import random
import secrets
from collections import Counter

import pytest

from ottla.metadata_raft.image import ScramCredential, ScramKey
from ottla.metadata_raft.scram import SALT_BYTES, ScramMechanism
from ottla.node.security.sasl import false_credentials
from ottla.node.security.sasl.false_credentials import FalseCredentials, form_of

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
Credentials = dict[ScramKey, ScramCredential]


def in_base_36(number: int) -> bytes:
    """Return a number in base 36, as Java's BigInteger.toString(36) does."""
    text = ""
    while number:
        number, digit = divmod(number, 36)
        text = DIGITS[digit] + text
    return text.encode()


def kafkas_salt() -> bytes:
    return in_base_36(secrets.randbits(130))


def users(salts: list[bytes], iterations: int = 4_096, mechanism: ScramMechanism = SHA_512) -> Credentials:
    return {
        ScramKey(f"user-{number}", mechanism): ScramCredential(salt, b"stored", b"server", iterations)
        for number, salt in enumerate(salts)
    }


def made(known: Credentials, key: bytes = b"key") -> FalseCredentials:
    return FalseCredentials(lambda: known, key=key)


def shown(
    false: FalseCredentials, count: int = 1_000, mechanism: ScramMechanism = SHA_512
) -> list[ScramCredential]:
    return [false.of(f"nobody-{number}", mechanism) for number in range(count)]


@pytest.mark.parametrize(
    "salt",
    [
        kafkas_salt,
        lambda: secrets.token_bytes(SALT_BYTES),
        lambda: secrets.token_bytes(64),  # librdkafka
        lambda: secrets.token_bytes(16),
        lambda: secrets.token_hex(16).encode(),
        lambda: base64.b64encode(secrets.token_bytes(18)),
        lambda: base64.b64encode(secrets.token_bytes(16)),
    ],
    ids=["kafka", "ottla", "librdkafka", "short", "hex", "base64", "padded"],
)
def test_false_salts_have_the_lengths_and_alphabets_of_real_ones(salt: object) -> None:
    assert callable(salt)
    known = [salt() for _ in range(1_000)]
    credentials = shown(made(users(known, 8_192)))

    assert {one.iterations for one in credentials} == {8_192}
    assert {len(one.salt) for one in credentials} <= {len(one) for one in known} | set(range(22, 27))
    lengths, of_users = (Counter(map(len, one)) for one in ([one.salt for one in credentials], known))
    for length in lengths | of_users:
        assert abs(lengths[length] - of_users[length]) < 100, "a hundredth is by chance"
    letters = {letter for one in known for letter in one}
    assert {letter for one in credentials for letter in one.salt} == letters
    assert len({one.salt for one in credentials}) == len(credentials)


def test_a_false_credential_does_not_change_with_the_users() -> None:
    known = users([kafkas_salt() for _ in range(90)] + [secrets.token_bytes(24) for _ in range(10)])
    before = shown(made(known))
    del known[ScramKey("user-95", SHA_512)]
    after = shown(made(known | {ScramKey("new", SHA_512): ScramCredential(kafkas_salt(), b"", b"", 4_096)}))

    assert sum(one != other for one, other in zip(before, after, strict=True)) < 40


def test_forms_are_as_frequent_as_among_users() -> None:
    known = users([kafkas_salt() for _ in range(90)] + [secrets.token_bytes(24) for _ in range(10)])

    forms = Counter(form_of(SHA_512, one).length for one in shown(made(known), 2_000))

    assert set(forms) == {0, 24} and 140 < forms[24] < 260


def test_iterations_are_those_of_the_mechanism() -> None:
    known = users([b"salt" * 6], 10_000) | users([b"salt" * 4], 5_000, SHA_256)

    assert {one.iterations for one in shown(made(known))} == {10_000}
    assert {one.iterations for one in shown(made(known), mechanism=SHA_256)} == {5_000}


def test_passwords_of_unknown_users_are_checked_by_the_mechanisms_of_real_users() -> None:
    strong, weak = users([b"salt" * 6] * 3, 10_000), users([b"salt" * 4] * 4, 5_000, SHA_256)

    found = Counter(
        (one.mechanism, one.credential.iterations)
        for one in (made(strong | weak).of_password(f"nobody-{number}") for number in range(2_000))
    )

    assert set(found) == {(SHA_512, 10_000), (SHA_256, 5_000)}
    assert 400 < found[SHA_256, 5_000] < 600, "three of four users have the stronger one, too"


def test_nodes_with_one_key_send_equal_salts_and_with_another_key_different_ones() -> None:
    known = users([kafkas_salt() for _ in range(20)])
    reordered = dict(sorted(known.items(), reverse=True))

    assert shown(made(known)) == shown(made(reordered))
    others = shown(made(known, b"other"))
    assert not {one.salt for one in others} & {one.salt for one in shown(made(known))}


def test_without_users_false_credentials_look_like_those_of_our_tools() -> None:
    credential = made({}).of("ann", SHA_512)

    assert len(credential.salt) == SALT_BYTES and credential.iterations == 4_096
    assert made({}).of("ann", SHA_256).salt != credential.salt
    assert made({}).of_password("ann").mechanism is SHA_512


def test_no_password_matches_a_false_credential() -> None:
    assert set(made({}).of("ann", SHA_512).stored_key) == {0}


def test_forms_are_counted_once_after_a_change_and_among_some_credentials_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counted: list[int] = []
    find = false_credentials.find_forms

    def watched(credentials: Credentials) -> object:
        counted.append(len(credentials))
        return find(credentials)

    monkeypatch.setattr(false_credentials, "find_forms", watched)
    monkeypatch.setattr(false_credentials, "MAX_COUNTED", 10)
    known = users([bytes(24)] * 10 + [bytes(64)] * 10)
    false = FalseCredentials(lambda: known)
    assert {len(one.salt) for one in shown(false)} == {24} and counted == [20]

    known = users([bytes(64)])
    assert {len(one.salt) for one in shown(false)} == {64} and counted == [20, 1]


def test_the_number_of_forms_is_limited() -> None:
    chance = random.Random(7)
    known = users([chance.randbytes(1 + number % 500) for number in range(4_000)])

    assert len(false_credentials.find_forms(known).of_mechanism[SHA_512]) == false_credentials.MAX_FORMS


def test_a_long_name_is_hashed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[int] = []
    digest = hmac.digest

    def watched(key: bytes, message: bytes, name: str) -> bytes:
        hashed.append(len(message))
        return digest(key, message, name)

    monkeypatch.setattr(hmac, "digest", watched)
    known = users([bytes([255]) * length for length in range(1, 20)])
    made(known).of("x" * 60_000, SHA_512)

    assert len(hashed) > false_credentials.MAX_FORMS and max(hashed) < 300


def test_a_name_of_any_characters_has_a_false_credential() -> None:
    for name in ("", "ü,=", "\udcff", "x" * 100_000):
        assert made({}).of(name, SHA_512).salt
