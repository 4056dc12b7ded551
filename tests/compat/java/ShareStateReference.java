// Reads questions about the state of share-partitions from standard input, and answers them with Kafka's own classes.
// A batch is FIRST:LAST:STATE:COUNT, a list of them is joined by commas, or "-".
//
//     combine START KNOWN WRITTEN           the batches, by PersisterStateBatchCombiner
//     reread KEYHEX VALUEHEX|-              KEYHEX VALUEHEX|-, read and written by ShareCoordinatorRecordSerde
//     shard UPDATES_PER_SNAPSHOT COLD_MS    a new ShareCoordinatorShard, of topics 1 and 2 with 2 partitions
//     at MS                                 sets the time
//     initialize|read|summary|write|delete GROUP TOPIC PARTITION ARGUMENT...
//     cold KEYS | forget TOPIC KEYS         work without a request, records in the order of these KEYHEX,KEYHEX.. or "-"
//     redundant                             the last redundant offset, or "-"
//
// The answer to a request is "ERROR FIELD..." and then each record, "KEYHEX=VALUEHEX"; records are replayed at
// once, at the next offset. Each answer is a line; after a failure it is "! " and a text.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.message.DeleteShareGroupStateRequestData;
import org.apache.kafka.common.message.InitializeShareGroupStateRequestData;
import org.apache.kafka.common.message.ReadShareGroupStateRequestData;
import org.apache.kafka.common.message.ReadShareGroupStateSummaryRequestData;
import org.apache.kafka.common.message.WriteShareGroupStateRequestData;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorResult;
import org.apache.kafka.coordinator.share.PersisterStateBatchCombiner;
import org.apache.kafka.coordinator.share.ShareCoordinatorConfig;
import org.apache.kafka.coordinator.share.ShareCoordinatorRecordSerde;
import org.apache.kafka.coordinator.share.ShareCoordinatorShard;
import org.apache.kafka.coordinator.share.metrics.ShareCoordinatorMetrics;
import org.apache.kafka.server.share.persister.PersisterStateBatch;
import org.apache.kafka.timeline.SnapshotRegistry;

public class ShareStateReference {
    private static final HexFormat HEX = HexFormat.of();
    private static final ShareCoordinatorRecordSerde SERDE = new ShareCoordinatorRecordSerde();
    private static final int PARTITIONS = 2;

    private static ShareCoordinatorShard shard;
    private static long nowMs;
    private static long nextOffset;

