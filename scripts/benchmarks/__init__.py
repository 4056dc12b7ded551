"""The benchmark of `scripts/bench`.

frames      Produce and Fetch frames built once, with bytes that owe nothing to the code under test
load        generators that replay those frames over raw sockets
clients     the same work through confluent-kafka (librdkafka)
servers     Ottla and Apache Kafka as processes: start, CPU, memory, stop
workloads   what is measured: a table of named workloads
report      medians, ratios and goals as a table and as JSON
"""
