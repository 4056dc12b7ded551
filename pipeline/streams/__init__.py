"""streams: functions of stream processing, which take frames and return one, in code and in job files.

Their arguments are text, as in a job file. They do not hide Spark: each is a few lines over its functions,
which take care of the watermark, the key and the columns. The map, bottom-up:

arguments           reads names of columns and times from text
json_records        reads records of JSON as rows, and writes rows as records
table               reads a compacted topic as a table: the latest record of each key
windows             counts and sums by windows of time, with a watermark
sessions            groups rows without a long pause between them
dedup               drops duplicates of rows
joins               joins a stream with a table, or two streams within a time
state               user-defined state by `transformWithState`: streaks of rows over a limit; reads state back
flights             reads the flights of `scripts/demo` as rows; jobs over two sources
"""
