# The image of spark-job.yaml, for the submission, the driver and the executors:
#   docker build -f k8s/spark.Dockerfile -t ottla-spark:0.2.0.dev0 .
# The base is named by its digest; scripts/lock-image --base NAME@DIGEST writes a newer one.
ARG PYTHON=python:3.12-slim-bookworm@sha256:0f5b26b9518d002b6173fd61daad821fa340635ebfec5bba471013f9ca114579

FROM ${PYTHON} AS build
WORKDIR /src
# A compiler for the walk over records (logstore/_record_walk.c); it stays in this stage.
RUN command -v cc || (apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev)
# Everything is built from files with known hashes, and Ottla without access to the network.
COPY k8s/build-requirements.txt k8s/spark-requirements.txt k8s/
RUN pip install --require-hashes --only-binary :all: -r k8s/build-requirements.txt
RUN pip wheel --require-hashes --no-deps --no-build-isolation --wheel-dir /wheels -r k8s/spark-requirements.txt
COPY . .
RUN pip wheel --no-index --no-deps --no-build-isolation --wheel-dir /wheels .

FROM ${PYTHON}
# Debian signs these packages.
RUN apt-get update \
    && apt-get install -y --no-install-recommends openjdk-17-jre-headless procps tini \
    && rm -rf /var/lib/apt/lists/*
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-index --no-deps /wheels/*.whl
COPY k8s/spark-entrypoint.sh /opt/entrypoint.sh
ENV SPARK_HOME=/usr/local/lib/python3.12/site-packages/pyspark
# Spark looks up the name of its user, which a bare id does not have.
RUN groupadd --gid 10002 spark \
    && useradd --uid 10002 --gid 10002 --create-home --home-dir /opt/spark/work-dir spark
WORKDIR /opt/spark/work-dir
USER 10002:10002
ENTRYPOINT ["/opt/entrypoint.sh"]
