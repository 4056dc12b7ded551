"""The benchmarks of `scripts/bench`.

program_environment  the environment variables of Python programs that run beside a benchmark
frames            Produce and Fetch frames, built once and without the code under test
load              generators that replay the frames over raw sockets
clients           produces and consumes through confluent-kafka (librdkafka)
client_programs   programs of several clients that write or read, each in a process of its own
steady_producers  producers of several clients at a steady rate, each in a process of its own
servers           Ottla and Apache Kafka as processes: start, CPU, memory, stop
clusters          clusters of either server, a process for each node
workload          the type of a workload, with its name, its plan and its figures
turns             measures servers in turns
groups            commits of consumer groups
group_members     the duration of rebalances, with members of librdkafka in processes of their own
group_heartbeats  heartbeats of ten thousand members of groups
group_load        the time that a coordinator takes to load a million offsets
committed_reads   reads committed records over raw sockets
transactions      commits a second, their cost, and the cost of reading committed records
workloads         the table of workloads on one server
cluster_workloads  the table of workloads on a cluster
report            medians, ratios and goals as a table and as JSON
choice            chooses the workloads and servers that the command line names
acls              the cost of ACLs for a request: `scripts/bench acls`
balance           a cluster that grows from three nodes to five: `scripts/bench balance`
client_throughput  the throughput of common clients: `scripts/bench clients`
cores             hosts of one node and of several: `scripts/bench cores`
failover          the time without writes after a failure of a leader: `scripts/bench failover`
observers         the CPU that observers cost a voter: `scripts/quorum observers`
rest              records and topics through the REST API: `scripts/bench rest`
scale             the metadata of up to a million partitions: `scripts/bench scale`
share_workers     members of share groups in processes of their own
shares            records delivered to share groups: `scripts/bench shares`
spark_session     a Spark session and its CPU
spark_jobs        Spark jobs that write a topic, read one, or copy one to another
spark_trickle     the latency of single records that Spark copies from topic to topic
spark             `format("ottla")` beside Spark's own connector: `scripts/bench spark`
tls               SSL listeners, and a flood of new connections: `scripts/bench tls`
"""
