"""StreamsGroupTopologyDescriptionUpdate (key 93): a Streams group's topology as text, for tools."""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@struct
class TopologyDescriptionNode:
    name: str = schema.string()
    node_type: int = schema.int8()
    source_topics: Sequence[str] = schema.array(schema.string)
    sink_topic: str | None = schema.string(nullable_since=0, default=None)
    stores: Sequence[str] = schema.array(schema.string)
    successors: Sequence[str] = schema.array(schema.string)


@struct
class TopologyDescriptionSubtopology:
    subtopology_id: str = schema.string()
    nodes: Sequence[TopologyDescriptionNode] = schema.array(TopologyDescriptionNode)


@struct
class TopologyDescriptionGlobalStore:
    source: TopologyDescriptionNode = schema.struct_(TopologyDescriptionNode)
    processor: TopologyDescriptionNode = schema.struct_(TopologyDescriptionNode)


@struct
class TopologyDescription:
    subtopologies: Sequence[TopologyDescriptionSubtopology] = schema.array(TopologyDescriptionSubtopology)
    global_stores: Sequence[TopologyDescriptionGlobalStore] = schema.array(TopologyDescriptionGlobalStore)


@message(api_key=93, versions=(0, 0), flexible_since=0)
class StreamsGroupTopologyDescriptionUpdateRequest:
    group_id: str = schema.string()
    member_id: str = schema.string()
    topology_epoch: int = schema.int32()
    topology_description: TopologyDescription = schema.struct_(TopologyDescription)


@message(api_key=93, versions=(0, 0), flexible_since=0)
class StreamsGroupTopologyDescriptionUpdateResponse:
    throttle_time_ms: int = schema.int32()
    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0, default=None)
