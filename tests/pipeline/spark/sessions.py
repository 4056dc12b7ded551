"""Settings of all sessions of the tests: quick to start with few rows, rather than fast with many."""

# Tests are over before the better compiler is worth its time; a concurrent garbage collector has no core of
# its own; and verification of Spark's classes takes a fifth of the time until the first query is done. Hadoop
# starts a process (chmod) for each file and folder, which Java does through a helper process unless VFORK is
# set.
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
    # Code is generated and compiled for each query, which pays off only with more rows than tests have.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
