// Reads records of __consumer_offsets from standard input, and answers as Kafka's coordinator reads and writes them.
//
// A question: length of the key (int32), the key, length of the value (int32, -1 for a tombstone), the value.
// With a key of one letter the value is data of a classic consumer: S its subscription, A its assignment.
// An answer: the record, as GroupCoordinatorRecordSerde reads and writes it; in place of the key's length, -2 means
// that the length (int32) and the text of an exception follow.

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;

public class GroupRecordReference {
    public static void main(String[] args) throws IOException {
        DataInputStream questions = new DataInputStream(new BufferedInputStream(System.in, 1 << 16));
        DataOutputStream answers = new DataOutputStream(new BufferedOutputStream(System.out, 1 << 16));
        GroupCoordinatorRecordSerde serde = new GroupCoordinatorRecordSerde();
        while (true) {
            byte[] key;
            try {
                key = read(questions, questions.readInt());
            } catch (EOFException end) {
                break;
            }
            byte[] value = read(questions, questions.readInt());
            try {
                if (key.length == 1) {
                    write(answers, key);
                    write(answers, reread(key[0], ByteBuffer.wrap(value)));
                    continue;
                }
                CoordinatorRecord record =
                    serde.deserialize(ByteBuffer.wrap(key), value == null ? null : ByteBuffer.wrap(value));
                byte[] keyAgain = serde.serializeKey(record);
                byte[] valueAgain = serde.serializeValue(record);
                write(answers, keyAgain);
                write(answers, valueAgain);
            } catch (Exception fault) {
                byte[] text = fault.toString().getBytes(StandardCharsets.UTF_8);
                answers.writeInt(-2);
                write(answers, text);
            }
        }
        answers.flush();
    }

    private static byte[] reread(byte kind, ByteBuffer content) {
        short version = content.getShort(0);
        ApiMessage message = kind == 'S'
            ? ConsumerProtocol.deserializeConsumerProtocolSubscription(content)
            : ConsumerProtocol.deserializeConsumerProtocolAssignment(content);
        return MessageUtil.toVersionPrefixedBytes(version, message);
    }

    private static byte[] read(DataInputStream questions, int length) throws IOException {
        if (length < 0)
            return null;
        byte[] content = new byte[length];
        questions.readFully(content);
        return content;
    }

    private static void write(DataOutputStream answers, byte[] content) throws IOException {
        answers.writeInt(content == null ? -1 : content.length);
        if (content != null)
            answers.write(content);
    }
}
