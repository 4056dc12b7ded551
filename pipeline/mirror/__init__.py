"""mirror: topics of one cluster in another, partition for partition, as MirrorMaker does.

The map, bottom-up:

name_patterns       lists of names and expressions, of topics and of groups
replication_policy  what a topic is called in the target, and which go round in a circle
mirror_options      everything that a mirror is told
topic_changes       what is to change in the target's topics
offset_map          offsets of the source in the target
group_plan          which offsets a group gets in the target
topic_follower      topics, partitions and settings follow (asks)
sync_reader         the map of offsets as its topic has it (asks)
group_follower      groups follow (asks)
mirror_status       how far it is (asks)
mirror_rounds       what is done each so often beside the rows (door)
mirrored_rows       the rows as Spark sees them
mirror_job          a query, and what follows beside it
"""
