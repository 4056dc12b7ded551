// Plays sessions of share-partitions from standard input, with Apache Kafka's own SharePartition. Only `tick` moves the
// clock. A write waits for `settle`, except for the writes of expired locks, which are settled at once.
//
//     new LOCKS DELIVERY_LIMIT LOCK_MS START STATES            STATES first-last:state:count,... or "-"
//     acquire MEMBER batch|strict BATCH_SIZE MAX FETCH_OFFSET BATCHES ABORTED
//                                                              BATCHES in hexadecimal, ABORTED producer:first,... or "-"
//     ack MEMBER first-last:type.type...,...
//     release MEMBER
//     tick MS
//     settle NUMBER ok|failed                                  the oldest waiting write has number 0
//     log OFFSET                                               the new log start offset
//
// An answer is a line: the result; start and end offset, offset of the next fetch, if more may be acquired, the number
// of completed records; first-last:state:count:member of everything in flight from the start offset on.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import kafka.server.ReplicaManager;
import kafka.server.share.SharePartition;
import org.apache.kafka.clients.consumer.internals.ShareAcquireMode;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.FetchResponseData.AbortedTransaction;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.coordinator.group.GroupConfigManager;
import org.apache.kafka.server.share.acknowledge.ShareAcknowledgementBatch;
import org.apache.kafka.server.share.fetch.DelayedShareFetchKey;
import org.apache.kafka.server.share.fetch.InFlightBatch;
import org.apache.kafka.server.share.fetch.InFlightState;
import org.apache.kafka.server.share.fetch.ShareAcquiredRecords;
import org.apache.kafka.server.share.persister.PartitionFactory;
import org.apache.kafka.server.share.persister.PartitionStateBatchData;
import org.apache.kafka.server.share.persister.Persister;
import org.apache.kafka.server.share.persister.PersisterStateBatch;
import org.apache.kafka.server.share.persister.ReadShareGroupStateResult;
import org.apache.kafka.server.share.persister.TopicData;
import org.apache.kafka.server.share.persister.WriteShareGroupStateParameters;
import org.apache.kafka.server.share.persister.WriteShareGroupStateResult;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.storage.log.FetchPartitionData;
import org.apache.kafka.server.util.timer.Timer;
import org.apache.kafka.server.util.timer.TimerTask;
import org.apache.kafka.server.util.timer.TimerTaskEntry;

public class SharePartitionReference {
    private static final TopicIdPartition PARTITION = new TopicIdPartition(new Uuid(1, 2), 0, "topic");

    private static long now;

    static class Replicas extends ReplicaManager {
        Replicas() {  // never called: the real constructor needs a log
            super(null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null,
                null, null, null, null);
        }

        @Override
        public void completeDelayedShareFetchRequest(DelayedShareFetchKey key) {
        }
    }

    static class Configs extends GroupConfigManager {
        Configs() {  // never called
            super(null, null, null);
        }

        @Override
        public Optional<GroupConfig> groupConfig(String group) {
            return Optional.empty();
        }
    }

    static class Timers implements Timer {
        final List<TimerTaskEntry> entries = new ArrayList<>();

        @Override
        public void add(TimerTask task) {
            entries.add(new TimerTaskEntry(task, now + task.delayMs));
        }

        @Override
        public boolean advanceClock(long timeout) {
            boolean any = false;
            for (;;) {
                entries.removeIf(TimerTaskEntry::cancelled);
                Optional<TimerTaskEntry> due = entries.stream().filter(entry -> entry.expirationMs <= now)
                    .min(Comparator.comparingLong(entry -> entry.expirationMs));
                if (due.isEmpty())
                    return any;
                entries.remove(due.get());
                due.get().timerTask.run();
                any = true;
            }
        }

        @Override
        public int size() {
            return entries.size();
        }

        @Override
        public void close() {
        }
    }

    private final Timers timers = new Timers();
    private final List<CompletableFuture<WriteShareGroupStateResult>> waiting = new ArrayList<>();
    private final List<PartitionStateBatchData> written = new ArrayList<>();
    private SharePartition partition;

