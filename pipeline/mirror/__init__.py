"""mirror: topics of one cluster copied to another, partition by partition, as MirrorMaker does.

The map, bottom-up:

name_patterns       lists of names and regular expressions, for topics and groups
replication_policy  the names of topics in the target, and the topics that would be copied in cycles
mirror_options      reads the options of a mirror
topic_changes       computes the changes of the target's topics
offset_map          translates offsets of the source to the target
group_plan          computes the offsets that a group gets in the target
topic_follower      copies topics, partitions and settings (asks)
sync_reader         reads the map of offsets from its topic (asks)
group_follower      copies the offsets of groups (asks)
mirror_status       reads the status of a mirror (asks)
mirror_rounds       runs the periodic work beside the rows (door)
mirrored_rows       the rows of a mirror in Spark
mirror_job          runs a mirror: a query, and the rounds beside it
"""
