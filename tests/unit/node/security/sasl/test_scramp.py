"""SCRAM against another implementation, scramp: our server with its client, our client with its server."""

from collections.abc import Callable

import pytest
from scramp import ScramClient as TheirClient
from scramp import ScramException
from scramp import ScramMechanism as Theirs

from ottla.metadata_raft.image import ScramCredential
from ottla.metadata_raft.scram import SCRAM_MECHANISMS
from ottla.node.secure_client.scram_client import ScramClient, ServerRefusedError
from ottla.node.security.sasl.sasl_error import SaslError
from ottla.node.security.sasl.scram import ScramExchange

MECHANISMS = sorted(SCRAM_MECHANISMS)
ITERATIONS = 4_096
PASSWORDS = [("anna", "secret"), ("a=b,c", "pass word, =2C"), ("User", "n,,r=x,p=y" * 20)]


def credential(mechanism: str, password: str) -> ScramCredential:
    """Return the credential that scramp stores for a password."""
    kept = Theirs(mechanism).make_auth_info(password, iteration_count=ITERATIONS, salt=b"salt of sixteen!")
    return ScramCredential(*kept)


def our_server(mechanism: str, user: str, kept: ScramCredential) -> ScramExchange:
    """Return our server with one user."""
    users = {user: kept}
    return ScramExchange(SCRAM_MECHANISMS[mechanism], users.get, lambda user: kept, nonce=b"OURS")


def log_in(server: ScramExchange, mechanism: str, user: str, password: str) -> None:
    """Run a login of scramp's client at our server; each end raises an error if the other one is wrong."""
    client = TheirClient([mechanism], user, password)
    client.set_server_first(server.respond(client.get_client_first().encode()).decode())
    client.set_server_final(server.respond(client.get_client_final().encode()).decode())


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(("user", "password"), PASSWORDS)
def test_scramps_client_logs_in_to_our_server(mechanism: str, user: str, password: str) -> None:
    server = our_server(mechanism, user, credential(mechanism, password))

    log_in(server, mechanism, user, password)

    assert server.is_complete and server.user == user


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(("user", "password"), [("anna", "guessed"), ("bob", "secret")])
def test_scramps_client_is_rejected_with_wrong_credentials(mechanism: str, user: str, password: str) -> None:
    server = our_server(mechanism, "anna", credential(mechanism, "secret"))

    with pytest.raises(SaslError, match="wrong user or password"):
        log_in(server, mechanism, user, password)

    assert not server.is_complete


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_scramps_client_detects_that_our_server_does_not_know_the_password(mechanism: str) -> None:
    """A server that has only the stored key accepts the client, but cannot prove itself."""
    kept = credential(mechanism, "secret")
    server = our_server(mechanism, "anna", kept._replace(server_key=bytes(len(kept.server_key))))

    with pytest.raises(ScramException):
        log_in(server, mechanism, "anna", "secret")


def their_server(mechanism: str, password: str) -> Callable[[bytes], bytes]:
    """Return scramp's server, which answers a message, and raises ScramException for a wrong one."""
    theirs = Theirs(mechanism)
    kept = theirs.make_auth_info(password, iteration_count=ITERATIONS)
    server, messages = theirs.make_server(lambda user: kept), 0

    def respond(message: bytes) -> bytes:
        nonlocal messages
        messages += 1
        if messages == 1:
            server.set_client_first(message.decode())
            return str(server.get_server_first()).encode()
        server.set_client_final(message.decode())
        return str(server.get_server_final()).encode()

    return respond


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(("user", "password"), PASSWORDS)
def test_our_client_logs_in_to_scramps_server(mechanism: str, user: str, password: str) -> None:
    client, respond = ScramClient(mechanism, user, password, nonce=b"OURS"), their_server(mechanism, password)

    final = client.respond(respond(client.first()))
    assert final is not None
    assert client.respond(respond(final)) is None

    assert client.is_complete


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_our_client_is_rejected_with_a_wrong_password(mechanism: str) -> None:
    client = ScramClient(mechanism, "anna", "guessed", nonce=b"OURS")
    respond = their_server(mechanism, "secret")
    final = client.respond(respond(client.first()))
    assert final is not None

    with pytest.raises(ScramException) as refused:
        respond(final)

    with pytest.raises(ServerRefusedError, match="it says"):
        client.respond(f"e={refused.value.server_error}".encode())
    assert not client.is_complete


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_our_client_detects_a_forged_signature_of_the_server(mechanism: str) -> None:
    client = ScramClient(mechanism, "anna", "secret", nonce=b"OURS")
    respond = their_server(mechanism, "secret")
    final = client.respond(respond(client.first()))
    assert final is not None
    proof = respond(final)
    forged = proof[:2] + (b"A" if proof[2:3] != b"A" else b"B") + proof[3:]

    with pytest.raises(ServerRefusedError, match="cannot prove"):
        client.respond(forged)
    assert not client.is_complete
