"""The first SCRAM users of a new cluster."""

import base64
import hashlib

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.scram import SALT_BYTES, ScramMechanism, keys_of
from ottla.node.settings.config import parse_config
from ottla.node.settings.first_users import MAX_FIRST_USERS, first_records, parse_first_users

SHA_512 = ScramMechanism.SCRAM_SHA_512
CLUSTER_ID = bytes(range(16))
KEY = bytes(range(32))


def test_users_have_the_notation_of_kafka_storage() -> None:
    text = 'SCRAM-SHA-512=[name=anna,password=a=b];SCRAM-SHA-256=[name="b;,]",password="p,]",iterations=8192]'

    anna, bert = parse_first_users(text)

    assert (anna.name, anna.mechanism, anna.password, anna.iterations) == ("anna", SHA_512, "a=b", 4_096)
    assert (bert.name, bert.password, bert.iterations) == ("b;,]", "p,]", 8_192)
    assert parse_first_users(None) == parse_first_users(" ") == ()


@pytest.mark.parametrize("iterations", [4_096, 5_000])
def test_a_password_and_its_salted_form_give_the_same_keys(iterations: int) -> None:
    (user,) = parse_first_users(f"SCRAM-SHA-512=[name=anna,password=secret,iterations={iterations}]")
    made = user.record(CLUSTER_ID, KEY)
    salted = hashlib.pbkdf2_hmac("sha512", b"secret", made.salt, iterations)
    options = (
        f"saltedpassword={base64.b64encode(salted).decode()},salt={base64.b64encode(made.salt).decode()}"
    )

    (again,) = parse_first_users(f"SCRAM-SHA-512=[name=anna,{options},iterations={iterations}]")

    assert again.record(CLUSTER_ID, KEY) == made
    assert (made.stored_key, made.server_key) == keys_of(SHA_512, salted)


def test_salts_differ_by_user_mechanism_cluster_and_key() -> None:
    users = parse_first_users(
        "SCRAM-SHA-512=[name=a,password=p];SCRAM-SHA-512=[name=b,password=p];SCRAM-SHA-256=[name=a,password=p]"
    )

    made = [
        one.salt
        for key, cluster_id in ((KEY, CLUSTER_ID), (KEY, bytes(16)), (bytes(32), CLUSTER_ID))
        for one in first_records(users, key, cluster_id)
    ]

    assert len(set(made)) == 9 and {len(one) for one in made} == {SALT_BYTES}


@pytest.mark.parametrize(
    "text",
    [
        "anna:secret",
        "SCRAM-SHA-1=[name=a,password=secret]",
        "SCRAM-SHA-512=[password=secret]",
        "SCRAM-SHA-512=[name=a]",
        "SCRAM-SHA-512=[name=a,password=secret,iterations=4095]",
        "SCRAM-SHA-512=[name=a,password=secret,iterations=16385]",
        "SCRAM-SHA-512=[name=a,password=secret,iterations=x]",
        "SCRAM-SHA-512=[name=a,password=secret,saltedpassword=secret,salt=aa]",
        "SCRAM-SHA-512=[name=a,saltedpassword=secret]",
        "SCRAM-SHA-512=[name=a,saltedpassword=!!,salt=aaaa]",
        "SCRAM-SHA-512=[name=a,saltedpassword=aaaa,salt=aaaa]",
        "SCRAM-SHA-512=[name=a,password=secret,color=red]",
        "SCRAM-SHA-512=[name=a,password=secret];SCRAM-SHA-512=[name=a,password=secret]",
        "SCRAM-SHA-512=[name=a,password=secret",
        ";".join(f"SCRAM-SHA-512=[name=a{i},password=secret]" for i in range(MAX_FIRST_USERS + 1)),
    ],
)
def test_the_error_about_an_invalid_text_has_no_passwords(text: str) -> None:
    with pytest.raises(KafkaError, match=r"Invalid configuration ottla\.add\.scram: ") as refused:
        parse_config({"ottla.add.scram": text})

    assert refused.value.code is ErrorCode.INVALID_CONFIG
    assert "secret" not in refused.value.detail.replace("saltedpassword", "")


def test_a_configuration_does_not_show_the_passwords() -> None:
    config = parse_config({"ottla.add.scram": "SCRAM-SHA-512=[name=anna,password=geheim]"})

    assert [one.name for one in config.first_users] == ["anna"]
    assert "geheim" not in repr(config)
