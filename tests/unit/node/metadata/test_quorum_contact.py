"""The time since which a node has had no contact with a leader of the metadata quorum."""

from ottla.node.metadata.quorum_contact import QuorumContact


def test_a_node_is_cut_off_from_the_limit_until_a_leader_answers_again() -> None:
    contact = QuorumContact(9.0)
    contact.begin(100.0, 1_000_000)

    contact.heard(101.0, 101.5, 1_001_500)

    assert contact.cut_off_since_ms(109.9) is None
    assert contact.cut_off_since_ms(110.0) == 1_001_000
    contact.heard(120.0, 120.0, 1_020_000)
    assert contact.cut_off_since_ms(120.0) is None


def test_a_node_that_never_had_contact_is_cut_off_since_it_started() -> None:
    contact = QuorumContact(9.0)
    contact.begin(5.0, 77)

    assert contact.cut_off_since_ms(13.9) is None
    assert contact.cut_off_since_ms(14.0) == 77
