// Reads questions about Kafka messages from standard input and answers them with Kafka's generated classes.
//
// A question: kind (int8), api key (int16), 1 for request or 0 for response (int8), version (int16), length (int32)
// and that many bytes. An answer: length (int32) and bytes; a negative length means the text of an exception.
//   'R'  reread: parse the bytes as this message, write it again
//   'D'  default: write a message without any field set
//   'F'  facts: first version, last version, request header version, response header version (int16 each)

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

public class CodecReference {
    public static void main(String[] args) throws IOException {
        DataInputStream questions = new DataInputStream(new BufferedInputStream(System.in, 1 << 16));
        DataOutputStream answers = new DataOutputStream(new BufferedOutputStream(System.out, 1 << 16));
        while (true) {
            int kind;
            try {
                kind = questions.readByte();
            } catch (EOFException end) {
                break;
            }
            short key = questions.readShort();
            boolean isRequest = questions.readByte() == 1;
            short version = questions.readShort();
            byte[] body = new byte[questions.readInt()];
            questions.readFully(body);
            try {
                ByteBuffer answer = answer(kind, ApiMessageType.fromApiKey(key), isRequest, version, body);
                answers.writeInt(answer.remaining());
                answers.write(answer.array(), 0, answer.remaining());
            } catch (Exception fault) {
                byte[] text = fault.toString().getBytes(StandardCharsets.UTF_8);
                answers.writeInt(-text.length);
                answers.write(text);
            }
        }
        answers.flush();
    }

    private static ByteBuffer answer(int kind, ApiMessageType api, boolean isRequest, short version, byte[] body) {
        if (kind == 'F') {
            ByteBuffer facts = ByteBuffer.allocate(8);
            facts.putShort(api.lowestSupportedVersion());
            facts.putShort(api.highestSupportedVersion(true));
            facts.putShort(api.requestHeaderVersion(version));
            facts.putShort(api.responseHeaderVersion(version));
            facts.flip();
            return facts;
        }
        ApiMessage message = isRequest ? api.newRequest() : api.newResponse();
        if (kind == 'R') {
            ByteBuffer left = ByteBuffer.wrap(body);
            message.read(new ByteBufferAccessor(left), version);
            if (left.hasRemaining())
                throw new IllegalStateException(left.remaining() + " bytes were not read");
        }
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer written = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(written), cache, version);
        written.flip();
        return written;
    }
}
