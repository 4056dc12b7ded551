"""ottla.node.counters: what the hot path counts. Bottom-up:

election_counters  how often partitions got another leader, as the metadata tell the controller's node
refused_requests   requests in versions that this node does not serve
request_counters   what a node counts of the requests of one API
rest_work          how much of one kind of work the REST API has, and what it has refused
share_counters     what a node counts of share groups, at the leaders of their partitions
topic_counters     what a node counts of one topic, over the partitions that it hosts
leader_load        how much this node serves as a leader, over some minutes
node_counts        what a node has counted since it began, over all topics and versions
"""