    public static void main(String[] args) throws Exception {
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        StringBuilder answers = new StringBuilder();
        SharePartitionReference session = null;
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            String[] words = line.split(" ");
            String answer;
            try {
                if (words[0].equals("new")) {
                    now = 0;
                    session = new SharePartitionReference(words);
                    answer = "new";
                } else
                    answer = session.ask(words);
            } catch (Exception fault) {
                answer = "!" + fault.getClass().getSimpleName();
            }
            answers.append(answer).append(' ').append(session.state()).append('\n');
        }
        System.out.write(answers.toString().getBytes("UTF-8"));
        System.out.flush();
    }

    SharePartitionReference(String[] words) throws Exception {
        Time time = (Time) Proxy.newProxyInstance(Time.class.getClassLoader(), new Class<?>[] {Time.class},
            (proxy, method, given) -> method.getReturnType() == long.class ? now : null);
        List<PersisterStateBatch> states = new ArrayList<>();
        for (String each : listed(words[5])) {
            String[] parts = each.split(":");
            String[] ends = parts[0].split("-");
            states.add(new PersisterStateBatch(Long.parseLong(ends[0]), Long.parseLong(ends[1]),
                Byte.parseByte(parts[1]), Short.parseShort(parts[2])));
        }
        ReadShareGroupStateResult read = new ReadShareGroupStateResult.Builder().setTopicsData(List.of(new TopicData<>(
            PARTITION.topicId(), List.of(PartitionFactory.newPartitionAllData(
                0, 3, Long.parseLong(words[4]), (short) 0, "", states))))).build();
        Persister persister = (Persister) Proxy.newProxyInstance(Persister.class.getClassLoader(),
            new Class<?>[] {Persister.class}, (proxy, method, given) -> {
                if (method.getName().equals("readState"))
                    return CompletableFuture.completedFuture(read);
                CompletableFuture<WriteShareGroupStateResult> result = new CompletableFuture<>();
                waiting.add(result);
                written.add(((WriteShareGroupStateParameters) given[0]).groupTopicPartitionData().topicsData().get(0)
                    .partitions().get(0));
                return result;
            });
        Constructor<?> maker = Arrays.stream(SharePartition.class.getDeclaredConstructors())
            .filter(each -> each.getParameterCount() == 12).findFirst().get();
        maker.setAccessible(true);
        partition = (SharePartition) maker.newInstance("group", PARTITION, 7, Integer.parseInt(words[1]),
            Integer.parseInt(words[2]), Integer.parseInt(words[3]), timers, time, persister, bare(Replicas.class),
            bare(Configs.class), null);
        partition.maybeInitialize().get();
    }

    private String ask(String[] words) throws Exception {
        written.clear();
        int before = waiting.size();
        switch (words[0]) {
            case "acquire":
                return acquired(words);
            case "ack":
                return outcome(partition.acknowledge(words[1], acknowledgements(words[2])));
            case "release":
                return outcome(partition.releaseAcquiredRecords(words[1]));
            case "tick":
                now += Long.parseLong(words[1]);
                timers.advanceClock(0);
                List<PersisterStateBatch> batches = new ArrayList<>();
                for (PartitionStateBatchData each : written)
                    batches.addAll(each.stateBatches());
                while (waiting.size() > before)
                    waiting.remove(before).complete(result(Errors.NONE));
                return "expired=" + ranges(batches);
            case "settle":
                waiting.remove(Integer.parseInt(words[1])).complete(
                    result(words[2].equals("ok") ? Errors.NONE : Errors.NETWORK_EXCEPTION));
                return "settled";
            default:
                call("updateCacheAndOffsets", Long.parseLong(words[1]));
                return "moved";
        }
    }

    private String acquired(String[] words) {
        MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(HexFormat.of().parseHex(words[6])));
        List<AbortedTransaction> aborted = new ArrayList<>();
        for (String each : listed(words[7])) {
            String[] parts = each.split(":");
            aborted.add(new AbortedTransaction().setProducerId(Long.parseLong(parts[0]))
                .setFirstOffset(Long.parseLong(parts[1])));
        }
        FetchPartitionData data = new FetchPartitionData(Errors.NONE, 0, 0, records, Optional.empty(),
            OptionalLong.empty(), aborted.isEmpty() ? Optional.empty() : Optional.of(aborted), OptionalInt.empty(), false);
        ShareAcquireMode mode =
            words[2].equals("strict") ? ShareAcquireMode.RECORD_LIMIT : ShareAcquireMode.BATCH_OPTIMIZED;
        ShareAcquiredRecords result = partition.acquire(words[1], mode, Integer.parseInt(words[3]),
            Integer.parseInt(words[4]), Long.parseLong(words[5]), data, FetchIsolation.TXN_COMMITTED);
        StringBuilder text = new StringBuilder("acquired=");
        result.acquiredRecords().forEach(each -> text.append(each.firstOffset()).append('-').append(each.lastOffset())
            .append(':').append(each.deliveryCount()).append(','));
        return text.toString();
    }

    private String outcome(CompletableFuture<Void> future) throws Exception {
        if (future.isCompletedExceptionally()) {
            try {
                future.join();
            } catch (CompletionException wrapped) {
                return Errors.forException(wrapped.getCause()).name();
            }
        }
        if (written.isEmpty())
            return "nothing";
        PartitionStateBatchData data = written.get(0);
        return "written=" + data.startOffset() + "/" + data.deliveryCompleteCount() + "/" + ranges(data.stateBatches());
    }

    private static List<ShareAcknowledgementBatch> acknowledgements(String words) {
        List<ShareAcknowledgementBatch> batches = new ArrayList<>();
        for (String each : listed(words)) {
            String[] parts = each.split(":");
            String[] ends = parts[0].split("-");
            List<Byte> types = new ArrayList<>();
            for (String type : parts[1].split("\\."))
                types.add(Byte.parseByte(type));
            batches.add(new ShareAcknowledgementBatch(Long.parseLong(ends[0]), Long.parseLong(ends[1]), types));
        }
        return batches;
    }

    private static WriteShareGroupStateResult result(Errors error) {
        return new WriteShareGroupStateResult.Builder().setTopicsData(List.of(new TopicData<>(PARTITION.topicId(),
            List.of(PartitionFactory.newPartitionErrorData(0, error.code(), error.message()))))).build();
    }

    @SuppressWarnings("unchecked")
    private String state() throws Exception {
        long start = (Long) call("startOffset");
        long next = partition.nextFetchOffset();
        TreeMap<Long, String> states = new TreeMap<>();
        for (InFlightBatch batch : ((NavigableMap<Long, InFlightBatch>) call("cachedState")).values()) {
            if (batch.offsetState() == null) {
                String state = batch.batchState().id() + ":" + batch.batchDeliveryCount() + ":" + batch.batchMemberId();
                for (long offset = batch.firstOffset(); offset <= batch.lastOffset(); ++offset)
                    states.put(offset, state);
            } else
                for (Map.Entry<Long, InFlightState> each : batch.offsetState().entrySet()) {
                    InFlightState state = each.getValue();
                    states.put(each.getKey(), state.state().id() + ":" + state.deliveryCount() + ":" + state.memberId());
                }
        }
        return String.join(" ", "" + start, "" + call("endOffset"), "" + next, "" + call("canAcquireRecords"),
            "" + call("deliveryCompleteCount"), merged(new TreeMap<>(states.tailMap(start))));
    }

    private static String ranges(List<PersisterStateBatch> batches) {
        TreeMap<Long, String> states = new TreeMap<>();
        for (PersisterStateBatch each : batches)
            for (long offset = each.firstOffset(); offset <= each.lastOffset(); ++offset)
                states.put(offset, each.deliveryState() + ":" + each.deliveryCount());
        return merged(states);
    }

    private static String merged(TreeMap<Long, String> states) {
        StringBuilder text = new StringBuilder();
        long first = 0;
        long last = -2;
        String state = null;
        for (Map.Entry<Long, String> each : states.entrySet()) {
            if (state != null && (each.getKey() != last + 1 || !each.getValue().equals(state))) {
                text.append(first).append('-').append(last).append(':').append(state).append(',');
                state = null;
            }
            if (state == null)
                first = each.getKey();
            last = each.getKey();
            state = each.getValue();
        }
        if (state != null)
            text.append(first).append('-').append(last).append(':').append(state).append(',');
        return text.length() == 0 ? "-" : text.toString();
    }

    private Object call(String name, Object... given) throws Exception {
        for (Method method : SharePartition.class.getDeclaredMethods())
            if (method.getName().equals(name) && method.getParameterCount() == given.length) {
                method.setAccessible(true);
                return method.invoke(partition, given);
            }
        throw new NoSuchMethodException(name);
    }

    private static Object bare(Class<?> kind) throws Exception {
        java.lang.reflect.Field unsafe = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
        unsafe.setAccessible(true);
        return ((sun.misc.Unsafe) unsafe.get(null)).allocateInstance(kind);
    }

    private static List<String> listed(String words) {
        return words.equals("-") ? List.of() : Arrays.asList(words.split(","));
    }
}
