"""The benchmark of `scripts/bench`.

program_environment  the variables of Python programs that run beside a benchmark
frames      Produce and Fetch frames, built once and without the code under test
load        generators that replay the frames over raw sockets
clients     produces and consumes through confluent-kafka (librdkafka)
servers     Ottla and Apache Kafka as processes: start, CPU, memory, stop
workload    the type of a workload, with its name, its plan and its figures
groups      commits of consumer groups
group_members     the duration of rebalances, with members of librdkafka in processes of their own
group_heartbeats  ten thousand members that heartbeat
group_load  the time that a coordinator takes to load a million offsets
transactions  commits a second, their cost, and the cost of reading committed records
workloads   the table of workloads on one server
report      medians, ratios and goals as a table and as JSON
choice      chooses the workloads and servers that the command line names
scale       the metadata of up to a million partitions: `scripts/bench scale`
spark_session     a Spark session and its CPU
spark_jobs  Spark jobs that write a topic, read one, or copy one to another
spark_trickle     the latency of single records that Spark copies from topic to topic
cores       hosts of one node and of several: `scripts/bench cores`
acls        the cost of ACLs for a request: `scripts/bench acls`
share_workers  members of share groups in processes of their own
shares      records delivered to share groups: `scripts/bench shares`
tls         SSL listeners, and a flood of new connections: `scripts/bench tls`
balance     a cluster that grows from three nodes to five: `scripts/bench balance`
rest        records and topics through the REST API: `scripts/bench rest`
spark       our format beside Spark's own connector: `scripts/bench spark`
"""
