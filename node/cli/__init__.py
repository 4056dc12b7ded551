"""ottla.node.cli: the command `ottla`. Bottom-up:

failure            why a command did not succeed, in one sentence that says what to do
cut_off_warning    the warnings of every command about the nodes it speaks to
answers            the results of commands, as text or as JSON: the one door to both
password_input     passwords from a terminal, a file, standard input, or chance
acl_words          ACLs in the words of a command line: what is to be created, which are meant
shell_completion   completion of `ottla` in bash, zsh and fish
profiles           how to connect to clusters, under names, in a file of the user
profile_option     `--profile` of every command that speaks to a cluster
added_commands     commands that other packages add to `ottla`
log_stream         writes the lines of a log in a thread
log_output         the log of a process on standard error
record_text        records as lines of text
progress           how far a long command has got
output_file        the file that `ottla consume --output-file` writes
written_report     where `ottla produce` wrote its records
record_options     the options of `ottla produce` and `ottla consume`
perf_figures       latencies and throughput, in the words of Kafka's tools
standard_streams   standard input, output and error are there
topic_commands     topics as tables and JSON, and what is done to them
acl_commands       ACLs as tables and JSON, and what is done to them
quota_commands     quotas as tables and JSON, and what is done to them
user_commands      SCRAM users as tables and JSON, and what is done to them
command_config     how a command connects: `--command-config`
administrator_lines  where the settings of the administrator of a secured cluster are
broker_commands    `ottla broker ...`
cluster_overrides  settings for all nodes of `ottla cluster up`, judged before anything is started
command_options    the words that several commands of `ottla` share, and how a command runs to its exit code
config_commands    settings of topics, groups and subscriptions to client metrics
host_nodes         the settings of several nodes of one host, derived from those of the host
doctor_command     `ottla doctor`
free_ports         whether the ports of a local cluster are free, told before its nodes are started
acl_app            the options of `ottla acl`
quota_app          the options of `ottla quota`
user_app           the options of `ottla user`
profile_commands   profiles as tables and JSON, and what is done to them
profile_app        the options of `ottla profile`
share_group_tables  what share groups have in flight as text
group_tables       groups, members, lag and resets as text and as JSON
hand_over          `ottla hand-over`
quorum_commands    `ottla quorum ...`
balance_commands   `ottla cluster balance`
reassign_commands  `ottla topic reassign` and `elect`
plan_commands      `ottla topic reassign` by plans of kafka-reassign-partitions
record_commands    `ottla produce` and `ottla consume`
perf_commands      `ottla perf ...`
copy_command       `ottla topic copy`
record_worker      a command that is run for each record of a share group
share_commands     `ottla consume --share`
local_cluster      `ottla cluster up` and `ottla cluster start-node`
host_supervisor    runs the nodes of one host, and starts those again that die
broker_care        `ottla broker log-dirs`, `drain`, `undrain` and `throttle`
health_commands    `ottla cluster health` and `info`
trim_command       `ottla topic trim`
serve              `ottla start`
secure_commands    `ottla secure ...`
secure_app         the options of `ottla secure`
group_commands     `ottla group ...`
client_metrics_app  the options of `ottla client-metrics`
topic_app          the options of `ottla topic`
perf_app           the options of `ottla perf`
txn_tables         transactions and producers as text and as JSON
cluster_app        the options of `ottla cluster`, `ottla quorum`
broker_app         the options of `ottla broker`
group_app          the options of `ottla group`
txn_commands       `ottla txn ...`
txn_app            the options of `ottla txn`
app                `ottla`
"""
