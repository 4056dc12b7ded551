"""doctor: what is wrong with a node or a cluster, a sentence for each, from facts that were collected before.

The judgements are pure; the facts come through the doors. The map, bottom-up; a module imports only from
lines above its own:

finding          what is found: how bad, about what, in a sentence
endpoint_facts   what is known of an address after it was tried
endpoint_findings  listeners and advertised addresses
quorum_findings  the metadata quorum
disk_findings    log directories
clock_findings   clocks that differ or jumped
version_findings  versions that do not fit, old clients
limit_findings   open files
log_findings     logs that cannot be cleaned
codec_findings   compressions that a node cannot open
readiness_findings  a node that runs and serves nobody yet
security_findings  certificates, files with secrets, who may come in, and who may do what
rest_findings    who comes in to the REST APIs of nodes, and by what
secure_dir_findings  the directory of keys and certificates of a secured node
partition_findings  partitions without a leader, or with too few replicas in sync
down_findings    brokers that are down, with all that follows from it
share_findings   share groups whose oldest record is retried or held for long
try_endpoint     an address is resolved, connected to and asked (door)
look_at_disk     a log directory is looked at, and a sync is measured (door)
look_at_security  certificates and files of a configuration are read (door)
look_at_secure_dir  the directory of keys and certificates of a secured node is looked at (door)
ask_cluster      what the nodes say of themselves and of each other (door)
diagnosis        collects and judges
"""
