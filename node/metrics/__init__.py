"""ottla.node.metrics: a node's metrics for Prometheus, by the names of Strimzi, kafka_exporter and kminion.

State of the node's loop is read on that loop in short turns. The thread of the REST API gets it as plain
values and makes families of samples of them. The map, bottom-up; a module imports only from lines above its
own:

family            families of samples, as the lines that Prometheus reads
pace              pauses of long work in a thread beside the node's loop
readings          the values that were read from a node at one moment
loop_watch        measures how late and how busy the node's loop is
read_node         reads partitions, coordinators and sockets, on the node's loop
read_groups       reads groups and their lag
read_share_starts  reads the start offsets of share groups and their lag
request_families  requests, topics, connections
replica_families  partitions of this node, their logs, its log directories
cluster_families  the controller and the quorum; topics and brokers by kafka_exporter's and kminion's names
client_families   metrics that clients push
share_families    share groups on the leaders of partitions
quota_families    quotas of clients, rates of connections
group_families    coordinators; groups by kafka_exporter's and kminion's names
node_families     the loop, the memory, the process
windows           differences between two readings: rates, quantiles of the last minutes
collector         makes a scrape: reads the node and makes all families
exposition        writes the text of a scrape, and keeps it for a second
rates             the rates of a node or of the cluster, for live charts
history_charts    merges the histories of several nodes into one, for charts
"""
