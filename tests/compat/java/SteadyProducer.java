// A KafkaProducer that writes records at a steady rate, idempotent and with acks=all, until its input ends.
//
// Arguments: BOOTSTRAP,... TOPIC RECORDS-A-SECOND
// Out, one line for each record: "ack", or "failed" and the error.

import java.util.Arrays;
import java.util.Properties;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class SteadyProducer {
    public static void main(String[] args) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", args[0]);
        settings.put("key.serializer", ByteArraySerializer.class.getName());
        settings.put("value.serializer", ByteArraySerializer.class.getName());
        settings.put("linger.ms", "0");
        KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings);
        byte[] value = new byte[100];
        Arrays.fill(value, (byte) 'x');
        Thread reader = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {
                    continue;
                }
            } catch (java.io.IOException fault) {
                System.err.println(fault);
            }
            Runtime.getRuntime().halt(0);
        });
        reader.start();
        long step = 1_000_000_000L / Integer.parseInt(args[2]);
        long next = System.nanoTime();
        while (true) {
            producer.send(new ProducerRecord<>(args[1], 0, null, value), (metadata, fault) -> {
                System.out.println(fault == null ? "ack" : "failed " + fault);
            });
            next += step;
            for (long wait = next - System.nanoTime(); wait > 0; wait = next - System.nanoTime()) {
                LockSupport.parkNanos(wait);
            }
        }
    }
}
