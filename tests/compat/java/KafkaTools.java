// Runs Apache Kafka's command-line tools one after another in one JVM: their start costs more than their work.
//
// One request a line on stdin: fields in base64, separated by spaces: class name, standard input, arguments.
// One answer a line on stdout: exit code, then what the tool printed (output and errors) in base64.

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
import org.apache.kafka.common.utils.Exit;

public class KafkaTools {
    // Thrown where a tool would end the process. Some tools catch it and end once more: the first end counts.
    static final class Ended extends Error {
        Ended() {
            super(null, null, false, false);
        }
    }

    static ByteArrayOutputStream printed;
    static Integer endCode;
    static int endSize;
    // What a tool wants done when the process ends, such as closing its producer: done after each call.
    static final List<Runnable> hooks = new ArrayList<>();

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        Exit.Procedure end = (code, message) -> {
            if (endCode == null) {
                endCode = code;
                endSize = printed.size();
            }
            throw new Ended();
        };
        Exit.setExitProcedure(end);
        Exit.setHaltProcedure(end);
        Exit.setShutdownHookAdder((name, hook) -> hooks.add(hook));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            String[] fields = Arrays.stream(line.split(" ", -1)).map(KafkaTools::decoded).toArray(String[]::new);
            printed = new ByteArrayOutputStream();
            endCode = null;
            int code = run(fields, new PrintStream(printed, true, StandardCharsets.UTF_8));
            byte[] all = printed.toByteArray();
            byte[] text = endCode == null ? all : Arrays.copyOf(all, endSize);
            answers.println((endCode == null ? code : endCode) + " " + Base64.getEncoder().encodeToString(text));
            answers.flush();
        }
    }

    static String decoded(String field) {
        return new String(Base64.getDecoder().decode(field), StandardCharsets.UTF_8);
    }

    static int run(String[] fields, PrintStream printed) throws Exception {
        System.setIn(new ByteArrayInputStream(fields[1].getBytes(StandardCharsets.UTF_8)));
        System.setOut(printed);
        System.setErr(printed);
        try {
            String[] arguments = Arrays.copyOfRange(fields, 2, fields.length);
            Class.forName(fields[0]).getMethod("main", String[].class).invoke(null, (Object) arguments);
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
