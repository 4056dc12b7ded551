// Clients of listeners with TLS and logins. Commands are lines in, and each is answered with a line out.
//
// In, one on each line, preceded by a NUMBER with which its answers also begin:
//                  talk TOPIC VALUE NAME=VALUE...   write this record to partition 0, and read from the start until
//                                                   it is found
//                  stay TOPIC MS NAME=VALUE...      write a record, answer "begun" when it is acknowledged, and write more
//                                                   over the same connection for this time
// Names:           bootstrap.servers, security.protocol, mechanism, user, password; files: ca and certificate (with its
//                  key) in PEM, token
// Out:             ok | failed WORDS

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class SecuredClient {
    private static final int TIMEOUT_MS = 10_000;
    private static final Duration POLL = Duration.ofMillis(100);
    private static final String MODULES = "org.apache.kafka.common.security.";

    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            String answer = "ok";
            try {
                carryOut(words);
            } catch (Exception failure) {
                Throwable cause = failure instanceof ExecutionException ? failure.getCause() : failure;
                answer = "failed " + cause.toString().replace('\n', ' ');
            }
            System.out.println(words[0] + " " + answer);
            System.out.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static void carryOut(String[] words) throws Exception {
        Map<String, Object> config = configured(words);
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(config)) {
            if (words[1].equals("talk")) {
                send(producer, words[2], words[3]);
                read(config, words[2], words[3]);
                return;
            }
            send(producer, words[2], "stay");
            System.out.println(words[0] + " begun");
            System.out.flush();
            long end = System.nanoTime() + Long.parseLong(words[3]) * 1_000_000;
            while (System.nanoTime() < end) {
                Thread.sleep(50);
                send(producer, words[2], "stay");
            }
        }
    }

    private static void send(KafkaProducer<String, String> producer, String topic, String value) throws Exception {
        producer.send(new ProducerRecord<>(topic, 0, null, value)).get();
    }

    private static void read(Map<String, Object> config, String topic, String value) {
        TopicPartition partition = new TopicPartition(topic, 0);
        long end = System.nanoTime() + TIMEOUT_MS * 1_000_000L;
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(config)) {
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            while (System.nanoTime() < end) {
                for (ConsumerRecord<String, String> record : consumer.poll(POLL)) {
                    if (record.value().equals(value)) {
                        return;
                    }
                }
            }
        }
        throw new IllegalStateException("the record was not found");
    }

    private static Map<String, Object> configured(String[] words) {
        Map<String, String> given = new HashMap<>();
        for (int i = 4; i < words.length; i++) {
            String[] pair = words[i].split("=", 2);
            given.put(pair[0], pair[1]);
        }
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", given.get("bootstrap.servers"));
        config.put("security.protocol", given.get("security.protocol"));
        config.put("key.serializer", StringSerializer.class);
        config.put("value.serializer", StringSerializer.class);
        config.put("key.deserializer", StringDeserializer.class);
        config.put("value.deserializer", StringDeserializer.class);
        config.put("max.block.ms", TIMEOUT_MS);
        config.put("request.timeout.ms", TIMEOUT_MS / 2);
        config.put("delivery.timeout.ms", TIMEOUT_MS);
        if (given.containsKey("ca")) {
            config.put("ssl.truststore.type", "PEM");
            config.put("ssl.truststore.location", given.get("ca"));
        }
        if (given.containsKey("certificate")) {
            config.put("ssl.keystore.type", "PEM");
            config.put("ssl.keystore.location", given.get("certificate"));
        }
        String mechanism = given.get("mechanism");
        if (mechanism == null) {
            return config;
        }
        config.put("sasl.mechanism", mechanism);
        if (mechanism.equals("OAUTHBEARER")) {
            String url = Path.of(given.get("token")).toUri().toString();
            System.setProperty("org.apache.kafka.sasl.oauthbearer.allowed.urls", url);
            config.put("sasl.oauthbearer.token.endpoint.url", url);
            config.put("sasl.login.callback.handler.class", MODULES + "oauthbearer.OAuthBearerLoginCallbackHandler");
            config.put("sasl.jaas.config", MODULES + "oauthbearer.OAuthBearerLoginModule required;");
        } else {
            String module = mechanism.equals("PLAIN") ? "plain.PlainLoginModule" : "scram.ScramLoginModule";
            config.put("sasl.jaas.config", MODULES + module + " required username=\"" + given.get("user")
                + "\" password=\"" + given.get("password") + "\";");
        }
        return config;
    }
}
