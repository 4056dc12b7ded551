"""ottla.node.counters: counters that the hot path increments. Bottom-up:

election_counters  elections of partition leaders, counted on the controller's node
refused_requests   requests in versions that this node does not serve
request_counters   requests of one API: number, time, errors
rest_work          one kind of work of the REST API: running, waiting, rejected
share_counters     share groups, at the leaders of their partitions
topic_counters     one topic, over the partitions that the node hosts
leader_load        the load of this node as a leader, over some minutes
history            samples of the counters of the last hour
node_counts        totals since the node started, over all topics and versions
"""
