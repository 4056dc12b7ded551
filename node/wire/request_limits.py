"""The limits of requests: how long their texts and bytes may be, and how many elements they may have.

Which of them an API has stands in the description of its module (`kafka_api/api_description`). A text of the
wire may have 32,767 bytes and a frame 100 MiB of them. What is an id here is hashed, compared, kept and
written to logs, so it is refused beyond 1,024 bytes where its length stands in the frame, before anything is
done with it. Apache Kafka has no such limit; its clients' names are below 300 bytes (topics 249, member ids a
client's id and a UUID). What lies in logs from before may be longer: it is read, and small requests still
find, show and remove it (`old_ids` of an API).

Names of topics are held against Kafka's 249 characters where topics are created; a longer one cannot exist,
and up to this limit it is answered as one that does not. Values of settings and the metadata of commits are
no ids: they have limits of their own where they are taken.
"""

from typing import Final, NamedTuple

from ottla.logstore.words.errors import ErrorCode
from ottla.logstore.words.schema_decode import FieldLimit, Limits
from ottla.logstore.words.schema_source import STRING_MAX_BYTES

MAX_ID_BYTES: Final = 1_024
# Elements of a client's request, more of which are refused; nodes of the cluster may send more. What is done
# with so many at once holds up the loop for less than 50 ms.
MANY: Final = 32_768  # topics, groups or ids to look up
MANY_CHANGED: Final = 12_000  # topics and settings; a command of the controller makes at most 10,000 records
# Partitions: a cluster has at most 200,000, and a client asks the leader of some of them.
MANY_PARTITIONS: Final = 100_000
MANY_TOPICS: Final = 40_000  # in Metadata, which answers 30,000
MANY_FETCHED: Final = 20_000  # partitions that one consumer reads from one node
MANY_MOVED: Final = 6_000  # partitions whose replicas are to move
MANY_LEAVING: Final = 6_000  # members of a group
MANY_ELECTED: Final = 3_000  # topics whose leaders are to be elected, or four times as many partitions
SEVERAL: Final = 10_000  # where one client or group has a few

GROUP: Final = FieldLimit(MAX_ID_BYTES, ErrorCode.INVALID_GROUP_ID)
# No member has such an id: a client that believes it joins anew.
MEMBER: Final = FieldLimit(MAX_ID_BYTES, ErrorCode.UNKNOWN_MEMBER_ID)
TOPIC: Final = FieldLimit(MAX_ID_BYTES, ErrorCode.INVALID_TOPIC_EXCEPTION)
REGEX: Final = FieldLimit(MAX_ID_BYTES, ErrorCode.INVALID_REGULAR_EXPRESSION)
NAME: Final = FieldLimit(MAX_ID_BYTES, ErrorCode.INVALID_REQUEST)
PATH: Final = FieldLimit(4_096, ErrorCode.INVALID_REQUEST)  # as file systems allow
# Values of settings (lists of throttled replicas are long) and metadata of commits, which have a limit and a
# code of their own (offset.metadata.max.bytes).
VALUE: Final = FieldLimit(STRING_MAX_BYTES, ErrorCode.INVALID_REQUEST)
# Metadata of a member, or an assignment; a copy of so much takes a millisecond. The group refuses those that
# do not fit in a record of __consumer_offsets.
PAYLOAD: Final = FieldLimit(4 << 20, ErrorCode.INVALID_REQUEST)
# Metrics that a client pushes; telemetry.max.bytes is their limit, and this the most that it can allow.
METRICS: Final = FieldLimit(16 << 20, ErrorCode.TELEMETRY_TOO_LARGE)
COMMAND: Final = FieldLimit(
    16 << 20, ErrorCode.INVALID_REQUEST
)  # of nodes of the cluster, which have proven it


class RequestLimits(NamedTuple):
    """`fields` by path; `elements` of all arrays together, where four numbers count as one, and the code that
    refuses more.
    """

    elements: int
    fields: Limits = {}
    too_many: ErrorCode = ErrorCode.INVALID_REQUEST


MEMBER_OF_GROUP: Final = {"group_id": GROUP, "member_id": MEMBER, "group_instance_id": NAME}
COMMITTED_OFFSETS: Final = {"topics.name": TOPIC, "topics.partitions.committed_metadata": VALUE}
ALTERED_CONFIGS: Final = {
    "resources.resource_name": NAME,
    "resources.configs.name": NAME,
    "resources.configs.value": VALUE,
}
