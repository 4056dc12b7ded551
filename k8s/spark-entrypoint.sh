#!/bin/bash
# Starts a container of Spark on Kubernetes. Spark gives pods the argument `driver` with the arguments of
# spark-submit, or `executor` with all else in variables (BasicDriverFeatureStep and BasicExecutorFeatureStep of
# spark-kubernetes); other arguments are a command, such as the submission. Spark's wheel has no such script.
set -euo pipefail

# Each option of Java has a variable: SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1, ...
java_options=()
for ((number = 0; ; number++)); do
  name="SPARK_JAVA_OPT_$number"
  [ -n "${!name+set}" ] || break
  java_options+=("${!name}")
done

case "${1:-}" in
  driver)
    shift
    set -- "$SPARK_HOME/bin/spark-submit" \
      --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" \
      --conf "spark.executorEnv.SPARK_DRIVER_POD_IP=$SPARK_DRIVER_BIND_ADDRESS" \
      --deploy-mode client "$@"
    ;;
  executor)
    class_path="${SPARK_CONF_DIR:+$SPARK_CONF_DIR:}${SPARK_EXTRA_CLASSPATH:+$SPARK_EXTRA_CLASSPATH:}$SPARK_HOME/jars/*"
    set -- "${JAVA_HOME:+$JAVA_HOME/bin/}java" "${java_options[@]}" \
      "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" -cp "$class_path" \
      org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
      --driver-url "$SPARK_DRIVER_URL" \
      --executor-id "$SPARK_EXECUTOR_ID" \
      --cores "$SPARK_EXECUTOR_CORES" \
      --app-id "$SPARK_APPLICATION_ID" \
      --hostname "$SPARK_EXECUTOR_POD_IP" \
      --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
      --podName "$SPARK_EXECUTOR_POD_NAME"
    ;;
esac
# Spark leaves Python processes behind, which tini reaps.
exec tini -s -- "$@"
