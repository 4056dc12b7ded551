"""Settings of all sessions of the tests: quick to start and for few rows, rather than quick with many."""

# Tests are over before the better compiler is worth its time; a collector beside them has no core of its own;
# and Spark's classes were verified by others, a fifth of the time until a session has done its first query.
# Hadoop has a process (chmod) for each file and folder, which Java starts by way of another but for VFORK.
JAVA_OPTIONS = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
    " -Djdk.lang.Process.launchMechanism=VFORK"
)
CONFIGURATION = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    "spark.executor.extraJavaOptions": JAVA_OPTIONS,
    # Code is made for each query and compiled, which pays off with more rows than tests have.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
