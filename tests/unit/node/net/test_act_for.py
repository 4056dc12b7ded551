"""A node acts for a caller of its REST API: both ends prove themselves, and nothing can be altered."""

import os

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.net.act_for import (
    ActingChallenge,
    ActingNode,
    ActingSecrets,
    Caller,
    act,
    answer_hello,
    check_caller,
    hello,
)
from ottla.node.wire.messages.act_for import ActForRequest, ActForResponse

CLUSTER = bytes(range(16))
ANN = Caller("User:ann", "10.0.0.7", False)


def node(node_id: int, secret: bytes | None = b"secret", cluster: bytes = CLUSTER) -> ActingSecrets:
    return ActingSecrets(os.urandom(32), secret, lambda: ActingNode(node_id, cluster), os.urandom)


def handshake(
    client: ActingSecrets, server: ActingSecrets, caller: Caller = ANN
) -> tuple[ActForRequest, ActingChallenge]:
    """Return the client's last message, and the server's challenge."""
    nonce = client.unique(32)
    answer, challenge = answer_hello(hello(client, nonce), server)
    return act(answer, caller, nonce, client), challenge


def code_of(work: object) -> ErrorCode:
    assert callable(work)
    with pytest.raises(KafkaError) as refused:
        work()
    return refused.value.code


def test_a_node_of_the_cluster_acts_for_its_caller() -> None:
    server = node(2)
    request, challenge = handshake(node(1), server)

    assert check_caller(request, challenge, server) == ANN


def test_a_node_acts_at_itself_without_a_secret_of_the_cluster() -> None:
    alone = node(1, secret=None)
    request, challenge = handshake(alone, alone)

    assert check_caller(request, challenge, alone) == ANN


def test_another_process_with_the_same_id_is_not_this_node() -> None:
    """It knows the secret of the cluster, but not that of this process."""
    server = node(1)
    answer, _ = answer_hello(hello(node(1), bytes(32)), server)

    assert code_of(lambda: act(answer, ANN, bytes(32), node(1))) is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@pytest.mark.parametrize(
    "changed",
    [
        {"principal": "User:admin"},
        {"host": "127.0.0.1"},
        {"is_local": True},
        {"proof": bytes(32)},
        {"proof": b""},
        {"step": 0},
    ],
)
def test_no_part_of_the_proof_can_be_changed(changed: dict[str, object]) -> None:
    server = node(2)
    request, challenge = handshake(node(1), server)
    fields = {name: getattr(request, name) for name in ("step", "principal", "host", "is_local", "proof")}

    forged = ActForRequest(**{**fields, **changed})

    assert code_of(lambda: check_caller(forged, challenge, server)) is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_a_proof_is_good_for_one_connection() -> None:
    server = node(2)
    request, _ = handshake(node(1), server)
    _, another = handshake(node(1), server)

    assert code_of(lambda: check_caller(request, another, server)) is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_characters_cannot_move_from_the_host_to_the_principal() -> None:
    server = node(2)
    request, challenge = handshake(node(1), server, Caller("User:ann", "1.2.3.4", False))
    forged = ActForRequest(step=1, principal="User:ann1", host=".2.3.4", proof=request.proof)

    assert code_of(lambda: check_caller(forged, challenge, server)) is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_a_node_that_does_not_know_the_secret_is_refused_at_both_ends() -> None:
    impostor, server = node(1, b"guess"), node(2)
    nonce = bytes(32)
    answer, challenge = answer_hello(hello(impostor, nonce), server)

    assert code_of(lambda: act(answer, ANN, nonce, impostor)) is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    unchecked = ActForResponse(node_id=2, nonce=answer.nonce, proof=answer.proof)
    assert code_of(lambda: act(unchecked, ANN, nonce, impostor)) is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    made_up = ActForRequest(step=1, principal="User:ann", host="h", proof=bytes(32))
    assert code_of(lambda: check_caller(made_up, challenge, server)) is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_a_node_without_the_secret_accepts_only_itself() -> None:
    server = node(2, secret=None)

    code = code_of(lambda: answer_hello(hello(node(1), bytes(32)), server))

    assert code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@pytest.mark.parametrize(
    ("caller", "code"),
    [
        (Caller("", "h", False), ErrorCode.INVALID_REQUEST),
        (Caller("User:a", "", False), ErrorCode.INVALID_REQUEST),
        (Caller("x" * 2_001, "h", False), ErrorCode.INVALID_REQUEST),
        (Caller("User:a", "h" * 256, False), ErrorCode.INVALID_REQUEST),
    ],
)
def test_names_have_limits(caller: Caller, code: ErrorCode) -> None:
    server = node(2)
    request, challenge = handshake(node(1), server, caller)

    assert code_of(lambda: check_caller(request, challenge, server)) is code


def test_malformed_greetings_and_other_clusters_are_refused() -> None:
    server = node(2)
    short = ActForRequest(node_id=1, cluster_id=CLUSTER, nonce=b"short")
    without_id = ActForRequest(node_id=-1, cluster_id=CLUSTER, nonce=bytes(32))

    assert code_of(lambda: answer_hello(short, server)) is ErrorCode.INVALID_REQUEST
    assert code_of(lambda: answer_hello(without_id, server)) is ErrorCode.INVALID_REQUEST
    foreign = hello(node(1, cluster=bytes(16)), bytes(32))
    assert code_of(lambda: answer_hello(foreign, server)) is ErrorCode.INCONSISTENT_CLUSTER_ID
