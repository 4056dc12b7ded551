// Kafka Streams, exactly once: counts records by key, and writes each new count. Runs until it is killed.
//
// Arguments: BOOTSTRAP APPLICATION-ID INPUT OUTPUT STATE-DIRECTORY [config=value ...]
// Out: a line with the state (RUNNING ...) at each change of state.

import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;

public class CountingStream {
    public static void main(String[] args) throws Exception {
        Properties config = new Properties();
        config.put("bootstrap.servers", args[0]);
        config.put("application.id", args[1]);
        config.put("state.dir", args[4]);
        config.put("processing.guarantee", "exactly_once_v2");
        config.put("default.key.serde", Serdes.StringSerde.class.getName());
        config.put("default.value.serde", Serdes.StringSerde.class.getName());
        // Without a cache each count is written, not only the last one before a commit.
        config.put("statestore.cache.max.bytes", "0");
        for (int i = 5; i < args.length; i++) {
            String[] pair = args[i].split("=", 2);
            config.put(pair[0], pair[1]);
        }
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(args[2]).groupByKey().count().toStream().mapValues(count -> count.toString())
            .to(args[3]);
        KafkaStreams streams = new KafkaStreams(builder.build(), config);
        streams.setUncaughtExceptionHandler(failure -> {
            failure.printStackTrace();
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.setStateListener((now, before) -> {
            System.out.println(now);
            System.out.flush();
        });
        streams.start();
        new CountDownLatch(1).await();
    }
}
