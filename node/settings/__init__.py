"""ottla.node.settings: the settings of a node: tables, configuration file, environment, overrides. Bottom-up:

invalid_setting        the error of a setting that is not valid
listener_settings      parses `listeners`, `advertised.listeners` and the settings that go with them
properties_file        parses properties files as Java does
setting                defines a broker setting in one call
audit_settings         the broker settings of the audit log, and the file that they describe
authorization_settings  the broker settings of the authorizer, parsed
first_users            parses `ottla.add.scram`, the first SCRAM users of a new cluster
oauthbearer_settings   the broker settings of OAUTHBEARER, and the tokens that they accept
sasl_settings          the broker settings of SASL, resolved for one listener
security_settings      the broker settings of TLS, resolved for one listener
settings_not_honoured  the broker settings of Apache Kafka 4.3 that have no effect here
cluster_settings       the broker settings of quorum, brokers, replication and peers
group_config_def       the settings of single groups (ConfigResource GROUP)
client_metrics_config_def  the settings of subscriptions to client metrics (ConfigResource CLIENT_METRICS)
group_settings         the broker settings of groups and their offsets, and the limits between them
balance_settings       the broker settings of the automatic balance of a cluster
metrics_settings       the broker settings of metrics for Prometheus and of clients' metrics
rest_settings          the broker settings of the REST API and of probes, and the addresses in them
failed_login_settings  the broker settings of failed logins: a limit for each address
rest_security_settings  the broker settings of TLS and logins of the REST API, resolved
share_coordinator_settings  the broker settings of the share coordinator
share_partition_settings  the broker settings of share-partitions at their leaders
transaction_settings   the broker settings of transactions
secure_settings        the settings that `ottla.secure` implies, and those that contradict it
broker_settings        the table of broker settings that a node honours
open_listeners         finds the listeners that a node opens, and the TLS and logins of each
quorum_role            finds the role of a node in the metadata quorum
unhonoured_security    rejects settings of security that would have no effect
config                 reads file, environment and overrides into one frozen BrokerConfig
coordinator_configs    converts the settings of a node to those of its coordinators
exposed_listeners      finds listeners open to other machines without TLS, or without logins
"""
