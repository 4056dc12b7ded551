"""Each order becomes a receipt in another topic, exactly once, however often the pipeline is run."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, concat, lit

spark = SparkSession.active()
SERVERS = {"kafka.bootstrap.servers": spark.conf.get("receipts.bootstrap")}

dp.create_sink(
    name="receipts",
    format="ottla",
    options={
        **SERVERS,
        "topic": spark.conf.get("receipts.to"),
        "delivery.guarantee": "exactly_once",
        # By this id the next run finds the transactions of this one.
        "transactional.id": spark.conf.get("receipts.to"),
    },
)


@dp.append_flow(target="receipts", name="write_receipts")
def write_receipts() -> DataFrame:
    orders = spark.readStream.format("ottla").options(**SERVERS)
    rows = (
        orders.option("subscribe", spark.conf.get("receipts.from"))
        .option("startingOffsets", "earliest")
        .load()
    )
    return rows.select("key", concat(lit("receipt for "), col("value").cast("string")).alias("value"))
