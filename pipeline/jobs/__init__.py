"""jobs: what stands in a job file, judged and run, and how its jobs fare.

The map, bottom-up:

problems            what is wrong with a file: line, key and reason; secrets hidden
yaml_tree           YAML as a tree of texts with their lines
environment_values  `${NAME}` in a value
python_functions    whether a function is there, without running its module
kinds               what a name of a source, a sink or a whole job stands for
spark_formats       Spark's own formats
registry            the names that there are
job                 a job file as it was meant
tree_values         values out of the tree, each mistake collected
option_judge        options judged by their own kind
flow_reader         sources, steps and sink of a job
job_reader          a job file, read and judged whole
job_status          how a job fares: state, last progress
status_files        statuses in a folder, and the lock of each job (door)
frames              a job's rows: sources as views, then its steps
query_events        what happens to a job, as events
stop_signals        SIGTERM and Ctrl-C as a wish to stop (door)
runner              all jobs of a file in one session, until they end (door)
status_table        statuses as lines for people
cli                 `ottla pipeline ...`
__main__            the same as a program for spark-submit
"""
