"""Explains why a command failed, in one sentence that says what to do; and the exit codes."""

import re
import shlex
import sys
from collections.abc import Mapping
from typing import Final

from ottla.logstore.words.error_words import sentence_of
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.escaped_text import escape_controls

EXIT_FAILURE: Final = 1
EXIT_USAGE: Final = 2
EXIT_INTERRUPTED: Final = 130  # as shells report a process that SIGINT ended
EXIT_TERMINATED: Final = 143  # and one that SIGTERM ended

_FILE: Final = "the file of --command-config or the profile"  # has the security settings of a command
_ADVICE: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "`ottla topic list` shows all topics.",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "A topic name has 1 to 249 characters of a-z, A-Z, 0-9, '.', "
    "'_' and '-', and is neither '.' nor '..'.",
    ErrorCode.INVALID_GROUP_ID: "A group name must not be empty or longer than 1,024 bytes.",
    ErrorCode.TOPIC_ALREADY_EXISTS: "Choose another name, or use --if-not-exists.",
    ErrorCode.INVALID_REPLICATION_FACTOR: "Use a smaller --replicas: the cluster has fewer brokers.",
    ErrorCode.MESSAGE_TOO_LARGE: "Raise the topic's max.message.bytes, or send smaller records.",
    ErrorCode.INVALID_TIMESTAMP: "Use another --timestamp or delay, or raise the topic's "
    "message.timestamp.before.max.ms, message.timestamp.after.max.ms or ottla.delivery.delay.max.ms.",
    ErrorCode.NOT_ENOUGH_REPLICAS: "Too few replicas are in sync; see `ottla topic describe`.",
    ErrorCode.UNSUPPORTED_VERSION: "The server is too old or does not support this request; upgrade it.",
    ErrorCode.OFFSET_OUT_OF_RANGE: "`ottla topic describe` shows the offsets of each partition.",
    ErrorCode.GROUP_ID_NOT_FOUND: "`ottla group list` shows all groups.",
    ErrorCode.NON_EMPTY_GROUP: "Stop its members first; `ottla group members` shows them.",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "Members of the group read this topic; stop them first.",
    ErrorCode.INVALID_REGULAR_EXPRESSION: "Use RE2 syntax in ASCII, for example `orders-.*`.",
    ErrorCode.CONCURRENT_TRANSACTIONS: "Its transaction is decided, but not yet written to all partitions; "
    "try again soon. `ottla txn describe` shows the partitions.",
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "`ottla txn list` shows all transactional ids.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Ask an administrator for access to the "
    "group (`ottla acl create`).",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Ask an administrator for access to the "
    "topic (`ottla acl create`).",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Ask an administrator for access to the "
    "transactional id (`ottla acl create`).",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Ask an administrator for this right on the cluster.",
    ErrorCode.SASL_AUTHENTICATION_FAILED: "Check the user and the password, or "
    f"the token: sasl.jaas.config in {_FILE}.",
    ErrorCode.SECURITY_DISABLED: "ACLs need an authorizer: set "
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer on all nodes.",
}
# The cluster has a problem, and the command is not to blame.
_OF_AN_UNHEALTHY_CLUSTER: Final = frozenset(
    {
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LOG_DIR_NOT_FOUND,
        ErrorCode.CORRUPT_MESSAGE,
    }
)
DOCTOR: Final = "`ottla doctor` looks for the cause."  # if the cluster has a problem, or may have one
# Their own messages are complete, and in words of users.
_OF_CONNECTIONS: Final = (ErrorCode.ILLEGAL_SASL_STATE, ErrorCode.UNSUPPORTED_SASL_MECHANISM)


# Messages of servers, such as Apache Kafka, that say no more than the code.
_EMPTY_MESSAGES: Final = {"This server does not host this topic-partition", "The group id does not exist"}


_SETTING: Final = re.compile(r"\b(?:ssl|sasl|security)\.[a-z]")
_IF_TLS: Final = (
    f"If it is one, set security.protocol to SSL or SASL_SSL in {_FILE}; else check the "
    "address after --bootstrap."
)
_IF_PLAINTEXT: Final = (
    f"If it has none, set security.protocol to PLAINTEXT or SASL_PLAINTEXT in {_FILE}; "
    "else check the address after --bootstrap."
)
# Messages that need no advice.
_COMPLETE_MESSAGES: Final = ("There is no authorizer, so", "raise it with")
_NEEDS: Final = re.compile(
    r"(?:(?P<principal>[^\s:]+:\S+) from \S+ |)needs (?P<operation>[A-Z_]+) permission on "
    r"(?:the cluster|(?P<kind>[A-Z_]+) '(?P<name>[^']*)')"
)


