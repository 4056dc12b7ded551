// Reads names in DER (X.501) from standard input, each as its length in bytes (int32) and its bytes. For each it prints
// the result of X500Principal.getName(), as hex digits of UTF-8, or "rejected" if the name is rejected.
//
// With the argument `rules` it reads texts (length and UTF-8) instead: the rules, then names. For each name it prints
// the result of SslPrincipalMapper.

import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import javax.security.auth.x500.X500Principal;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

public class NameReference {
    public static void main(String[] args) throws IOException {
        DataInputStream questions = new DataInputStream(new BufferedInputStream(System.in, 1 << 16));
        SslPrincipalMapper rules = args.length > 0 ? SslPrincipalMapper.fromRules(text(questions)) : null;
        StringBuilder answers = new StringBuilder();
        while (true) {
            byte[] question;
            try {
                question = read(questions);
            } catch (EOFException end) {
                break;
            }
            answers.append(rules == null ? name(question) : mapped(rules, question)).append('\n');
        }
        System.out.print(answers);
        System.out.flush();
    }

    private static String name(byte[] der) {
        try {
            return hex(new X500Principal(der).getName());
        } catch (IllegalArgumentException rejected) {
            return "rejected";
        }
    }

    private static String mapped(SslPrincipalMapper rules, byte[] name) {
        try {
            return hex(rules.getName(new String(name, StandardCharsets.UTF_8)));
        } catch (IOException | RuntimeException rejected) {
            return "rejected";
        }
    }

    private static String hex(String text) {
        return "=" + HexFormat.of().formatHex(text.getBytes(StandardCharsets.UTF_8));
    }

    private static String text(DataInputStream questions) throws IOException {
        return new String(read(questions), StandardCharsets.UTF_8);
    }

    private static byte[] read(DataInputStream questions) throws IOException {
        byte[] bytes = new byte[questions.readInt()];
        questions.readFully(bytes);
        return bytes;
    }
}
