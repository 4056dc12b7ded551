"""Checks the fields of a ConsumerGroupHeartbeat; errors have Kafka's words, since clients log them."""

from collections.abc import Sequence

from ottla.groupcoord.consumer.consumer_commands import ConsumerGroupHeartbeat
from ottla.groupcoord.consumer.consumer_member import JOIN_EPOCH, LEAVE_EPOCH, LEAVE_STATIC_EPOCH
from ottla.logstore.words.errors import ErrorCode, KafkaError


def validate_heartbeat(command: ConsumerGroupHeartbeat, assignors: Sequence[str]) -> None:
    """Raise INVALID_REQUEST for fields that no group could take, or UNSUPPORTED_ASSIGNOR."""
    needs_member_id = (
        command.member_id_required or command.member_epoch > 0 or command.member_epoch == LEAVE_EPOCH
    )
    if needs_member_id:
        refuse_if(is_blank(command.member_id), "MemberId can't be empty.")
    refuse_if(is_blank(command.group_id), "GroupId can't be empty.")
    refuse_if(is_blank(command.instance_id), "InstanceId can't be empty.")
    refuse_if(is_blank(command.rack_id), "RackId can't be empty.")
    if command.member_epoch == JOIN_EPOCH:
        refuse_if(command.rebalance_timeout_ms == -1, "RebalanceTimeoutMs must be provided in first request.")
        refuse_if(
            command.owned is None or bool(command.owned), "TopicPartitions must be empty when (re-)joining."
        )
        refuse_if(
            command.subscribed_topic_names is None and command.subscribed_topic_regex is None,
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        )
    elif command.member_epoch == LEAVE_STATIC_EPOCH:
        refuse_if(command.instance_id is None, "InstanceId can't be null.")
    else:
        refuse_if(command.member_epoch < LEAVE_STATIC_EPOCH, "MemberEpoch is invalid.")
    if command.server_assignor is not None and command.server_assignor not in assignors:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {command.server_assignor} is not supported. "
            f"Supported assignors: {', '.join(assignors)}.",
        )


def is_blank(text: str | None) -> bool:
    """Return True if the text is empty or has spaces only, as for Java's `trim`; False for None."""
    return text is not None and not text.strip("".join(map(chr, range(0x21))))


def refuse_if(condition: bool, detail: str) -> None:
    """Raise INVALID_REQUEST with these words if that holds."""
    if condition:
        raise KafkaError(ErrorCode.INVALID_REQUEST, detail)
