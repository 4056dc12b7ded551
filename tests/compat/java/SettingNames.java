import java.util.List;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.ConfigDef;

/** Prints the name and the type of each setting of Java's clients. */
public class SettingNames {
    public static void main(String[] args) {
        for (ConfigDef definition :
                List.of(ProducerConfig.configDef(), ConsumerConfig.configDef(), AdminClientConfig.configDef())) {
            definition.configKeys().values().forEach(key -> System.out.println(key.name + " " + key.type));
        }
    }
}
