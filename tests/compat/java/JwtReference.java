// Reads access tokens from standard input, and answers if Apache Kafka's BrokerJwtValidator accepts them.
//
// Arguments: the file with the provider's keys, the audience and the issuer that are expected. A line is
// "expecting TOKEN", or "anything TOKEN" if neither is expected. The answer is "PRINCIPAL LIFETIME_MS SCOPE,..."
// with the principal in base64, or "rejected".

import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.security.oauthbearer.BrokerJwtValidator;
import org.apache.kafka.common.security.oauthbearer.JwtValidatorException;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;

public class JwtReference {
    public static void main(String[] args) throws Exception {
        String url = new File(args[0]).toURI().toString();
        System.setProperty("org.apache.kafka.sasl.oauthbearer.allowed.urls", url);
        System.setProperty("org.apache.kafka.sasl.oauthbearer.allowed.files", args[0]);
        BrokerJwtValidator expecting = validator(url, List.of(args[1]), args[2]);
        BrokerJwtValidator anything = validator(url, List.of(), null);
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StringBuilder answers = new StringBuilder();
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            String[] words = line.split(" ", 2);
            try {
                OAuthBearerToken token = (words[0].equals("expecting") ? expecting : anything).validate(words[1]);
                String name = Base64.getEncoder().encodeToString(token.principalName().getBytes(StandardCharsets.UTF_8));
                answers.append(name).append(' ').append(token.lifetimeMs()).append(' ')
                    .append(String.join(",", new TreeSet<>(token.scope()))).append('\n');
            } catch (JwtValidatorException e) {
                answers.append("rejected\n");
            }
        }
        System.out.print(answers);
    }

    static BrokerJwtValidator validator(String url, List<String> audiences, String issuer) {
        Map<String, Object> configs = new HashMap<>();
        configs.put("sasl.oauthbearer.jwks.endpoint.url", url);
        configs.put("sasl.oauthbearer.expected.audience", audiences);
        configs.put("sasl.oauthbearer.expected.issuer", issuer);
        configs.put("sasl.oauthbearer.clock.skew.seconds", 30);
        configs.put("sasl.oauthbearer.scope.claim.name", "scope");
        configs.put("sasl.oauthbearer.sub.claim.name", "sub");
        BrokerJwtValidator made = new BrokerJwtValidator();
        made.configure(configs, "OAUTHBEARER", List.of(new AppConfigurationEntry(
            OAuthBearerLoginModule.class.getName(), AppConfigurationEntry.LoginModuleControlFlag.REQUIRED, Map.of())));
        return made;
    }
}
