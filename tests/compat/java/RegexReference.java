// Reads patterns and names from standard input, and answers which whole names each pattern matches. It uses re2j, as
// Apache Kafka does for subscriptions to topics. With the argument `find` it answers in which names java.util.regex
// finds each pattern, as Spark's Kafka connector does.
//
// A question: number of names (int32), the names, then patterns to the end; each text as its length in bytes (int32)
// and UTF-8. An answer for each pattern: one line, "rejected", or a 1 or 0 for each name.

import com.google.re2j.Pattern;
import com.google.re2j.PatternSyntaxException;
import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.function.Predicate;

public class RegexReference {
    public static void main(String[] args) throws IOException {
        boolean finds = args.length > 0 && args[0].equals("find");
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
                Predicate<String> accepts = finds
                    ? java.util.regex.Pattern.compile(pattern).asPredicate()
                    : wholly(pattern);
                for (String name : names)
                    answers.append(accepts.test(name) ? '1' : '0');
            } catch (PatternSyntaxException | java.util.regex.PatternSyntaxException rejected) {
                answers.append("rejected");
            }
            answers.append('\n');
        }
        System.out.print(answers);
        System.out.flush();
    }

    private static Predicate<String> wholly(String pattern) {
        Pattern compiled = Pattern.compile(pattern);
        return name -> compiled.matcher(name).matches();
    }

    private static String read(DataInputStream questions) throws IOException {
        byte[] text = new byte[questions.readInt()];
        questions.readFully(text);
        return new String(text, StandardCharsets.UTF_8);
    }
}
