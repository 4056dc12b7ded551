"""The limits of requests: the length of their texts and bytes, and the number of their elements.

The limits of an API are in the description of its module (`kafka_api/api_description`). The protocol allows
texts of 32,767 bytes and frames of 100 MiB. Ids are hashed, compared, kept and logged, so an id of more than
1,024 bytes is rejected as soon as its length is read, before it is processed. Apache Kafka has no such limit;
the names of its clients are below 300 bytes (topics 249, member ids a client id and a UUID). Older logs may
contain longer ids: they are read, and small requests can still find, show and remove them (`old_ids` of an
API).

Kafka's limit of 249 characters for topic names is checked where topics are created. A longer name cannot
exist; up to the limit here it is answered like any unknown topic. Values of settings and the metadata of
commits are no ids: they have limits of their own where they are used.
"""

from typing import Final, NamedTuple

from ottla.logstore.words.errors import ErrorCode
from ottla.logstore.words.schema_decode import FieldLimit, Limits
from ottla.logstore.words.schema_source import STRING_MAX_BYTES

MAX_ID_BYTES: Final = 1_024
# Elements of a client's request; requests with more are rejected. Nodes of the cluster may send more.
# Processing so many at once holds up the loop for less than 50 ms.
MANY: Final = 32_768  # topics, groups or ids to look up
MANY_CHANGED: Final = 12_000  # topics and settings; a command of the controller makes at most 10,000 records
# Partitions: a cluster has at most 200,000, and a client asks a leader for some of them.
MANY_PARTITIONS: Final = 100_000
MANY_TOPICS: Final = 40_000  # in Metadata, which answers at most 30,000
MANY_FETCHED: Final = 20_000  # partitions that one consumer reads from one node
MANY_MOVED: Final = 6_000  # partitions whose replicas are to move
MANY_LEAVING: Final = 6_000  # members of a group
MANY_ELECTED: Final = 3_000  # topics whose leaders are to be elected, or four times as many partitions
SEVERAL: Final = 10_000  # for APIs in which one client or group has a few

GROUP: Final = FieldLimit(MAX_ID_BYTES, ErrorCode.INVALID_GROUP_ID)
# No member has such an id: a client that receives this error joins again.
MEMBER: Final = FieldLimit(MAX_ID_BYTES, ErrorCode.UNKNOWN_MEMBER_ID)
TOPIC: Final = FieldLimit(MAX_ID_BYTES, ErrorCode.INVALID_TOPIC_EXCEPTION)
REGEX: Final = FieldLimit(MAX_ID_BYTES, ErrorCode.INVALID_REGULAR_EXPRESSION)
NAME: Final = FieldLimit(MAX_ID_BYTES, ErrorCode.INVALID_REQUEST)
PATH: Final = FieldLimit(4_096, ErrorCode.INVALID_REQUEST)  # as file systems allow
# Values of settings (lists of throttled replicas are long) and commit metadata, which have a limit and an
# error code of their own (offset.metadata.max.bytes).
VALUE: Final = FieldLimit(STRING_MAX_BYTES, ErrorCode.INVALID_REQUEST)
# The metadata of a member, or an assignment; copying this much takes a millisecond. The group rejects those
# that do not fit in a record of __consumer_offsets.
PAYLOAD: Final = FieldLimit(4 << 20, ErrorCode.INVALID_REQUEST)
# Metrics that a client pushes: telemetry.max.bytes is their limit, and this is its largest value.
METRICS: Final = FieldLimit(16 << 20, ErrorCode.TELEMETRY_TOO_LARGE)
COMMAND: Final = FieldLimit(16 << 20, ErrorCode.INVALID_REQUEST)  # of nodes of the cluster, which are proven


class RequestLimits(NamedTuple):
    """The limits of one API.

    `fields` are by path; `elements` is the limit of all arrays together, in which four numbers count as one,
    and `too_many` the error beyond it.
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
