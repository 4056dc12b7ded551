// A source connector that counts: each number is one record, and the offset is the next number.
//
// Settings: topic; batch (the numbers of a poll, and so of a transaction)

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.source.ExactlyOnceSupport;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

public class NumberSource extends SourceConnector {
    private Map<String, String> settings;

    @Override
    public void start(Map<String, String> settings) {
        this.settings = settings;
    }

    @Override
    public Class<? extends Task> taskClass() {
        return NumberTask.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int maxTasks) {
        return List.of(settings);
    }

    @Override
    public void stop() {
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef()
            .define("topic", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "where the numbers go")
            .define("batch", ConfigDef.Type.INT, ConfigDef.Importance.HIGH, "how many a poll");
    }

    @Override
    public String version() {
        return "1";
    }

    @Override
    public ExactlyOnceSupport exactlyOnceSupport(Map<String, String> settings) {
        return ExactlyOnceSupport.SUPPORTED;
    }

    public static class NumberTask extends SourceTask {
        private static final Map<String, String> SOURCE = Map.of("source", "numbers");
        private String topic;
        private long next;
        private int batch;

        @Override
        public void start(Map<String, String> settings) {
            topic = settings.get("topic");
            batch = Integer.parseInt(settings.get("batch"));
            Map<String, Object> offset = context.offsetStorageReader().offset(SOURCE);
            next = offset == null ? 0 : (Long) offset.get("next");
        }

        @Override
        public List<SourceRecord> poll() throws InterruptedException {
            Thread.sleep(20);
            List<SourceRecord> numbers = new ArrayList<>();
            for (int i = 0; i < batch; i++) {
                String value = Long.toString(next++);
                numbers.add(new SourceRecord(SOURCE, Map.of("next", next), topic, 0, Schema.STRING_SCHEMA, value));
            }
            return numbers;
        }

        @Override
        public void stop() {
        }

        @Override
        public String version() {
            return "1";
        }
    }
}
