"""Missing links to voters: their reasons, and the times at which they are logged."""

import itertools
import socket

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.link_troubles import FIRST_LOG_SECONDS, MAX_LOG_SECONDS, LinkTroubles, sentence
from ottla.metadata_raft.voters import Voter, VoterSet

ONE, TWO = (Voter(one, bytes(16), f"host{one}", 9093) for one in (1, 2))
MISSING = VoterSet.of([ONE, TWO])
REFUSAL = KafkaError(
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Node 3 has a different cluster.secret than this node."
)
ENDED = KafkaError(ErrorCode.NETWORK_EXCEPTION, "The connection was closed.")


def test_the_voters_that_are_waited_for_are_named_with_addresses_and_reasons() -> None:
    troubles = LinkTroubles()
    troubles.note(1, REFUSAL)

    assert troubles.due(MISSING, has_majority=False, now=0) is None
    assert troubles.due(MISSING, has_majority=False, now=FIRST_LOG_SECONDS) == (
        "Waiting for voter 1 at host1:9093 (Node 3 has a different cluster.secret than this node), voter 2 at"
        " host2:9093: without them the quorum has no majority."
    )


def test_a_new_quorum_says_that_it_waits_for_all_of_its_voters_though_others_are_a_majority() -> None:
    """An empty disk is a new or a lost one: only all voters together know (metadata_raft D33)."""
    text = sentence(LinkTroubles().of(MISSING), has_majority=True, is_new=True)

    assert text == (
        "Waiting for voter 1 at host1:9093, voter 2 at host2:9093: a new quorum begins when all of its "
        "voters are up at the same time, since an empty disk may be one that was lost."
    )
    assert "works without them" in sentence(LinkTroubles().of(MISSING), has_majority=True)


def test_a_connection_that_just_ends_does_not_hide_the_reason() -> None:
    troubles = LinkTroubles()
    for error in (ENDED, REFUSAL, ENDED, TimeoutError()):
        troubles.note(1, error)

    assert "has a different cluster.secret" in troubles.of(MISSING)[1]


def test_a_voter_that_is_gone_does_not_reject_any_more_and_a_linked_one_has_no_reason() -> None:
    troubles = LinkTroubles()
    troubles.note(1, REFUSAL)
    troubles.note(1, ConnectionRefusedError("Connection refused"))
    gone = troubles.of(MISSING)[1]
    troubles.forget(1)

    assert gone == "voter 1 at host1:9093 (connection refused)"
    assert troubles.of(MISSING)[1] == "voter 1 at host1:9093"


def test_a_voter_that_does_not_run_has_a_readable_reason_for_every_error_of_the_loop() -> None:
    """The host has one address, several, or an unknown name."""
    once = "[Errno 111] Connect call failed ('127.0.0.1', 9093)"
    for error, problem in (
        (ConnectionRefusedError(111, f"{once[12:]}"), "connection refused"),
        (OSError(f"Multiple exceptions: {once}, {once}"), "connection refused"),
        (socket.gaierror(-2, "Name or service not known"), "Name or service not known"),
        (OSError(113, "No route to host"), "No route to host"),
        (TimeoutError(), "it does not answer"),
    ):
        troubles = LinkTroubles()
        troubles.note(1, REFUSAL if problem == "connection refused" else ENDED)
        troubles.note(1, error)

        assert troubles.of(MISSING)[1].startswith(f"voter 1 at host1:9093 ({problem}"), error


def test_missing_links_are_logged_at_growing_intervals_and_soon_the_next_time() -> None:
    troubles = LinkTroubles()
    times = [now for now in range(2_000) if troubles.due(MISSING, has_majority=False, now=now)]
    pauses = [later - earlier for earlier, later in itertools.pairwise(times)]

    assert times[0] == FIRST_LOG_SECONDS and pauses == sorted(pauses) and pauses[-1] == MAX_LOG_SECONDS
    assert troubles.due(VoterSet.of([]), has_majority=True, now=2_000) is None
    assert troubles.due(MISSING, has_majority=True, now=2_001) is None
    assert troubles.due(MISSING, has_majority=True, now=2_001 + FIRST_LOG_SECONDS) is not None
