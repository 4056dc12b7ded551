"""Regular expressions made to be slow: rejected, or matched in short turns for up to one CPU second."""

import random
import time
from collections.abc import Sequence
from typing import Any, Final

from attacks.attack import Attack
from attacks.nodes import Nodes
from ottla.logstore.words.errors import ErrorCode
from tests.compat.wire_client import WireClient, eventually

TOPICS: Final = 1_000
TOPICS_AT_ONCE: Final = 250
GROUPS: Final = 20
# Sets of states that grow with each name, and a wide program to run through them. The first is rejected as
# too large; the second is just within the limit and takes 2 ms for a name of 249 letters.
TOO_LARGE: Final = "[ab]*a[ab]{100}|(?:.?){690}"
SLOW: Final = "[ab]*a[ab]{100}|(?:.?){350}"
HONEST: Final = "orders-.*"


def _make_topics(nodes: Nodes) -> None:
    """Create a thousand topics with long names, and one to which an honest group subscribes."""
    chance = random.Random(1)
    names = ["".join(chance.choices("ab", k=249)) for _ in range(TOPICS)] + ["orders-1"]
    with nodes.connect(timeout_s=300.0) as client:
        for at in range(0, len(names), TOPICS_AT_ONCE):
            topics = [
                {"name": name, "num_partitions": 1, "replication_factor": 1}
                for name in names[at : at + TOPICS_AT_ONCE]
            ]
            client.call("create_topics", 7, topics=topics, timeout_ms=60_000)


def _beat(client: WireClient, group: str, epoch: int, regex: str | None = None) -> Any:
    """Send a heartbeat of a group's only member; with epoch 0 the member joins."""
    joins = epoch == 0
    return client.call(
        "consumer_group_heartbeat",
        1,
        group_id=group,
        member_id="m",
        member_epoch=epoch,
        rebalance_timeout_ms=60_000 if joins else -1,
        subscribed_topic_regex=regex,
        topic_partitions=[] if joins else None,
    )


def _join(client: WireClient, group: str, regex: str) -> Any:
    """Join as soon as the group has a coordinator."""
    client.call("find_coordinator", 4, key_type=0, coordinator_keys=[group])
    loading = (
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    )
    return eventually(lambda: _beat(client, group, 0, regex), lambda answer: answer.error_code not in loading)


def _slow_patterns(nodes: Nodes) -> str:
    with nodes.connect(timeout_s=300.0) as client:
        refused = _join(client, "too-large", TOO_LARGE)
        assert refused.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION, refused
        for number in range(GROUPS):
            joined = _join(client, f"slow-{number}", SLOW)
            assert not joined.error_code, joined
        before_s = nodes.cpu_s()
        answer = _join(client, "honest", HONEST)
        while answer.assignment is None or not answer.assignment.topic_partitions:
            time.sleep(0.05)
            answer = _beat(client, "honest", answer.member_epoch)
            assert not answer.error_code, answer
        took_s = nodes.cpu_s() - before_s
        assert took_s < 4.0, f"an honest expression was matched after {took_s:.1f} s of the node"
    return f"INVALID_REGULAR_EXPRESSION; an honest one is matched after {took_s:.1f} CPU s"


ATTACKS: Final[Sequence[Attack]] = (
    Attack(
        name="slow-patterns",
        sends=f"{GROUPS} consumer groups that subscribe to {SLOW} over {TOPICS:,} topics of 249 letters",
        send=_slow_patterns,
        # The node gives each up after a CPU second; it matches an honest one long before that.
        cpu_s=8.0,
        prepare=_make_topics,
        node_counts=(1,),  # of three nodes another may be the coordinator
    ),
)
