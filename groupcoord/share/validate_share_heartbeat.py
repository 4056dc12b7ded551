"""Checks the fields of a ShareGroupHeartbeat; errors have Kafka's words, since clients log them."""

from typing import Final

from ottla.groupcoord.consumer.validate_heartbeat import is_blank, refuse_if
from ottla.groupcoord.share.share_commands import ShareGroupHeartbeat
from ottla.groupcoord.share.share_member import JOIN_EPOCH, LEAVE_EPOCH

MAX_MEMBER_ID_UNITS: Final = 36  # UTF-16 units, as of a UUID in hexadecimal


def validate_share_heartbeat(command: ShareGroupHeartbeat) -> None:
    """Raise INVALID_REQUEST for fields that no share group could take."""
    member_id = command.member_id
    units = len(member_id.encode("utf-16-be", errors="surrogatepass")) // 2
    refuse_if(not 0 < units <= MAX_MEMBER_ID_UNITS, "")  # Kafka has no words for it
    refuse_if(is_blank(member_id), "MemberId can't be empty.")
    refuse_if(is_blank(command.group_id), "GroupId can't be empty.")
    refuse_if(is_blank(command.rack_id), "RackId can't be empty.")
    if command.member_epoch == JOIN_EPOCH:
        refuse_if(not command.subscribed_topic_names, "SubscribedTopicNames must be set in first request.")
    else:
        refuse_if(command.member_epoch < LEAVE_EPOCH, "MemberEpoch is invalid.")
