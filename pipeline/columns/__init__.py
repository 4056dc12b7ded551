"""columns: whole fetches of record batches into Arrow columns, and columns into batches; no Python a row.

Pure: bytes and arrays in, arrays and bytes out. The map, bottom-up:

varints             zig-zag varints of many places at once
landmarks           guesses where records begin inside of large batches
record_walk         where each record of many batches begins and ends
number_columns      numbers as Arrow columns
binary_columns      parts of a buffer as an Arrow column
record_places       where the parts of each record stand: by the compiled walk, or by the one before
header_columns      headers of records as a list column
record_columns      the columns of a fetch, and the batch that Spark gets
visible_batches     which batches of a fetch a reader sees
fetched_batches     one fetch answer of one partition, opened all at once
murmur2             the hash of keys in Java's producer
partitioner         which partition a row goes to
row_columns         which columns a sink takes, and its rows by partition
offset_runs         where copied rows lie, as few numbers
producer_pair       who made a batch
batch_encoder       columns into record batches
batch_halves        one record batch as two
"""
