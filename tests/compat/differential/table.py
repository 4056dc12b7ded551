"""The requests of the differential test: valid, odd and hostile ones of each API, in all versions.

They run against both servers in the order of the imports, so later requests find what earlier ones changed.
"""

# isort: off
# ruff: noqa: F401
from tests.compat.differential.cases import CASES
from tests.compat.differential import metadata_cases
from tests.compat.differential import produce_cases
from tests.compat.differential import fetch_cases
from tests.compat.differential import topic_cases
from tests.compat.differential import group_cases
from tests.compat.differential import controller_cases
from tests.compat.differential import security_cases
from tests.compat.differential import client_metrics_cases
# isort: on

__all__ = ["ALLOWED", "CASES"]

# Pattern over "api case path" -> the reason why the two may differ there.
ALLOWED: dict[str, str] = {
    # Requests at which Kafka throws an unexpected exception (UNKNOWN_SERVER_ERROR).
    r"^metadata null name": "an exception in Kafka, an invalid request here",
    r"^describe_topic_partitions unknown and illegal": "an empty name fails all others in Kafka",
    r"^produce batch_length 2147483647 ": "a number overflows in Kafka",
    r"^produce attributes -32768 ": "an exception in Kafka",
    r"^fetch (negative bytes|isolation 9) ": "an exception in Kafka, a normal response here",
    r"^describe_quorum of no topic, allowed nodes$": "the voters are returned although no topic is named",
    r"^fetch of a follower, allowed ": "only an authenticated node may read uncommitted records",
    r"^alter_share_group_offsets .* responses\[[12]\]\.topic_id$": "ids of unreadable topics are left out",
    r"^(describe_groups|offset_fetch) .* twice groups$": "each group once, or an answer could take gigabytes",
    r"^alter_client_quotas a host name ": "names are not resolved, since their addresses may change",
    # Values.
    r"^produce .*\.log_start_offset$": "no client reads the log start offset beside an error",
    r"^create_topics with .*\.value$": "values are kept as they were parsed, not as they were written",
    r"^create_topics no timeout ": "Kafka times out before it has begun",
    r"^offset_for_leader_epoch epoch -5 ": "an empty log has no epoch here, Kafka's has the leader's",
    r"^describe_producers unknown .*error_message": "the error code says the same",
    r"\[(errors\.deadletterqueue\.group\.enable|max\.decompressed\.message\.bytes)\]": "new in Kafka 4.4",
    r"\[(log\.)?remote\.copy\.lag\.(bytes|ms)\]": "new in Kafka 4.4",
    r"\[ottla\.offsets\.retention\.ms\]": "a setting of groups that Kafka does not have",
    r"\[ottla\.share\.retry\.backoff\.(ms|max\.ms)\]": "settings of groups that Kafka does not have",
    r"\[errors\.deadletterqueue\..*\]: only ottla": "of KIP-1191, which no release of Kafka has yet",
    r"\[ottla\.delivery\.delay\.(enable|ms|max\.ms|max\.records)\]": "settings that Kafka does not have",
    # The broker's own settings.
    r"^describe_configs broker .*: only (ottla|kafka)$": "each lists the settings that it has",
    r"^describe_configs .*\[(advertised\.)?listeners\]": "its own address",
    r"^describe_configs .*\[(log\.dirs?|metadata\.log\.dir)\]": "its own directories",
    r"^describe_configs .*\[(controller\..*|process\.roles|node\.id|broker\.id)\]": "its own identity",
    r"^describe_configs .*\[(inter\.broker\.listener\.name|listener\.security.*)\]": "its own listeners",
    r"^describe_configs .*\[offsets\.topic\.replication\.factor\]": "the reference has one node",
    r"^describe_configs .*\[transaction\.state\.log\.(replication\.factor|min\.isr)\]": "it has one node",
    r"^describe_configs .*\[share\.coordinator\.state\..*(replication\.factor|min\.isr)\]": "it has one node",
    r"^describe_configs .*\[group\.initial\.rebalance\.delay\.ms\]": "set for the tests",
    r"^describe_configs .*\[socket\.listen\.backlog\.size\]": "512 here, for many clients at once",
    r"^describe_configs .*\[ssl\.": "PEM by default; read at start without a listener's prefix",
    r"^describe_configs .*\[sasl\.(enabled\.mechanisms|jaas\.config)\]": "read at start without a prefix",
    r"^describe_configs .*\[sasl\.mechanism\.inter\.broker\.protocol\]": "read at start",
    r"^describe_configs .*\[sasl\.server\.max\.receive\.size\]": "64 KiB before the login",
    r"^elect_leaders all ": "lists every topic, and Kafka may lack that of `create_topics no timeout`",
    r"^describe_configs .*\[num\.recovery\.threads\.per\.data\.dir\]": "only read at start here",
}
