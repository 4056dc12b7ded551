"""pipeline: the data pipeline on Spark. Being built: nothing of it is served yet.

It speaks Kafka's protocol and nothing else of Ottla, so that it works against Apache Kafka as well. Of `node`
it has the wire messages, of `logstore` the words and the record batch (`tests/tidy` holds both lists).

The map, bottom-up; a module imports only from lines above its own, and so does a folder:

words               errors of the user's making: an option that cannot be honoured
columns             record batches from and to Arrow columns
client              a Kafka client that blocks and pipelines: metadata, fetches, produces, transactions
"""
