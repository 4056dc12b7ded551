"""columns: whole fetches of record batches into Arrow columns, and columns into batches; no Python per row.

Pure: bytes and arrays in, arrays and bytes out. The map, bottom-up:

varints             reads and writes zig-zag varints at many positions at once
landmarks           guesses where records begin within large batches
record_walk         finds where each record of many batches begins and ends
number_columns      makes Arrow columns of numbers
binary_columns      makes an Arrow column of parts of a buffer
record_places       finds the parts of each record, by the compiled walk or by record_walk
header_columns      reads the headers of records into a list column
record_columns      holds the columns of a fetch, and makes the batch that Spark gets of them
visible_batches     selects the batches of a fetch that a reader sees
fetched_batches     opens the fetch answer of one partition, all batches at once
murmur2             hashes keys as Java's producer does
partitioner         chooses the partition of each row
row_columns         judges the columns that a sink takes, and divides its rows by partition
offset_runs         describes the places of copied rows in few numbers
producer_pair       a producer id with its epoch
batch_encoder       encodes columns as record batches
batch_halves        splits one record batch in two
"""
