"""Every error is reported as a sentence: what happened, to what, and what to do."""

import pytest

from ottla.logstore.words.error_words import sentence_of, subject_of
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.cli.failure import explain
from ottla.node.client.cluster_client import check, parse_bootstrap
from ottla.node.rest_api.rest_error import rest_error_of

E = ErrorCode
SUBJECTS = (
    "topic orders",
    "orders-0",
    "group billing",
    "transactional id t",
    "the request for a producer id",
    "the offsets of group billing",
    "the fetch from host:9092",
)


def message(code: ErrorCode, subject: str) -> str:
    """Return the line that `ottla` prints if a server returns this code without a message."""
    with pytest.raises(KafkaError) as raised:
        check(code, None, subject)
    return explain(raised.value)


@pytest.mark.parametrize("code", [code for code in ErrorCode if code is not E.NONE])
def test_every_code_makes_a_sentence_about_every_subject(code: ErrorCode) -> None:
    for subject in SUBJECTS:
        named = subject_of(subject)
        sentence = sentence_of(code, subject)
        printed = message(code, subject)

        assert named in sentence and len(sentence.split()) > len(named.split()) + 1, sentence
        assert not sentence.endswith(".") and "{" not in sentence
        assert printed[0].isupper() or printed.startswith(subject), printed
        assert printed.endswith((".", "?")) and named.lower() in printed.lower()
        # A noun alone is not a sentence, and a code is not a word of users.
        assert not printed.lower().startswith((f"{named.lower()} (", f"{named.lower()}. "))
        assert sentence_of(code, subject).split()[0] != code.name


@pytest.mark.parametrize("code", [code for code in ErrorCode if code is not E.NONE])
def test_the_rest_api_returns_the_same_sentence(code: ErrorCode) -> None:
    detail = sentence_of(code, "topic orders")

    assert detail in rest_error_of(KafkaError(code, detail)).message


@pytest.mark.parametrize(
    ("code", "subject", "sentence"),
    [
        (
            E.UNKNOWN_TOPIC_OR_PARTITION,
            "topic nope",
            "Topic 'nope' does not exist (UNKNOWN_TOPIC_OR_PARTITION). `ottla topic list` shows all topics.",
        ),
        (
            E.GROUP_ID_NOT_FOUND,
            "group nope",
            "Group 'nope' does not exist (GROUP_ID_NOT_FOUND). `ottla group list` shows all groups.",
        ),
        (
            E.REQUEST_TIMED_OUT,
            "the request for a producer id",
            "The server timed out on the request for a producer id. Try again, or use a longer --timeout. "
            "`ottla doctor` looks for the cause.",
        ),
        (
            E.NOT_CONTROLLER,
            "topic orders",
            "The cluster has no active controller to handle topic 'orders' "
            "(NOT_CONTROLLER). This may be temporary; try again. `ottla doctor` looks for the cause.",
        ),
        (
            E.LEADER_NOT_AVAILABLE,
            "orders-0",
            "orders-0 has no leader at the moment (LEADER_NOT_AVAILABLE). This may be temporary; try again. "
            "`ottla doctor` looks for the cause.",
        ),
        (
            E.INVALID_CONFIG,
            "topic orders",
            "The server refused topic 'orders' (INVALID_CONFIG).",
        ),
    ],
)
def test_an_error_without_a_message_is_printed_as_a_sentence_with_advice(
    code: ErrorCode, subject: str, sentence: str
) -> None:
    assert message(code, subject) == sentence


def test_a_name_in_quotes_is_not_quoted_again() -> None:
    assert subject_of("topic 'orders'") == "topic 'orders'"
    assert subject_of("the offsets of group billing") == "the offsets of group 'billing'"
    assert subject_of("the subtopic x") == "the subtopic x"


@pytest.mark.parametrize("text", ["http://localhost:9092", "a:9092,https://b:8080", "kafka://h"])
def test_a_url_is_no_address_of_a_node(text: str) -> None:
    with pytest.raises(ValueError, match=r"is a URL\. Give the address of a Kafka listener without"):
        parse_bootstrap(text)


def test_the_advice_for_a_name_that_cannot_be_resolved_is_to_check_it() -> None:
    error = KafkaError(E.NETWORK_EXCEPTION, "no connection to nowhere:9092: the name cannot be resolved")

    assert "Check the address" in explain(error) and "ottla start" not in explain(error)


def test_the_advice_for_a_port_that_speaks_http_is_to_give_a_kafka_listener() -> None:
    error = KafkaError(
        E.INVALID_REQUEST, "h:8080 speaks HTTP, not the Kafka protocol: is this the REST port?"
    )

    assert explain(error) == (
        "h:8080 speaks HTTP, not the Kafka protocol: is this the REST port? Give --bootstrap the "
        "host:port of a Kafka listener."
    )


@pytest.mark.parametrize(
    ("detail", "command"),
    [
        (
            "the list of ACLs: User:anna from 10.0.0.7 needs DESCRIBE permission on the cluster",
            "ottla acl create --allow User:anna --operation describe --cluster",
        ),
        (
            "this client needs ALTER_CONFIGS permission on the cluster for the quotas",
            "ottla acl create --allow User:NAME --operation alter_configs --cluster",
        ),
        (
            "User:a$b from 0:0:0:0:0:0:0:1 needs WRITE permission on TRANSACTIONAL_ID 'my copy'",
            "ottla acl create --allow 'User:a$b' --operation write --transactional-id 'my copy'",
        ),
        (
            "User:anna from 10.0.0.7 needs CREATE_TOKENS permission on USER 'User:bob'",
            "ottla acl create --allow User:anna --operation create_tokens --user-principal User:bob",
        ),
    ],
)
def test_a_missing_right_is_reported_with_the_command_that_grants_it(detail: str, command: str) -> None:
    message = explain(KafkaError(E.CLUSTER_AUTHORIZATION_FAILED, detail))

    assert message.endswith(f" An administrator grants it: `{command}`.")


def test_errors_that_say_what_to_do_get_no_other_advice() -> None:
    feature = KafkaError(
        E.UNSUPPORTED_VERSION, "it keeps no ACLs: raise it with kafka-features upgrade --feature a=1."
    )
    machine = KafkaError(
        E.CLUSTER_AUTHORIZATION_FAILED, "There is no authorizer, so only nodes may. Set x=y."
    )

    assert explain(feature).endswith("--feature a=1 (UNSUPPORTED_VERSION).")
    assert explain(machine).endswith("Set x=y (CLUSTER_AUTHORIZATION_FAILED).")


def test_an_error_without_an_authorizer_names_its_setting() -> None:
    message = explain(KafkaError(E.SECURITY_DISABLED, "the list of ACLs: No Authorizer is configured."))

    assert "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer" in message
