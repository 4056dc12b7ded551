"""ottla.node.cli: the command `ottla`. Bottom-up:

failure            explains why a command failed, in one sentence that says what to do
cut_off_warning    the warnings of every command about its nodes
answers            prints the results of commands, as text or as JSON
password_input     passwords from a terminal, a file or standard input, or random ones
acl_words          parses the options of `ottla acl`
shell_completion   completion of `ottla` in bash, zsh and fish
profiles           named connections to clusters, in a file of the user
profile_option     `--profile` of every command that connects to a cluster
added_commands     commands that other packages add to `ottla`
log_stream         writes the lines of a log in a thread
log_output         the log of a process on standard error
record_text        records as lines of text
progress           the progress line of a long command
output_file        the file that `ottla consume --output-file` writes
written_report     the report of `ottla produce` about its records
record_options     the options of `ottla produce` and `ottla consume`
perf_figures       latencies and throughput, as Kafka's tools print them
standard_streams   opens standard input, output and error if they are closed
topic_commands     runs the commands of `ottla topic`
acl_commands       runs the commands of `ottla acl`
quota_commands     runs the commands of `ottla quota`
user_commands      runs the commands of `ottla user`
rest_url           the address of a REST API, and the security of connections to it
command_config     the connection of a command, from `--command-config` or a profile
administrator_lines  the lines about the administrator of a secured cluster
broker_commands    lists and decommissions brokers
cluster_overrides  settings for all nodes of `ottla cluster up`, validated before a node is started
command_options    the options that several commands of `ottla` share, and the functions that run a command
config_commands    settings of topics, groups, brokers and subscriptions to client metrics
host_nodes         the settings of several nodes of one host, derived from those of the host
doctor_command     `ottla doctor`
free_ports         checks that the ports of a local cluster are free
acl_app            the options of `ottla acl`
quota_app          the options of `ottla quota`
user_app           the options of `ottla user`
profile_commands   runs the commands of `ottla profile`
profile_app        the options of `ottla profile`
rest_command       `ottla rest`
share_group_tables  the partitions of share groups as tables
group_tables       groups, members, lag and resets as text and as JSON
hand_over          `ottla hand-over`
quorum_commands    `ottla quorum ...`
balance_commands   `ottla cluster balance`
reassign_commands  `ottla topic reassign` and `elect`
plan_commands      `ottla topic reassign` by plans of kafka-reassign-partitions
record_commands    `ottla produce` and `ottla consume`
perf_commands      `ottla perf ...`
copy_command       `ottla topic copy`
record_worker      a command that runs for each record of a share group
share_commands     `ottla consume --share`
local_cluster      `ottla cluster up` and `ottla cluster start-node`
host_supervisor    runs the nodes of one host, and restarts those that die
broker_maintenance        `ottla broker log-dirs`, `drain`, `undrain` and `throttle`
health_commands    `ottla cluster health` and `info`
trim_command       `ottla topic trim`
serve              `ottla start`
secure_commands    `ottla secure ...`
secure_app         the options of `ottla secure`
group_commands     runs the commands of `ottla group`
client_metrics_app  the options of `ottla client-metrics`
topic_app          the options of `ottla topic`
perf_app           the options of `ottla perf`
txn_tables         transactions and producers as tables
cluster_app        the options of `ottla cluster`, `ottla quorum`
broker_app         the options of `ottla broker`
group_app          the options of `ottla group`
txn_commands       runs the commands of `ottla txn`
txn_app            the options of `ottla txn`
app                `ottla`
"""
