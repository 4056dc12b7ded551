"""streams: what stream processors do, as functions that take frames and give one, in code and in job files.

Their arguments are texts, as a job file has them. Nothing of it hides Spark: each is a few lines over its
functions, with the watermark, the key and the columns where one forgets them. The map, bottom-up:

arguments           names of columns and times out of texts
json_records        records of JSON to rows, and rows to records
table               a compacted topic as a table: the latest record of each key
windows             counts and sums by windows of time, with a watermark
sessions            rows with no long pause between them
dedup               each row once, however often it came
joins               a stream with a table; two streams within a time
state               state of one's own by `transformWithState`: rows over a limit in a row; state read back
flights             the flights of `scripts/demo` as rows, and jobs of two sources over them
"""
