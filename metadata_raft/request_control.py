"""Commands that are sent again: each is carried out once, however often its answer is lost on the way.

A command that could do something else the second time leaves a RequestRecord with its reply in the batch of
its own records, so that whoever leads next knows it too. The sender names the oldest command that it still
waits for; what came before is forgotten, so the table holds what is under way and no more.
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

# A node that has more than so many commands under way at once gets no further ones through.
MAX_OPEN_REQUESTS: Final = 1_000

# The others say the same when they are decided again, or are guarded by epochs.
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
    """The reply of a command that was carried out before; None for a new one.

    DUPLICATE_SEQUENCE_NUMBER for one that nobody waits for any more, THROTTLING_QUOTA_EXCEEDED for one too
    many, STALE_BROKER_EPOCH for one of a process that was replaced: what it was told is forgotten.
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
    """Commands of this reign that were answered without a change: soft state of the controller.

    A copy of such a command that was held up on the way must not be decided anew: its sender was told that
    nothing happened. A later reign gets no such copies, for they were sent to this one.
    """

    def __init__(self) -> None:
        self._answers: dict[int, dict[int, Reply | KafkaError]] = {}  # by broker epoch, then sequence

    def recall(self, request: RequestId) -> Reply | None:
        """The answer that was given, None if there was none; a refusal is raised again."""
        answer = self._answers.get(request.broker_epoch, {}).get(request.sequence)
        if isinstance(answer, KafkaError):
            raise KafkaError(answer.code, answer.detail)
        return answer

    def note(self, command: Command, request: RequestId, answer: Reply | KafkaError) -> None:
        """A command was answered without a change. What may be asked again later is not kept."""
        if not isinstance(command, REMEMBERED) or (isinstance(answer, KafkaError) and answer.code.retriable):
            return
        known = self._answers.get(request.broker_epoch, {})
        kept = {one: known[one] for one in known if one >= request.oldest_open_sequence}
        if len(kept) < MAX_OPEN_REQUESTS:
            kept[request.sequence] = answer
        self._answers[request.broker_epoch] = kept


def remembered(command: Command, request: RequestId, decision: Decision) -> Decision:
    """The decision, with the record by which its reply is found again if that is needed."""
    if not isinstance(command, REMEMBERED):
        return decision
    record = RequestRecord(
        broker_epoch=request.broker_epoch,
        sequence=request.sequence,
        oldest_open_sequence=request.oldest_open_sequence,
        reply=encode_reply(decision.reply),
    )
    return Decision(records=[*decision.records, record], reply=decision.reply)