    public static void main(String[] args) throws Exception {
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        StringBuilder answers = new StringBuilder();
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            try {
                answers.append(answer(line.split(" "))).append('\n');
            } catch (Exception fault) {
                answers.append("! ").append(fault).append('\n');
            }
        }
        System.out.write(answers.toString().getBytes("UTF-8"));
        System.out.flush();
    }

    private static String answer(String[] words) {
        switch (words[0]) {
            case "combine":
                return textOf(new PersisterStateBatchCombiner(
                    batches(words[2]), batches(words[3]), Long.parseLong(words[1])).combineStateBatches());
            case "reread":
                ByteBuffer value = words[2].equals("-") ? null : ByteBuffer.wrap(HEX.parseHex(words[2]));
                return textOf(SERDE.deserialize(ByteBuffer.wrap(HEX.parseHex(words[1])), value), " ");
            case "shard":
                return newShard(words[1], words[2]);
            case "at":
                nowMs = Long.parseLong(words[1]);
                return "";
            case "cold":
                return replayed("", shard.snapshotColdPartitions(), words[1]);
            case "forget":
                return replayed("", shard.maybeCleanupShareState(Set.of(topic(words[1]))), words[2]);
            case "redundant":
                Optional<Long> offset = shard.lastRedundantOffset().response();
                return offset.map(String::valueOf).orElse("-");
            default:
                return request(words[0], words[1], topic(words[2]), Integer.parseInt(words[3]), words);
        }
    }

    private static String request(String verb, String group, Uuid topic, int partition, String[] words) {
        switch (verb) {
            case "initialize": {
                var result = shard.initializeState(new InitializeShareGroupStateRequestData().setGroupId(group)
                    .setTopics(List.of(new InitializeShareGroupStateRequestData.InitializeStateData()
                        .setTopicId(topic)
                        .setPartitions(List.of(new InitializeShareGroupStateRequestData.PartitionData()
                            .setPartition(partition)
                            .setStateEpoch(Integer.parseInt(words[4]))
                            .setStartOffset(Long.parseLong(words[5])))))));
                return replayed(
                    "" + result.response().results().get(0).partitions().get(0).errorCode(), result);
            }
            case "read": {
                var result = shard.readStateAndMaybeUpdateLeaderEpoch(
                    new ReadShareGroupStateRequestData().setGroupId(group).setTopics(List.of(
                        new ReadShareGroupStateRequestData.ReadStateData().setTopicId(topic)
                            .setPartitions(List.of(new ReadShareGroupStateRequestData.PartitionData()
                                .setPartition(partition)
                                .setLeaderEpoch(Integer.parseInt(words[4])))))));
                var read = result.response().results().get(0).partitions().get(0);
                List<PersisterStateBatch> found = new ArrayList<>();
                for (var one : read.stateBatches())
                    found.add(new PersisterStateBatch(
                        one.firstOffset(), one.lastOffset(), one.deliveryState(), one.deliveryCount()));
                return replayed(
                    read.errorCode() + " " + read.stateEpoch() + " " + read.startOffset() + " " + textOf(found),
                    result);
            }
            case "summary": {
                var result = shard.readStateSummary(
                    new ReadShareGroupStateSummaryRequestData().setGroupId(group).setTopics(List.of(
                        new ReadShareGroupStateSummaryRequestData.ReadStateSummaryData().setTopicId(topic)
                            .setPartitions(List.of(new ReadShareGroupStateSummaryRequestData.PartitionData()
                                .setPartition(partition)
                                .setLeaderEpoch(Integer.parseInt(words[4])))))));
                var read = result.response().results().get(0).partitions().get(0);
                return replayed(
                    read.errorCode() + " " + read.stateEpoch() + " " + read.leaderEpoch() + " "
                        + read.startOffset() + " " + read.deliveryCompleteCount(),
                    result);
            }
            case "write": {
                List<WriteShareGroupStateRequestData.StateBatch> written = new ArrayList<>();
                for (PersisterStateBatch one : batches(words[8]))
                    written.add(new WriteShareGroupStateRequestData.StateBatch()
                        .setFirstOffset(one.firstOffset()).setLastOffset(one.lastOffset())
                        .setDeliveryState(one.deliveryState()).setDeliveryCount(one.deliveryCount()));
                var result = shard.writeState(new WriteShareGroupStateRequestData().setGroupId(group)
                    .setTopics(List.of(new WriteShareGroupStateRequestData.WriteStateData().setTopicId(topic)
                        .setPartitions(List.of(new WriteShareGroupStateRequestData.PartitionData()
                            .setPartition(partition)
                            .setStateEpoch(Integer.parseInt(words[4]))
                            .setLeaderEpoch(Integer.parseInt(words[5]))
                            .setStartOffset(Long.parseLong(words[6]))
                            .setDeliveryCompleteCount(Integer.parseInt(words[7]))
                            .setStateBatches(written))))));
                return replayed(
                    "" + result.response().results().get(0).partitions().get(0).errorCode(), result);
            }
            default: {
                var result = shard.deleteState(new DeleteShareGroupStateRequestData().setGroupId(group)
                    .setTopics(List.of(new DeleteShareGroupStateRequestData.DeleteStateData().setTopicId(topic)
                        .setPartitions(List.of(new DeleteShareGroupStateRequestData.PartitionData()
                            .setPartition(partition))))));
                return replayed(
                    "" + result.response().results().get(0).partitions().get(0).errorCode(), result);
            }
        }
    }

    private static String replayed(String answer, CoordinatorResult<?, CoordinatorRecord> result) {
        return replayed(answer, result, "-");
    }

    // A request makes one record at most. The records of the coordinator's own work have the order of a hash map.
    private static String replayed(
        String answer, CoordinatorResult<?, CoordinatorRecord> result, String keys
    ) {
        List<String> order = List.of(keys.split(","));
        List<CoordinatorRecord> records = new ArrayList<>(result.records());
        records.sort(Comparator.comparing(
            record -> order.indexOf(HEX.formatHex(SERDE.serializeKey(record)))));
        StringBuilder text = new StringBuilder(answer);
        for (CoordinatorRecord record : records) {
            shard.replay(nextOffset++, -1L, (short) -1, record);
            text.append(' ').append(textOf(record, "="));
        }
        return text.toString().trim();
    }

    private static String textOf(CoordinatorRecord record, String between) {
        byte[] value = SERDE.serializeValue(record);
        return HEX.formatHex(SERDE.serializeKey(record)) + between + (value == null ? "-" : HEX.formatHex(value));
    }

    private static String newShard(String updatesPerSnapshot, String coldMs) {
        ShareCoordinatorConfig config = new ShareCoordinatorConfig(
            new AbstractConfig(ShareCoordinatorConfig.CONFIG_DEF, Map.of(
                "share.coordinator.snapshot.update.records.per.snapshot", updatesPerSnapshot,
                "share.coordinator.cold.partition.snapshot.interval.ms", coldMs), false));
        Time time = (Time) Proxy.newProxyInstance(
            ShareStateReference.class.getClassLoader(), new Class<?>[] {Time.class},
            (proxy, method, arguments) -> method.getName().equals("milliseconds") ? (Object) nowMs : (Object) 0L);
        CoordinatorMetadataImage.TopicMetadata known = (CoordinatorMetadataImage.TopicMetadata)
            Proxy.newProxyInstance(
                ShareStateReference.class.getClassLoader(),
                new Class<?>[] {CoordinatorMetadataImage.TopicMetadata.class},
                (proxy, method, arguments) -> PARTITIONS);
        CoordinatorMetadataImage image = (CoordinatorMetadataImage) Proxy.newProxyInstance(
            ShareStateReference.class.getClassLoader(), new Class<?>[] {CoordinatorMetadataImage.class},
            (proxy, method, arguments) -> isKnown((Uuid) arguments[0]) ? Optional.of(known) : Optional.empty());
        shard = new ShareCoordinatorShard.Builder(config)
            .withLogContext(new LogContext())
            .withSnapshotRegistry(new SnapshotRegistry(new LogContext()))
            .withCoordinatorMetrics(new ShareCoordinatorMetrics())
            .withTopicPartition(new TopicPartition("__share_group_state", 0))
            .withTime(time)
            .build();
        shard.onLoaded(image);
        nextOffset = 0;
        return "";
    }

    private static boolean isKnown(Uuid topic) {
        return topic.equals(topic("1")) || topic.equals(topic("2"));
    }

    private static Uuid topic(String number) {
        return new Uuid(0x100, Long.parseLong(number));
    }

    private static List<PersisterStateBatch> batches(String text) {
        List<PersisterStateBatch> found = new ArrayList<>();
        if (!text.equals("-"))
            for (String one : text.split(",")) {
                String[] numbers = one.split(":");
                found.add(new PersisterStateBatch(
                    Long.parseLong(numbers[0]), Long.parseLong(numbers[1]),
                    Byte.parseByte(numbers[2]), Short.parseShort(numbers[3])));
            }
        return found;
    }

    private static String textOf(List<PersisterStateBatch> found) {
        List<String> texts = new ArrayList<>();
        for (PersisterStateBatch one : found)
            texts.add(one.firstOffset() + ":" + one.lastOffset() + ":" + one.deliveryState() + ":"
                + one.deliveryCount());
        return texts.isEmpty() ? "-" : String.join(",", texts);
    }
}
