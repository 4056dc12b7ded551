"""The assignor `uniform` where members subscribe to different topics.

A member cannot have a partition of a topic that it does not subscribe to, so shares may have to differ. First
every member keeps the partitions that it may keep. Then each free partition goes to the subscriber with the
fewest. Then, topic by topic, the subscriber with the most gives to the one with the fewest until they differ
by one at most.
"""

from heapq import heapify, heappop, heappush, heapreplace

from ottla.groupcoord.assignment import Assignment
from ottla.groupcoord.assignors.assignor_spec import GroupSpec

# Where subscriptions overlap in chains, moves within one topic unbalance the next. Each round roughly halves
# the imbalance that is left; Apache Kafka stops after the same number of rounds.
MAX_ROUNDS = 16


def assign_uniform_mixed(group: GroupSpec) -> dict[str, Assignment]:
    """Return each member's partitions."""
    members = sorted(group.members)
    subscribers: dict[bytes, list[int]] = {}
    for index, member in enumerate(members):
        for topic_id in member.topic_ids:
            subscribers.setdefault(topic_id, []).append(index)
    # The most demanding topics first: many partitions for few subscribers.
    topic_ids = sorted(
        subscribers,
        key=lambda topic_id: (
            -group.partitions[topic_id] / len(subscribers[topic_id]),
            len(subscribers[topic_id]),
            topic_id,
        ),
    )
    load = [0] * len(members)
    owners = {topic_id: [-1] * group.partitions[topic_id] for topic_id in topic_ids}
    for index, member in enumerate(members):
        for topic_id, partitions in member.assigned.items():
            if topic_id not in member.topic_ids:
                continue
            for partition in partitions:
                if partition < len(owners[topic_id]) and owners[topic_id][partition] < 0:
                    owners[topic_id][partition] = index
                    load[index] += 1
    for topic_id in topic_ids:
        _give_out(owners[topic_id], subscribers[topic_id], load)
    _balance([(owners[topic_id], subscribers[topic_id]) for topic_id in topic_ids], load)
    assigned: list[dict[bytes, frozenset[int]]] = [{} for _ in members]
    for topic_id in topic_ids:
        shares: dict[int, list[int]] = {}
        for partition, index in enumerate(owners[topic_id]):
            shares.setdefault(index, []).append(partition)
        for index, share in shares.items():
            assigned[index][topic_id] = frozenset(share)
    return {member.member_id: assigned[index] for index, member in enumerate(members)}


def _give_out(owners: list[int], subscribers: list[int], load: list[int]) -> None:
    """Give each partition without an owner to the subscriber that has the fewest of all topics."""
    fewest = [(load[index], index) for index in subscribers]
    heapify(fewest)
    for partition, owner in enumerate(owners):
        if owner < 0:
            index = fewest[0][1]
            owners[partition] = index
            load[index] += 1
            heapreplace(fewest, (load[index], index))


def _balance(topics: list[tuple[list[int], list[int]]], load: list[int]) -> None:
    """Balance topic by topic, in rounds, until a round moves nothing."""
    topics = [(owners, subscribers) for owners, subscribers in topics if len(subscribers) > 1]
    for _ in range(MAX_ROUNDS):
        moves = sum(_balance_topic(owners, subscribers, load) for owners, subscribers in topics)
        if moves == 0:
            return


def _balance_topic(owners: list[int], subscribers: list[int], load: list[int]) -> int:
    """Move partitions of a topic from members with most to those with fewest; return the number of moves."""
    sizes = [load[index] for index in subscribers]
    if max(sizes) - min(sizes) <= 1:
        return 0
    held: dict[int, list[int]] = {}
    for partition, index in enumerate(owners):
        held.setdefault(index, []).append(partition)
    most = [(-load[index], index) for index in held]
    fewest = [(load[index], index) for index in subscribers]
    heapify(most)
    heapify(fewest)
    moves = 0
    while most:
        # The number of a giver in `fewest` and of a taker in `most` may be outdated. Neither can be the least
        # or the most of all before the topic is balanced, so an outdated number is met only then, and
        # corrected here.
        giver, taker = most[0][1], fewest[0][1]
        if -most[0][0] != load[giver]:
            heapreplace(most, (-load[giver], giver))
        elif fewest[0][0] != load[taker]:
            heapreplace(fewest, (load[taker], taker))
        elif load[giver] - load[taker] <= 1:
            break
        elif not held[giver]:
            heappop(most)
        else:
            partition = held[giver].pop()
            owners[partition] = taker
            load[giver] -= 1
            load[taker] += 1
            heapreplace(most, (-load[giver], giver))
            heapreplace(fewest, (load[taker], taker))
            if taker not in held:
                held[taker] = []
                heappush(most, (-load[taker], taker))
            held[taker].append(partition)
            moves += 1
    return moves
