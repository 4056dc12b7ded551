"""Too many connections that are not authenticated: the choice of the one to close."""

from typing import NamedTuple

import pytest

from ottla.metadata_raft.raft_pending_links import VOTER_ROOM, PendingLinks, place_of


class Wire(NamedTuple):
    name: str
    peer_host: str

    def abort(self) -> None:
        raise AssertionError("only the caller ends connections")


CROWD = "203.0.113.9"


def test_many_connections_from_one_place_replace_each_other() -> None:
    links = PendingLinks(4)
    links.enter(Wire("honest", "192.0.2.1"))

    pushed_out = [links.enter(Wire(f"c{number}", CROWD)) for number in range(100)]

    assert pushed_out == [None] * 3 + [Wire(f"c{number}", CROWD) for number in range(97)]
    assert len(links) == 4


def test_a_new_connection_is_accepted_when_there_are_too_many() -> None:
    links = PendingLinks(4)
    for number in range(4):
        links.enter(Wire(f"c{number}", CROWD))

    assert links.enter(Wire("honest", "192.0.2.1")) == Wire("c0", CROWD)
    pushed_out = [links.enter(Wire(f"d{number}", CROWD)) for number in range(3)]
    assert pushed_out == [Wire(f"c{number}", CROWD) for number in (1, 2, 3)]


def test_connections_from_everywhere_do_not_replace_one_from_a_voters_place() -> None:
    links = PendingLinks(8)
    links.note_voter(2, "192.0.2.1")
    voters = [Wire(f"v{number}", "192.0.2.1") for number in range(VOTER_ROOM)]
    for one in voters:
        links.enter(one)

    pushed_out = {links.enter(Wire(f"c{number}", f"203.0.113.{number}")) for number in range(200)}

    assert not pushed_out & set(voters) and len(links) == 8


def test_the_place_of_a_removed_voter_counts_like_any_other() -> None:
    links = PendingLinks(2)
    links.note_voter(2, "192.0.2.1")
    links.keep_voters({1, 3})
    former = Wire("former", "192.0.2.1")
    links.enter(former)

    pushed_out = {links.enter(Wire(f"c{number}", f"203.0.113.{number}")) for number in range(3)}

    assert former in pushed_out


def test_a_connection_that_left_takes_no_room_and_may_leave_twice() -> None:
    links = PendingLinks(2)
    for number in range(50):
        assert links.enter(Wire(f"c{number}", CROWD)) is None
        links.leave(Wire(f"c{number}", CROWD))
        links.leave(Wire(f"c{number}", CROWD))

    assert len(links) == 0


@pytest.mark.parametrize(
    ("host", "place"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
    ],
)
def test_a_place_has_all_addresses_that_one_host_may_choose_from(host: str, place: str) -> None:
    assert place_of(host) == place
