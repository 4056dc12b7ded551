"""The features that this release supports, and their levels (KIP-584).

A new cluster begins at the highest level of each. A cluster that is upgraded node by node keeps its levels,
and lacks newer features, until UpdateFeatures raises them.
"""

from typing import Final

from ottla.metadata_raft.metadata_version import (
    LATEST_METADATA_VERSION,
    LOWEST_METADATA_VERSION,
    METADATA_VERSION,
)

# 1 if consumer groups (KIP-848) are allowed, else 0. Older nodes could not coordinate them.
GROUP_VERSION: Final = "group.version"
# The version of transactions: 0 as in Apache Kafka before 4.0, 1 with flexible record versions, 2 with an
# epoch that increases at the end of each transaction (KIP-890).
TRANSACTION_VERSION: Final = "transaction.version"
# 1 if share groups (KIP-932) are allowed, 2 with dead letters (KIP-1191) as in Kafka 4.4, else 0. Older nodes
# could not keep their state, or reject the state of a record whose dead letter is not written yet.
SHARE_VERSION: Final = "share.version"
DEAD_LETTERS_SINCE: Final = 2  # level of share.version
# 1 if the metadata may hold access control entries, client quotas and SCRAM credentials. Nodes that do not
# know the feature stop at such a record, so it cannot be disabled again. Apache Kafka has no feature for
# them.
SECURITY_VERSION: Final = "ottla.security.version"

# At level 1 replicas outside the ISR with every acknowledged record may lead (KIP-966). An older controller
# would keep them in the metadata after they stopped being eligible.
ELIGIBLE_LEADER_REPLICAS_VERSION: Final = "eligible.leader.replicas.version"

# The range of levels that a node supports, as in its registration.
SUPPORTED_FEATURES: Final = {
    METADATA_VERSION: (LOWEST_METADATA_VERSION, LATEST_METADATA_VERSION),
    GROUP_VERSION: (0, 1),
    TRANSACTION_VERSION: (0, 2),
    SHARE_VERSION: (0, 2),
    ELIGIBLE_LEADER_REPLICAS_VERSION: (0, 1),
    SECURITY_VERSION: (0, 1),
}
