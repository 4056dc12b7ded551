"""doctor: finds the problems of a node or a cluster, and describes each in a sentence.

It collects facts first and then judges them. The judgements are pure; the facts come through the doors. The
map, bottom-up; a module imports only from lines above its own:

finding          a finding: its severity, its subject, and a sentence
endpoint_facts   the result of an attempt to connect to an address
endpoint_findings  judges listeners and advertised addresses
quorum_findings  judges the metadata quorum
disk_findings    judges log directories
clock_findings   finds clocks that differ or were set
version_findings  finds incompatible API versions, and old clients
limit_findings   judges the limit of open files
log_findings     finds logs that cannot be cleaned, and damaged files
codec_findings   finds compression codecs that a node lacks
readiness_findings  finds a node that runs but is not ready
security_findings  judges certificates, files with secrets, open listeners, users and ACLs
rest_findings    judges which clients the REST APIs of nodes admit
secure_dir_findings  judges the directory of keys and certificates of a secured node
partition_findings  finds partitions without a leader, or with too few replicas in sync
down_findings    finds brokers that are down, and the effects
share_findings   finds share groups whose start offset does not move, and lost dead letters
try_endpoint     connects to an address and identifies its protocol (door)
look_at_disk     examines a log directory, and measures a sync (door)
look_at_security  reads the certificates and file modes of a configuration (door)
look_at_secure_dir  examines the directory of keys and certificates of a secured node (door)
ask_cluster      collects facts from the nodes of a cluster (door)
diagnosis        collects the facts of a cluster or a node, and judges them
"""
