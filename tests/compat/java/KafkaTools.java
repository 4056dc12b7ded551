// A ProgramRunner for Apache Kafka's command-line tools: where they would end the process, only their call ends.

import org.apache.kafka.common.utils.Exit;

public class KafkaTools {
    public static void main(String[] arguments) throws Exception {
        Exit.setExitProcedure((code, message) -> ProgramRunner.end(code));
        Exit.setHaltProcedure((code, message) -> ProgramRunner.end(code));
        Exit.setShutdownHookAdder((name, hook) -> ProgramRunner.hooks.add(hook));
        ProgramRunner.main(arguments);
    }
}
