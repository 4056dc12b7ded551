// Members of share groups, each a KafkaShareConsumer in a thread of its own. Lines in are commands, lines out events.
//
// In, one on each line: start NAME TOPIC MODE [config=value ...]
//                       close NAME
//   MODE: accept    every record
//         release   every record at its first delivery, and accept it later
//         reject    every record whose value begins with "bad", and accept the others
//         hold      nothing: it keeps its first records until it is closed, or crashes
// Out, one on each line: NAME EVENT WORDS, with EVENT one of
//   polled    TOPIC-PARTITION OFFSET DELIVERY-COUNT VALUE, for each record
//   committed TOPIC-PARTITION COUNT, or "failed" and the exception
//   closed
//   failed    the exception
// The end of the input ends the process at once: its members crash, as after SIGKILL.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

public class ShareMembers {
    private static final Map<String, Member> MEMBERS = new ConcurrentHashMap<>();

    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            if (words[0].equals("start")) {
                Member member = new Member(words);
                MEMBERS.put(words[1], member);
                member.start();
            } else {
                MEMBERS.get(words[1]).isClosing = true;
            }
        }
        Runtime.getRuntime().halt(0);
    }

    private static synchronized void report(String member, String event) {
        System.out.println(member + " " + event);
        System.out.flush();
    }

    private static final class Member extends Thread {
        private final String topic;
        private final String mode;
        private final KafkaShareConsumer<String, String> consumer;
        private volatile boolean isClosing;
        private boolean hasPolled;

        Member(String[] words) {
            super(words[1]);
            setDaemon(true);
            topic = words[2];
            mode = words[3];
            Properties config = new Properties();
            config.put("key.deserializer", StringDeserializer.class.getName());
            config.put("value.deserializer", StringDeserializer.class.getName());
            config.put("share.acknowledgement.mode", "explicit");
            for (int i = 4; i < words.length; i++) {
                String[] pair = words[i].split("=", 2);
                config.put(pair[0], pair[1]);
            }
            consumer = new KafkaShareConsumer<>(config);
        }

        @Override
        public void run() {
            try {
                consumer.setAcknowledgementCommitCallback((offsets, fault) -> offsets.forEach((partition, some) ->
                    report(getName(), fault == null
                        ? "committed " + partition.topicPartition() + " " + some.size()
                        : "committed " + partition.topicPartition() + " failed " + fault)));
                consumer.subscribe(List.of(topic));
                while (!isClosing) {
                    for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                        report(getName(), "polled " + record.topic() + "-" + record.partition() + " " + record.offset()
                            + " " + record.deliveryCount().orElse((short) 0) + " " + record.value());
                        hasPolled = true;
                        if (!mode.equals("hold")) {
                            consumer.acknowledge(record, answer(record));
                        }
                    }
                    while (mode.equals("hold") && hasPolled && !isClosing) {
                        Thread.sleep(50);
                    }
                }
                consumer.close();
                report(getName(), "closed");
            } catch (Throwable fault) {
                report(getName(), "failed " + fault);
            }
        }

        private AcknowledgeType answer(ConsumerRecord<String, String> record) {
            if (mode.equals("release") && record.deliveryCount().orElse((short) 0) == 1) {
                return AcknowledgeType.RELEASE;
            }
            boolean isBad = mode.equals("reject") && record.value().startsWith("bad");
            return isBad ? AcknowledgeType.REJECT : AcknowledgeType.ACCEPT;
        }
    }
}
