# The image of spark-job.yaml, for submission, driver and executors alike:
#   docker build -f k8s/spark.Dockerfile -t ottla-spark:0.1.0 .
FROM apache/spark:4.3.0 AS spark

FROM python:3.12-slim-bookworm
RUN apt-get update \
    && apt-get install -y --no-install-recommends openjdk-17-jre-headless procps tini \
    && rm -rf /var/lib/apt/lists/*
COPY . /src
RUN pip install --no-cache-dir '/src[spark]' && rm -rf /src
# Kubernetes starts drivers and executors by this script, which Spark's wheel does not have.
COPY --from=spark /opt/entrypoint.sh /opt/entrypoint.sh
ENV SPARK_HOME=/usr/local/lib/python3.12/site-packages/pyspark
WORKDIR /opt/spark/work-dir
ENTRYPOINT ["/opt/entrypoint.sh"]
