"""Sentences that say what an error code of the protocol means, for servers that send the code alone.

Without them a user would read only the name of a code beside the name of a topic or group.
"""

from collections.abc import Mapping
from typing import Final

from ottla.logstore.words.errors import ErrorCode

E = ErrorCode

# {} is the subject: "topic 'orders'", "orders-0" or "the offsets of group 'billing'".
_SENTENCES: Final[Mapping[str, tuple[ErrorCode, ...]]] = {
    "{} does not exist": (
        E.UNKNOWN_TOPIC_OR_PARTITION,
        E.GROUP_ID_NOT_FOUND,
        E.TRANSACTIONAL_ID_NOT_FOUND,
        E.RESOURCE_NOT_FOUND,
        E.BROKER_ID_NOT_REGISTERED,
        E.VOTER_NOT_FOUND,
        E.LOG_DIR_NOT_FOUND,
    ),
    "{} was deleted, and perhaps created again": (E.UNKNOWN_TOPIC_ID, E.INCONSISTENT_TOPIC_ID),
    "{} already exists": (E.TOPIC_ALREADY_EXISTS, E.DUPLICATE_RESOURCE, E.DUPLICATE_VOTER),
    "{} has a name that is not allowed": (E.INVALID_TOPIC_EXCEPTION, E.INVALID_GROUP_ID),
    "{} has no leader at the moment": (E.LEADER_NOT_AVAILABLE,),
    "the leader of {} is changing": (
        E.NOT_LEADER_OR_FOLLOWER,
        E.FENCED_LEADER_EPOCH,
        E.UNKNOWN_LEADER_EPOCH,
        E.NEW_LEADER_ELECTED,
    ),
    "the preferred leader of {} is not in sync": (E.PREFERRED_LEADER_NOT_AVAILABLE,),
    "no replica of {} may lead it": (E.ELIGIBLE_LEADERS_NOT_AVAILABLE,),
    "the leader of {} needs no election": (E.ELECTION_NOT_NEEDED,),
    "the broker that has {} is not available": (E.BROKER_NOT_AVAILABLE, E.REPLICA_NOT_AVAILABLE),
    "the server timed out on {}": (E.REQUEST_TIMED_OUT,),
    "the connection was lost while waiting for {}": (E.NETWORK_EXCEPTION,),
    "the cluster has no active controller to handle {}": (E.NOT_CONTROLLER,),
    "the coordinator for {} is not available now": (E.COORDINATOR_NOT_AVAILABLE, E.NOT_COORDINATOR),
    "the coordinator for {} is still starting": (E.COORDINATOR_LOAD_IN_PROGRESS,),
    "too few replicas are in sync for {}": (E.NOT_ENOUGH_REPLICAS, E.NOT_ENOUGH_REPLICAS_AFTER_APPEND),
    "the log has no such offset: {}": (E.OFFSET_OUT_OF_RANGE,),
    "the end offset of {} is not known yet": (E.OFFSET_NOT_AVAILABLE,),
    "the disk that has {} has failed": (E.KAFKA_STORAGE_ERROR,),
    "the bytes of {} are damaged": (E.CORRUPT_MESSAGE,),
    "{} does not accept records of this size": (E.MESSAGE_TOO_LARGE, E.RECORD_LIST_TOO_LARGE),
    "{} has members": (E.NON_EMPTY_GROUP,),
    "{} has members that read this topic": (E.GROUP_SUBSCRIBED_TO_TOPIC,),
    "the group is rebalancing, which delays {}": (E.REBALANCE_IN_PROGRESS,),
    "{} belongs to a member that the group does not know": (E.UNKNOWN_MEMBER_ID, E.ILLEGAL_GENERATION),
    "the previous transaction of {} is still being completed": (E.CONCURRENT_TRANSACTIONS,),
    "a newer producer has taken over {}": (E.PRODUCER_FENCED, E.INVALID_PRODUCER_EPOCH),
    "a transaction that is still open may change {}": (E.UNSTABLE_OFFSET_COMMIT,),
    "{} is being moved": (E.REASSIGNMENT_IN_PROGRESS,),
    "{} is not being moved": (E.NO_REASSIGNMENT_IN_PROGRESS,),
    "this client is not allowed to use {}": (
        E.TOPIC_AUTHORIZATION_FAILED,
        E.GROUP_AUTHORIZATION_FAILED,
        E.CLUSTER_AUTHORIZATION_FAILED,
        E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
    "the server does not support this request for {}": (E.UNSUPPORTED_VERSION,),
    "a quota delays {}": (E.THROTTLING_QUOTA_EXCEEDED,),
    "the server failed while handling {}; its log has the reason": (E.UNKNOWN_SERVER_ERROR,),
}
_SENTENCE_OF: Final = {code: sentence for sentence, codes in _SENTENCES.items() for code in codes}
_REFUSED: Final = "the server refused {}"  # the caller adds the code, which says why
_NAMED: Final = ("topic ", "group ", "transactional id ")


def subject_of(kind_and_name: str) -> str:
    """Return the text with the name that a user chose in quotes: topic orders -> topic 'orders'."""
    for kind in _NAMED:
        before, found, name = kind_and_name.partition(kind)
        if found and name and (not before or before.endswith(" ")) and not name.startswith("'"):
            return f"{before}{kind}'{name}'"
    return kind_and_name


def sentence_of(code: ErrorCode, subject: str) -> str:
    """Return what an error code means for the subject, as a sentence in lower case without a full stop."""
    return _SENTENCE_OF.get(code, _REFUSED).format(subject_of(subject))
