"""Apache Kafka's command-line tools for the tests: one JVM, many calls (KafkaTools.java), output captured."""

import base64
import subprocess
from dataclasses import dataclass

from tests.compat.java.java_programs import java_program

CLASSES = {
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a tool printed and its exit code."""

    code: int
    text: str

    def lines(self) -> list[str]:
        return [line for line in self.text.splitlines() if line.strip()]


class KafkaTools:
    """The JVM; `run` is one call of a tool under the name of its script."""

    def __init__(self, classpath: str) -> None:
        command = java_program("KafkaTools", classpath)
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def run(self, tool: str, *arguments: str, stdin: str = "") -> Ran:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        fields = [CLASSES[tool], stdin, *arguments]
        self.process.stdin.write(" ".join(base64.b64encode(one.encode()).decode() for one in fields) + "\n")
        self.process.stdin.flush()
        code, _, printed = self.process.stdout.readline().rstrip("\n").partition(" ")
        assert code, f"{tool} ended the JVM"
        return Ran(code=int(code), text=base64.b64decode(printed).decode(errors="replace"))

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()
