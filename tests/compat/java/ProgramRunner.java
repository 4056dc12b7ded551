// Runs Java programs one after another in one JVM, as the judges beside this file: their start costs more than their
// work. KafkaTools.java does so with Apache Kafka's tools, too.
//
// One request a line on stdin: fields in base64, separated by spaces: class name, standard input, arguments.
// One answer a line on stdout: exit code, then what the program printed (output and errors) in base64.

import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import org.slf4j.LoggerFactory;

public class ProgramRunner {
    // Thrown where a program would end the process. Some tools catch it and end once more: the first end counts.
    static final class Ended extends Error {
        Ended() {
            super(null, null, false, false);
        }
    }

    static ByteArrayOutputStream printed;
    static Integer endCode;
    static int endSize;
    // What a program wants done when the process ends, such as closing its producer: done after each call.
    static final List<Runnable> hooks = new ArrayList<>();

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        LoggerFactory.getILoggerFactory();  // says what it lacks now, and not among what a program prints
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            byte[][] fields = Arrays.stream(line.split(" ", -1)).map(Base64.getDecoder()::decode).toArray(byte[][]::new);
            printed = new ByteArrayOutputStream();
            endCode = null;
            int code = run(fields, new PrintStream(printed, true, StandardCharsets.UTF_8));
            byte[] all = printed.toByteArray();
            byte[] text = endCode == null ? all : Arrays.copyOf(all, endSize);
            answers.println((endCode == null ? code : endCode) + " " + Base64.getEncoder().encodeToString(text));
            answers.flush();
        }
        Runtime.getRuntime().halt(0);  // whatever threads the programs left
    }

    static void end(int code) {
        if (endCode == null) {
            endCode = code;
            endSize = printed.size();
        }
        throw new Ended();
    }

    static int run(byte[][] fields, PrintStream printed) throws Exception {
        System.setIn(new ByteArrayInputStream(fields[1]));
        System.setOut(printed);
        System.setErr(printed);
        try {
            String[] words = Arrays.stream(fields).map(field -> new String(field, StandardCharsets.UTF_8)).toArray(String[]::new);
            String[] arguments = Arrays.copyOfRange(words, 2, words.length);
            Class.forName(words[0]).getMethod("main", String[].class).invoke(null, (Object) arguments);
            return 0;
        } catch (InvocationTargetException failure) {
            failure.getCause().printStackTrace(printed);
            return 1;
        } finally {
            hooks.forEach(Runnable::run);
            hooks.clear();
        }
    }
}
