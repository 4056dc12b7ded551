"""`metadata.version`: the finalized feature that says which records all brokers of the cluster can read.

Its levels and what each of them allows are Apache Kafka's (4.3-IV0 is 30). A cluster begins at the highest
level; one whose nodes are replaced one by one stays where it is until UpdateFeatures raises it, and until
then records are written in the versions of its level.
"""

from typing import Final

METADATA_VERSION: Final = "metadata.version"
# 3.7-IV2: the first with directories (KIP-858), without which replicas cannot be told from lost ones.
LOWEST_METADATA_VERSION: Final = 17
LATEST_METADATA_VERSION: Final = 30

ELIGIBLE_LEADER_REPLICAS_SINCE: Final = 23  # 4.0-IV1
CORDONED_LOG_DIRS_SINCE: Final = 30  # 4.3-IV0
# The levels at which a record got a new version. Kafka does not go back behind such a one: what newer
# records said could not be written any more.
CHANGES_OF_RECORDS: Final = (LOWEST_METADATA_VERSION, ELIGIBLE_LEADER_REPLICAS_SINCE, CORDONED_LOG_DIRS_SINCE)


def writes_the_same(one: int, other: int) -> bool:
    """Whether two levels write all records in the same versions."""
    return _generation(one) == _generation(other)


def _generation(level: int) -> int:
    return sum(level >= since for since in CHANGES_OF_RECORDS)
