"""The benchmark of `scripts/bench`.

program_environment  the variables of Python programs that run beside a benchmark
frames      Produce and Fetch frames built once, with bytes that owe nothing to the code under test
load        generators that replay those frames over raw sockets
clients     the same work through confluent-kafka (librdkafka)
servers     Ottla and Apache Kafka as processes: start, CPU, memory, stop
workload    the shape of a workload: its name, how long a run lasts, its figures
groups      commits of consumer groups
group_members     members of librdkafka in processes of their own, and how long they wait for each other
group_heartbeats  ten thousand members that heartbeat
group_load  how long a coordinator takes to load a million offsets
transactions  commits a second, what they cost, and what readers of committed records pay
workloads   what is measured: a table of named workloads
report      medians, ratios and goals as a table and as JSON
choice      which workloads and servers the command line asks for
scale       the metadata of up to a million partitions: `scripts/bench scale`
spark_session     a Spark session and its CPU
spark_jobs  rows into a topic, out of one, from one to another
spark_trickle     how long one record takes from topic to topic
cores       hosts of one node and of several: `scripts/bench cores`
acls        what ACLs cost a request: `scripts/bench acls`
share_workers  members of share groups in processes of their own
shares      records that share groups take: `scripts/bench shares`
tls         SSL listeners, and a storm of new connections: `scripts/bench tls`
balance     a cluster grows from three nodes to five: `scripts/bench balance`
rest        records and topics through the REST API: `scripts/bench rest`
spark       our format beside Spark's own connector: `scripts/bench spark`
"""
