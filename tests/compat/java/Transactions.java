// Transactional producers, and consumers that read on their behalf. Commands are lines in, each answered with a line.
//
// In, one on each line: producer NAME ID [config=value ...]     a KafkaProducer with this transactional.id
//                       init NAME | begin NAME | commit NAME | abort NAME | close NAME
//                       send NAME TOPIC-PARTITION VALUE...      and wait until all are acknowledged
//                       consumer NAME GROUP TOPIC [config=value ...]
//                       poll NAME COUNT                         until it has so many records
//                       offsets NAME CONSUMER                   add the consumer's positions to the transaction
//                       read TOPIC COMMITTED                    all records now; COMMITTED is true or false
// Out, JSON:            {"values":["topic-0:value",...]} after poll and read, else {}; after a failure
//                       {"error":"SimpleNameOfClass"} with "words".
// The end of the input ends the process at once: transactions stay open, as after SIGKILL.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class Transactions {
    private static final Duration POLL = Duration.ofMillis(100);
    private static final Map<String, KafkaProducer<String, String>> PRODUCERS = new HashMap<>();
    private static final Map<String, KafkaConsumer<String, String>> CONSUMERS = new HashMap<>();
    private static final Map<String, Map<TopicPartition, OffsetAndMetadata>> POLLED = new HashMap<>();
    private static String bootstrap;

    public static void main(String[] args) throws Exception {
        bootstrap = args[0];
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String answer;
            try {
                List<String> values = carryOut(line.split(" "));
                answer = values == null ? "" : "\"values\":["
                    + values.stream().map(Transactions::quoted).collect(Collectors.joining(",")) + "]";
            } catch (Exception failure) {
                Throwable cause = failure instanceof ExecutionException ? failure.getCause() : failure;
                answer = "\"error\":" + quoted(cause.getClass().getSimpleName())
                    + ",\"words\":" + quoted(String.valueOf(cause.getMessage()));
            }
            System.out.println("{" + answer + "}");
            System.out.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static List<String> carryOut(String[] words) throws Exception {
        String name = words[1];
        KafkaProducer<String, String> producer = PRODUCERS.get(name);
        switch (words[0]) {
            case "producer":
                PRODUCERS.put(name, new KafkaProducer<>(producing(words)));
                return null;
            case "init":
                producer.initTransactions();
                return null;
            case "begin":
                producer.beginTransaction();
                return null;
            case "commit":
                producer.commitTransaction();
                return null;
            case "abort":
                producer.abortTransaction();
                return null;
            case "close":
                if (producer != null) {
                    PRODUCERS.remove(name).close(Duration.ofSeconds(30));
                } else {
                    CONSUMERS.remove(name).close();
                }
                return null;
            case "send":
                send(producer, partition(words[2]), Arrays.asList(words).subList(3, words.length));
                return null;
            case "consumer":
                CONSUMERS.put(name, new KafkaConsumer<>(consuming(words)));
                CONSUMERS.get(name).subscribe(List.of(words[3]));
                return null;
            case "poll":
                return polled(name, Integer.parseInt(words[2]));
            case "offsets":
                producer.sendOffsetsToTransaction(POLLED.get(words[2]), CONSUMERS.get(words[2]).groupMetadata());
                return null;
            case "read":
                return everything(name, words[2].equals("true"));
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private static void send(KafkaProducer<String, String> producer, TopicPartition to, List<String> values)
            throws Exception {
        List<Future<?>> sent = new ArrayList<>();
        for (String value : values) {
            sent.add(producer.send(new ProducerRecord<>(to.topic(), to.partition(), null, value)));
        }
        producer.flush();
        for (Future<?> one : sent) {
            one.get();
        }
    }

    private static List<String> polled(String name, int count) {
        List<String> values = new ArrayList<>();
        while (values.size() < count) {
            for (ConsumerRecord<String, String> record : CONSUMERS.get(name).poll(POLL)) {
                TopicPartition partition = new TopicPartition(record.topic(), record.partition());
                POLLED.computeIfAbsent(name, none -> new HashMap<>())
                    .put(partition, new OffsetAndMetadata(record.offset() + 1));
                values.add(partition + ":" + record.value());
            }
        }
        return values;
    }

    private static List<String> everything(String topic, boolean committed) {
        List<String> values = new ArrayList<>();
        Properties config = consuming(new String[] {"", "reader", "", ""});
        config.remove("group.id");
        config.put("isolation.level", committed ? "read_committed" : "read_uncommitted");
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(config)) {
            List<TopicPartition> partitions = consumer.partitionsFor(topic).stream()
                .map(one -> new TopicPartition(topic, one.partition())).collect(Collectors.toList());
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            while (partitions.stream().anyMatch(one -> consumer.position(one) < ends.get(one))) {
                for (ConsumerRecord<String, String> record : consumer.poll(POLL)) {
                    values.add(record.topic() + "-" + record.partition() + ":" + record.value());
                }
            }
        }
        return values;
    }

    private static Properties producing(String[] words) {
        Properties config = configured(words, 3);
        config.put("transactional.id", words[2]);
        config.put("key.serializer", StringSerializer.class.getName());
        config.put("value.serializer", StringSerializer.class.getName());
        return config;
    }

    private static Properties consuming(String[] words) {
        Properties config = configured(words, 4);
        config.put("group.id", words[2]);
        config.put("enable.auto.commit", "false");
        config.put("auto.offset.reset", "earliest");
        config.put("isolation.level", "read_committed");
        config.put("key.deserializer", StringDeserializer.class.getName());
        config.put("value.deserializer", StringDeserializer.class.getName());
        return config;
    }

    private static Properties configured(String[] words, int from) {
        Properties config = new Properties();
        config.put("bootstrap.servers", bootstrap);
        config.put("client.id", words[1]);
        for (int i = from; i < words.length; i++) {
            String[] pair = words[i].split("=", 2);
            config.put(pair[0], pair[1]);
        }
        return config;
    }

    private static TopicPartition partition(String text) {
        int dash = text.lastIndexOf('-');
        return new TopicPartition(text.substring(0, dash), Integer.parseInt(text.substring(dash + 1)));
    }

    private static String quoted(String text) {
        StringBuilder quoted = new StringBuilder("\"");
        for (char letter : text.toCharArray()) {
            if (letter == '"' || letter == '\\') {
                quoted.append('\\').append(letter);
            } else {
                quoted.append(letter < ' ' ? ' ' : letter);
            }
        }
        return quoted.append('"').toString();
    }
}
