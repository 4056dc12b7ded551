import java.io.File;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.function.Supplier;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * Cleans partition directories once with Apache Kafka's cleaner. Arguments: segment.bytes, delete.retention.ms, and
 * for each directory its path, the time (ms), the bytes of the key map and the first dirty offset. The dirty part ends
 * at the active segment.
 */
public class CleanerReference {
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> settings = new HashMap<>();
        settings.put("cleanup.policy", "compact");
        settings.put("internal.segment.bytes", Integer.parseInt(arguments[0]));
        settings.put("delete.retention.ms", arguments[1]);
        LogConfig config = new LogConfig(settings);
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        for (int at = 2; at < arguments.length; at += 4) {
            Time time = new StoppedTime(Long.parseLong(arguments[at + 1]));
            UnifiedLog log = UnifiedLog.create(
                new File(arguments[at]), config, 0L, Long.MAX_VALUE, scheduler, new BrokerTopicStats(), time, 900000,
                new ProducerStateManagerConfig(Integer.MAX_VALUE, false), 600000, new LogDirFailureChannel(1), true,
                Optional.empty());
            log.updateHighWatermark(log.logEndOffset());
            Cleaner cleaner = new Cleaner(
                0, new SkimpyOffsetMap(Integer.parseInt(arguments[at + 2])), 524288, 2000000, 0.9,
                new Throttler(Double.MAX_VALUE, 300, "cleaner-io", "bytes", time), time, partition -> { });
            long firstDirty = Long.parseLong(arguments[at + 3]);
            LogToClean work = new LogToClean(log, firstDirty, log.activeSegment().baseOffset(), false);
            System.out.println("end " + cleaner.doClean(work, time.milliseconds()).getKey());
            log.close();
        }
        scheduler.shutdown();
    }

    private static class StoppedTime implements Time {
        private final long nowMs;

        StoppedTime(long nowMs) {
            this.nowMs = nowMs;
        }

        public long milliseconds() {
            return nowMs;
        }

        public long nanoseconds() {
            return nowMs * 1000000;
        }

        public long hiResClockMs() {
            return nowMs;
        }

        public void sleep(long ms) {
        }

        public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
        }

        public <T> T waitForFuture(CompletableFuture<T> future, long deadlineNanos)
                throws java.util.concurrent.ExecutionException, InterruptedException {
            return future.get();
        }
    }
}
