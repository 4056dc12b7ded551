"""Carries out each command once, even if its sender retries it because the reply was lost.

A command that could have another effect the second time adds a RequestRecord with its reply to the batch of
its records, so the next controller knows the reply too. The sender names the oldest command that it still
waits for; earlier replies are removed, so the table holds only commands that are in progress.
"""

from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.command_codec import decode_reply, encode_reply
from ottla.metadata_raft.commands import (
    AddRaftVoter,
    AlterClientQuotas,
    AlterConfigs,
    AlterPartitionReassignments,
    AlterUserScramCredentials,
    Command,
    CreateAcls,
    CreatePartitions,
    CreateTopics,
    DeleteAcls,
    DeleteTopics,
    ElectLeaders,
    RemoveRaftVoter,
    Reply,
    RequestId,
    UnregisterBroker,
    UpdateFeatures,
)
from ottla.metadata_raft.decision import Decision
from ottla.metadata_raft.image import MetadataImage
from ottla.metadata_raft.records import RequestRecord

# Of one broker epoch. Further commands are rejected until replies have arrived.
MAX_OPEN_REQUESTS: Final = 1_000

# The other commands have the same result when they are decided again, or are guarded by epochs.
REMEMBERED: Final = (
    CreateTopics,
    DeleteTopics,
    CreatePartitions,
    AlterConfigs,
    UnregisterBroker,
    ElectLeaders,
    AlterPartitionReassignments,
    UpdateFeatures,
    AddRaftVoter,
    RemoveRaftVoter,
    CreateAcls,
    DeleteAcls,
    AlterClientQuotas,
    AlterUserScramCredentials,
)


def known_reply(image: MetadataImage, request: RequestId) -> Reply | None:
    """Return the reply of a command that was carried out before; None for a new one.

    DUPLICATE_SEQUENCE_NUMBER for a command whose reply was received, THROTTLING_QUOTA_EXCEEDED beyond
    MAX_OPEN_REQUESTS, STALE_BROKER_EPOCH for a replaced run of a broker, whose replies are removed.
    """
    table = image.requests.get(request.broker_epoch)
    if table is None:
        if all(broker.broker_epoch != request.broker_epoch for broker in image.brokers.values()):
            raise KafkaError(
                ErrorCode.STALE_BROKER_EPOCH, f"No broker is registered with epoch {request.broker_epoch}."
            )
        return None
    reply = table.replies.get(request.sequence)
    if reply is not None:
        return decode_reply(reply)
    if request.sequence < table.oldest_open_sequence:
        raise KafkaError(
            ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
            f"Command {request.sequence} of broker epoch {request.broker_epoch} was already answered.",
        )
    if sum(sequence >= request.oldest_open_sequence for sequence in table.replies) >= MAX_OPEN_REQUESTS:
        raise KafkaError(
            ErrorCode.THROTTLING_QUOTA_EXCEEDED,
            f"More than {MAX_OPEN_REQUESTS} commands are in progress: try again.",
        )
    return None


class AnsweredRequests:
    """The commands that this controller answered without a change: soft state.

    A delayed copy of such a command must not be decided again, because the reply said that nothing changed. A
    later controller gets no such copies, because they were sent to this one.
    """

    def __init__(self) -> None:
        self._answers: dict[int, dict[int, Reply | KafkaError]] = {}  # by broker epoch, then sequence

    def recall(self, request: RequestId) -> Reply | None:
        """Return the reply that was sent, or None; an error that was sent is raised again."""
        answer = self._answers.get(request.broker_epoch, {}).get(request.sequence)
        if isinstance(answer, KafkaError):
            raise KafkaError(answer.code, answer.detail)
        return answer

    def note(self, command: Command, request: RequestId, answer: Reply | KafkaError) -> None:
        """Keep the reply to a command that changed nothing; retriable errors are not kept."""
        if not isinstance(command, REMEMBERED) or (isinstance(answer, KafkaError) and answer.code.retriable):
            return
        known = self._answers.get(request.broker_epoch, {})
        kept = {one: known[one] for one in known if one >= request.oldest_open_sequence}
        if len(kept) < MAX_OPEN_REQUESTS:
            kept[request.sequence] = answer
        self._answers[request.broker_epoch] = kept


def add_reply_record(command: Command, request: RequestId, decision: Decision) -> Decision:
    """Return the decision, with a record of its reply if a retry must find it."""
    if not isinstance(command, REMEMBERED):
        return decision
    record = RequestRecord(
        broker_epoch=request.broker_epoch,
        sequence=request.sequence,
        oldest_open_sequence=request.oldest_open_sequence,
        reply=encode_reply(decision.reply),
    )
    return Decision(records=[*decision.records, record], reply=decision.reply)
