// Members of consumer groups, each a KafkaConsumer in a thread of its own. Lines in are commands, lines out events.
//
// In, one on each line: start NAME TOPIC,TOPIC... [config=value ...]   (~REGEX in place of topics: the coordinator
//                                       matches it in the consumer protocol, the client in the classic one)
//                       close NAME
// Out, one JSON object on each line: {"at":ms,"member":NAME,"event":E, ...} with E one of
//   started                             the member is about to poll
//   assigned, revoked, lost             with "partitions":["topic-0",...], as passed to the rebalance listener
//   polled                              with "records":[["topic-0",offset,value],...], and "generation": that or the
//                                       member epoch, -1 for none
//   closed                              the member has left
//   failed                              with "error"
// Records are committed before the next poll. A commit that is rejected during a rebalance is repeated after it.
// The end of the input ends the process at once: its members crash, as after SIGKILL.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;

public class GroupMembers {
    private static final Duration POLL = Duration.ofMillis(200);
    private static final Map<String, Member> MEMBERS = new ConcurrentHashMap<>();

    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            if (words[0].equals("start")) {
                try {
                    Member member = new Member(words);
                    MEMBERS.put(words[1], member);
                    member.start();
                } catch (RuntimeException fault) {
                    report(words[1], "failed", ",\"error\":" + quoted(fault + ": " + fault.getCause()));
                }
            } else {
                MEMBERS.get(words[1]).close();
            }
        }
        Runtime.getRuntime().halt(0);
    }

    private static synchronized void report(String member, String event, String more) {
        System.out.println("{\"at\":" + System.nanoTime() / 1_000_000 + ",\"member\":\"" + member + "\",\"event\":\""
            + event + "\"" + more + "}");
        System.out.flush();
    }

    private static final class Member extends Thread implements ConsumerRebalanceListener {
        private final String topics;
        private final KafkaConsumer<String, String> consumer;
        private final Map<TopicPartition, OffsetAndMetadata> uncommitted = new HashMap<>();
        private volatile boolean isClosing;

        Member(String[] words) {
            super(words[1]);
            setDaemon(true);
            topics = words[2];
            Properties config = new Properties();
            config.put("key.deserializer", StringDeserializer.class.getName());
            config.put("value.deserializer", StringDeserializer.class.getName());
            config.put("enable.auto.commit", "false");
            config.put("auto.offset.reset", "earliest");
            config.put("client.id", words[1]);
            for (int i = 3; i < words.length; i++) {
                String[] pair = words[i].split("=", 2);
                config.put(pair[0], pair[1]);
            }
            consumer = new KafkaConsumer<>(config);
        }

        void close() {
            isClosing = true;
        }

        @Override
        public void run() {
            try {
                report(getName(), "started", "");
                subscribe();
                while (!isClosing) {
                    ConsumerRecords<String, String> records = consumer.poll(POLL);
                    if (!records.isEmpty()) {
                        report(getName(), "polled", ",\"generation\":" + consumer.groupMetadata().generationId()
                            + ",\"records\":[" + described(records) + "]");
                        for (TopicPartition partition : records.partitions()) {
                            List<ConsumerRecord<String, String>> some = records.records(partition);
                            long next = some.get(some.size() - 1).offset() + 1;
                            uncommitted.put(partition, new OffsetAndMetadata(next));
                        }
                    }
                    commit();
                }
                consumer.close();
                report(getName(), "closed", "");
            } catch (Throwable fault) {
                report(getName(), "failed", ",\"error\":" + quoted(fault.toString()));
            }
        }

        private void subscribe() throws ReflectiveOperationException {
            if (!topics.startsWith("~")) {
                consumer.subscribe(List.of(topics.split(",")), this);
                return;
            }
            try {
                // Since 4.0, for the consumer protocol: the coordinator matches the expression.
                Class<?> pattern = Class.forName("org.apache.kafka.clients.consumer.SubscriptionPattern");
                Object regex = pattern.getConstructor(String.class).newInstance(topics.substring(1));
                consumer.getClass().getMethod("subscribe", pattern, ConsumerRebalanceListener.class)
                    .invoke(consumer, regex, this);
            } catch (ReflectiveOperationException olderOrClassic) {
                consumer.subscribe(Pattern.compile(topics.substring(1)), this);
            }
        }

        private void commit() {
            if (uncommitted.isEmpty()) {
                return;
            }
            try {
                consumer.commitSync(new HashMap<>(uncommitted));
                uncommitted.clear();
            } catch (RebalanceInProgressException | TimeoutException again) {
                // Repeated after the next poll, for the partitions that we still own.
            } catch (CommitFailedException taken) {
                uncommitted.clear();
            }
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            report(getName(), "assigned", named(partitions));
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            commit();
            uncommitted.keySet().removeAll(partitions);
            report(getName(), "revoked", named(partitions));
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            uncommitted.keySet().removeAll(partitions);
            report(getName(), "lost", named(partitions));
        }
    }

    private static String named(Collection<TopicPartition> partitions) {
        return ",\"partitions\":["
            + partitions.stream().map(one -> quoted(one.toString())).collect(Collectors.joining(",")) + "]";
    }

    private static String described(ConsumerRecords<String, String> records) {
        List<String> described = new ArrayList<>();
        for (ConsumerRecord<String, String> one : records) {
            String partition = quoted(one.topic() + "-" + one.partition());
            described.add("[" + partition + "," + one.offset() + "," + quoted(one.value()) + "]");
        }
        return String.join(",", described);
    }

    private static String quoted(String text) {
        StringBuilder quoted = new StringBuilder("\"");
        for (char letter : text.toCharArray()) {
            if (letter == '"' || letter == '\\') {
                quoted.append('\\').append(letter);
            } else if (letter < ' ') {
                quoted.append(' ');
            } else {
                quoted.append(letter);
            }
        }
        return quoted.append('"').toString();
    }
}
