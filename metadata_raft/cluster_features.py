"""The features that a node of this release knows, and the levels that they may have (KIP-584).

A new cluster begins at the highest level of each. One whose nodes are replaced one by one keeps the levels
that it has, and lacks those that came later, until UpdateFeatures raises them.
"""

from typing import Final

from ottla.metadata_raft.metadata_version import (
    LATEST_METADATA_VERSION,
    LOWEST_METADATA_VERSION,
    METADATA_VERSION,
)

# Whether there are consumer groups (KIP-848): 0 no, 1 yes. Older nodes could not coordinate them.
GROUP_VERSION: Final = "group.version"
# How transactions are kept: 0 as Apache Kafka before 4.0 does, 1 with values that can be extended (KIP-890),
# 2 with an epoch that moves at the end of each.
TRANSACTION_VERSION: Final = "transaction.version"
# Whether there are share groups (KIP-932): 0 no, 1 yes, 2 with dead letters (KIP-1191), as in Kafka 4.4.
# Older nodes could not keep their state, or refuse that of a record which waits for its dead letter.
SHARE_VERSION: Final = "share.version"
DEAD_LETTERS_SINCE: Final = 2  # of its levels
# 1 if the metadata may hold access control entries, client quotas and SCRAM credentials. Nodes that do not
# know the feature stop at such a record, so it cannot be taken back. Apache Kafka has no feature for them.
SECURITY_VERSION: Final = "ottla.security.version"

# At level 1 replicas that left an ISR of too few may still lead (KIP-966). An older controller
# would leave them in the metadata where they are eligible no more.
ELIGIBLE_LEADER_REPLICAS_VERSION: Final = "eligible.leader.replicas.version"

# What a node says of itself when it registers.
SUPPORTED_FEATURES: Final = {
    METADATA_VERSION: (LOWEST_METADATA_VERSION, LATEST_METADATA_VERSION),
    GROUP_VERSION: (0, 1),
    TRANSACTION_VERSION: (0, 2),
    SHARE_VERSION: (0, 2),
    ELIGIBLE_LEADER_REPLICAS_VERSION: (0, 1),
    SECURITY_VERSION: (0, 1),
}
