"""ottla.node.settings: the settings of a node: tables, configuration file and command line. Bottom-up:

invalid_setting        how a setting is refused that cannot be what it is
listener_settings      `listeners` and its relatives
properties_file        Java's properties files
setting                how the tables of settings are written
audit_settings         the broker settings of the audit log, and what they come to
authorization_settings  the broker settings of the authorizer, and what they come to
first_users            the SCRAM users that a new cluster begins with
oauthbearer_settings   the broker settings of OAUTHBEARER, and what they come to
sasl_settings          the broker settings of SASL, and what they come to for one listener
security_settings      the broker settings of TLS, and what they come to for one listener
settings_not_honoured  broker settings of Apache Kafka 4.3 that mean nothing here, or nothing yet
cluster_settings       the settings of a node among others
group_config_def       the settings of single groups (ConfigResource GROUP)
client_metrics_config_def  the settings of subscriptions to client metrics (ConfigResource CLIENT_METRICS)
group_settings         the broker settings of groups and their offsets, and what they must be to each other
balance_settings       the broker settings by which a cluster balances itself
metrics_settings       the broker settings of what is told to a Prometheus
rest_settings          the broker settings of the REST API and of probes, and the addresses in them
failed_login_settings  the broker settings of failed logins: how many of one address are answered at once
rest_security_settings  the broker settings of TLS and logins of the REST API, and what they come to
share_coordinator_settings  the broker settings of the share coordinator
share_partition_settings  the broker settings of share-partitions, at their leaders
transaction_settings   the broker settings of transactions
secure_settings        the settings that `ottla.secure` stands for, and those that contradict it
broker_settings        the table of broker settings that a node honours
open_listeners         the listeners that a node opens, and what TLS and logins are on each
quorum_role            what a node is to the metadata quorum
unhonoured_security    settings of security that a node does not honour stop its start
config                 file, environment and command line into one frozen BrokerConfig
coordinator_configs    the settings of a node as its coordinators name them
exposed_listeners      which listeners other machines reach without TLS, or without a login as super users
"""
