"""metrics: what a node tells a Prometheus, under the names of Strimzi, kafka_exporter and kminion.

What belongs to the node's loop is read there in short turns and handed to the thread of the REST API as plain
values; families of samples are made of it there. The map, bottom-up; a module imports only from lines above
its own:

family            families of samples, as the lines that a Prometheus reads
pace              the pauses of long work in a thread beside the node's loop
readings          what was read of a node at one moment
loop_watch        how late and how busy the node's loop is
read_node         reads partitions, coordinators and sockets, on the node's loop
read_groups       reads groups and how far they are behind
read_share_starts  reads where share groups start, and how far they are behind
request_families  requests, topics, connections
replica_families  partitions of this node, their logs, its log directories
cluster_families  the controller, the quorum; topics and brokers as kafka_exporter and kminion tell them
client_families   metrics that clients push
share_families    share groups at the leaders of partitions
quota_families    quotas of clients, rates of connections
group_families    groups, as kafka_exporter and kminion tell them
node_families     the loop, the memory, the process
windows           differences between two readings: rates, quantiles of the last minutes
collector         a scrape: everything read, and all families made of it
exposition        the text of a scrape, kept for a second
rates             what a node or the cluster does a second, for live charts
history_charts    the histories of several nodes as one, for charts
"""
