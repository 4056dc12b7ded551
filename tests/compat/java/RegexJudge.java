// Reads patterns and names from standard input, and answers which of the names each pattern matches whole, as
// re2j does, which Apache Kafka takes for subscriptions to topics.
//
// A question: number of names (int32), the names, then patterns to the end; each text as its length in bytes (int32)
// and UTF-8. An answer for each pattern: one line, "refused", or a 1 or 0 for each name.

import com.google.re2j.Pattern;
import com.google.re2j.PatternSyntaxException;
import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;

public class RegexJudge {
    public static void main(String[] args) throws IOException {
        DataInputStream questions = new DataInputStream(new BufferedInputStream(System.in, 1 << 16));
        String[] names = new String[questions.readInt()];
        for (int i = 0; i < names.length; i++)
            names[i] = read(questions);
        StringBuilder answers = new StringBuilder();
        while (true) {
            String pattern;
            try {
                pattern = read(questions);
            } catch (EOFException end) {
                break;
            }
            try {
                Pattern compiled = Pattern.compile(pattern);
                for (String name : names)
                    answers.append(compiled.matcher(name).matches() ? '1' : '0');
            } catch (PatternSyntaxException refused) {
                answers.append("refused");
            }
            answers.append('\n');
        }
        System.out.print(answers);
        System.out.flush();
    }

    private static String read(DataInputStream questions) throws IOException {
        byte[] text = new byte[questions.readInt()];
        questions.readFully(text);
        return new String(text, StandardCharsets.UTF_8);
    }
}