class CommandError(Exception):
    """An error that ends a command; its text is the whole message to the user."""

    def __init__(self, sentence: str, exit_code: int = EXIT_FAILURE) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code


def explain(error: KafkaError) -> str:
    """Return one line about an error of the protocol, with advice if there is any."""
    detail = escape_controls(error.detail.rstrip("."))
    if "requires TLS" in detail:
        return f"{_capitalized(detail)} in {_FILE}, or use a listener without TLS."
    if error.code is ErrorCode.NETWORK_EXCEPTION:
        detail = detail or "the connection was lost"
        hint = "Is a node running there? Start one with `ottla start`, or name another with --bootstrap."
        if (
            "connection refused" not in detail or "other nodes" in detail
        ):  # more than a node that was not started
            hint = f"{hint} {DOCTOR}"
        if "TLS handshake" in detail:
            hint = _IF_PLAINTEXT
        elif "security.protocol" in detail:
            hint = _IF_TLS
        if "ssl.keystore" in detail:
            hint = f"These settings belong in {_FILE}."
        if "cannot be resolved" in detail:
            hint = "Check the address after --bootstrap; it must be host:port."
        return f"{_capitalized(detail)}. {hint}"
    if error.code in _OF_CONNECTIONS or detail.startswith(("no TLS connection to", "ssl.", "sasl.")):
        belong = f" These settings belong in {_FILE}."
        return f"{_capitalized(detail)}.{belong if _SETTING.search(detail) else ''}"
    if error.code is ErrorCode.REQUEST_TIMED_OUT:
        text = _capitalized(detail or "the request timed out")
        return f"{text}. Try again, or use a longer --timeout. {DOCTOR}"
    if detail.endswith("?"):  # the message ends with a question that only the user can answer
        return f"{_capitalized(detail)} Give --bootstrap the host:port of a Kafka listener."
    subject, _, message = detail.rpartition(": ")
    if message in _EMPTY_MESSAGES:
        detail = sentence_of(error.code, subject)
    advice = _ADVICE.get(error.code, "")
    if "has no partition" in detail:
        advice = "`ottla topic describe` shows its partitions."
    if error.code is ErrorCode.INVALID_TOPIC_EXCEPTION and "ASCII" in detail:
        advice = ""  # the server's message is complete
    if _NEEDS.search(detail):
        advice = _grant(detail)
    if any(words in detail for words in _COMPLETE_MESSAGES):
        advice = ""
    if not advice and error.code.retriable:
        advice = "This may be temporary; try again."
    if error.code in _OF_AN_UNHEALTHY_CLUSTER:
        advice = f"{advice} {DOCTOR}".strip()
    words = (
        f"{_capitalized(detail)} ({error.code.name})."
        if detail
        else f"The server answered {error.code.name}."
    )
    return f"{words} {advice}".strip()


def _grant(detail: str) -> str:
    """Return the command that grants the right that an error names."""
    found = _NEEDS.search(detail)
    assert found is not None
    principal = shlex.quote(found["principal"] or "User:NAME")  # quoted, since the line will be copied
    kind = (found["kind"] or "cluster").lower().replace("_", "-")
    option = "--user-principal" if kind == "user" else f"--{kind}"
    name = f" {shlex.quote(found['name'])}" if found["name"] else ""
    return (
        f"An administrator grants it: `ottla acl create --allow {principal} --operation "
        f"{found['operation'].lower()} {option}{name}`."
    )


def print_broker_problems(problems: Mapping[int, KafkaError], noun: str) -> int:
    """Print on stderr the brokers whose part of a list is missing; return the exit code."""
    for broker_id, error in problems.items():
        detail = (error.detail or error.code.name).rstrip(".")
        print(
            f"ottla: the {noun} of broker {broker_id} are missing from this list: {detail}.", file=sys.stderr
        )
    if problems:
        print(f"ottla: {DOCTOR}", file=sys.stderr)
    return EXIT_FAILURE if problems else 0


def _capitalized(text: str) -> str:
    """Begin a sentence with a capital, unless its first word is a name."""
    return text[:1].upper() + text[1:] if text.partition(" ")[0].isalpha() else text
