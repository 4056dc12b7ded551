// Reads first messages of OAUTHBEARER from standard input, one in base64 on each line, and answers with what Apache
// Kafka reads in them: "TOKEN AUTHORIZATION_ID", both in base64, or "rejected".

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import javax.security.sasl.SaslException;
import org.apache.kafka.common.security.oauthbearer.internals.OAuthBearerClientInitialResponse;

public class OauthBearerReference {
    public static void main(String[] args) throws Exception {
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StringBuilder answers = new StringBuilder();
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            try {
                var read = new OAuthBearerClientInitialResponse(Base64.getDecoder().decode(line));
                answers.append(encoded(read.tokenValue())).append(' ').append(encoded(read.authorizationId())).append('\n');
            } catch (SaslException | IllegalArgumentException e) {
                answers.append("rejected\n");  // the latter if the scheme is not Bearer: its message uses a wrong group
            }
        }
        System.out.print(answers);
    }

    static String encoded(String text) {
        return Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8));
    }
}
