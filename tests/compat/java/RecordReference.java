// Reads questions about records from standard input and answers them with Kafka's own classes.
//
//   'W'  compression id (int8), length (int32), batches: check each (CRC, fields), read its records, write them all
//        as one batch with the class of Java's producer. The answer is length (int32) and that batch.
//   'P'  partitions (int32), length (int32), key: the answer is the partition (int32) that the producer picks.

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;

public class RecordReference {
    public static void main(String[] args) throws IOException {
        DataInputStream questions = new DataInputStream(new BufferedInputStream(System.in, 1 << 16));
        DataOutputStream answers = new DataOutputStream(new BufferedOutputStream(System.out, 1 << 16));
        for (int kind = questions.read(); kind >= 0; kind = questions.read()) {
            if (kind == 'P') {
                int partitions = questions.readInt();
                answers.writeInt(BuiltInPartitioner.partitionForKey(content(questions), partitions));
            } else {
                CompressionType type = CompressionType.forId(questions.readByte());
                ByteBuffer written = rewritten(content(questions), type);
                answers.writeInt(written.remaining());
                answers.write(written.array(), written.arrayOffset() + written.position(), written.remaining());
            }
        }
        answers.flush();
    }

    private static byte[] content(DataInputStream questions) throws IOException {
        byte[] content = new byte[questions.readInt()];
        questions.readFully(content);
        return content;
    }

    private static ByteBuffer rewritten(byte[] batches, CompressionType type) {
        ByteBuffer buffer = ByteBuffer.allocate(2 * batches.length + 1024);
        MemoryRecordsBuilder builder =
            MemoryRecords.builder(buffer, Compression.of(type).build(), TimestampType.CREATE_TIME, 0L);
        for (MutableRecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(batches)).batches()) {
            batch.ensureValid();
            for (Record record : batch) {
                record.ensureValid();
                builder.append(record.timestamp(), record.key(), record.value(), record.headers());
            }
        }
        return builder.build().buffer();
    }
}
