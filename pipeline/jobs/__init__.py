"""jobs: job files: read, checked and run; the status of their jobs.

The map, bottom-up:

problems            the errors of a job file: line, key and reason; secrets hidden
yaml_tree           reads YAML as a tree of texts with their lines
environment_values  fills in `${NAME}` in a value
python_functions    checks that a function exists, without running its module
kinds               the kinds of sources, sinks and tasks that names stand for
spark_formats       Spark's own formats
registry            the names that a job file may use
job                 a job file that was read
tree_values         reads values from the tree, and collects each error
option_checks       checks options by their kind
flow_reader         reads the sources, steps and sink of a job
job_reader          reads and checks a job file as a whole
job_status          the status of a job: state, last progress
status_files        keeps statuses in a folder, and the lock of each job (door)
frames              makes the rows of a job: sources as views, then its steps
query_events        the events of a job
stop_signals        turns SIGTERM and Ctrl-C into a request to stop (door)
runner              runs all jobs of a file in one application, until they end (door)
status_table        prints statuses as a table
cli                 the command `ottla pipeline`
__main__            the command as a program for spark-submit
"""
