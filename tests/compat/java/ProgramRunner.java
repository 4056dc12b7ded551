// Runs Java programs, such as the references beside this file, one after another in one JVM, because the start of a JVM
// takes longer than their work. KafkaTools.java runs Apache Kafka's tools in the same way.
//
// A request is a line on stdin with fields in base64, separated by spaces: class name, standard input, arguments.
// An answer is a line on stdout: the exit code, then the output of the program (stdout and stderr) in base64.

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
    // Thrown where a program would end the process. Some tools catch it and end again: the first exit code counts.
    static final class Ended extends Error {
        Ended() {
            super(null, null, false, false);
        }
    }

    static ByteArrayOutputStream printed;
    static Integer endCode;
    static int endSize;
    // The shutdown hooks of a program, such as closing its producer. They run after each call.
    static final List<Runnable> hooks = new ArrayList<>();

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        LoggerFactory.getILoggerFactory();  // prints its warnings now, and not into the output of a program
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
        Runtime.getRuntime().halt(0);  // even if programs have left threads behind
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
