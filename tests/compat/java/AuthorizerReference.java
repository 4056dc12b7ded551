// Reads ACLs and questions from standard input, and answers as Apache Kafka's StandardAuthorizer does.
//
// A line has words with tabs between them, "-" for none:
//   settings ALLOW_EVERYONE SUPER_USERS                                        removes all ACLs
//   add ID TYPE NAME PATTERN PRINCIPAL HOST OPERATION PERMISSION
//   remove ID
//   ask PRINCIPAL HOST OPERATION TYPE NAME                                     ALLOWED or DENIED, and the rule
//   audit PRINCIPAL HOST OPERATION TYPE NAME                                   its line in the audit log
//   type PRINCIPAL HOST OPERATION TYPE                                         ALLOWED or DENIED
//   filter TYPE NAME PATTERN PRINCIPAL HOST OPERATION PERMISSION               the ACLs, sorted
//   host ADDRESS                                                               as the authorizer compares it
// The first three have no answer, each other one has a line.

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.net.InetAddress;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.StreamSupport;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AccessControlEntryFilter;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourcePatternFilter;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.SecurityUtils;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.metadata.authorizer.StandardAuthorizerData;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;

public class AuthorizerReference {
    private static final StandardAuthorizer authorizer = new StandardAuthorizer();
    private static final Map<String, InetAddress> addresses = new HashMap<>();
    private static Set<String> superUsers = Set.of();

    private record Context(KafkaPrincipal principal, InetAddress clientAddress) implements AuthorizableRequestContext {
        public String listenerName() {
            return "TEST";
        }

        public SecurityProtocol securityProtocol() {
            return SecurityProtocol.PLAINTEXT;
        }

        public int requestType() {
            return 0;
        }

        public int requestVersion() {
            return 0;
        }

        public String clientId() {
            return "";
        }

        public int correlationId() {
            return 0;
        }
    }

    public static void main(String[] args) throws Exception {
        try (Metrics metrics = new Metrics()) {
            authorizer.withPluginMetrics(new PluginMetricsImpl(metrics, Map.of()));
            authorizer.completeInitialLoad();
            BufferedReader questions = new BufferedReader(new InputStreamReader(System.in));
            StringBuilder answers = new StringBuilder();
            for (String line = questions.readLine(); line != null; line = questions.readLine()) {
                String[] words = line.split("\t", -1);
                switch (words[0]) {
                    case "settings" -> configure(words[1], words[2]);
                    case "add" -> authorizer.addAcl(id(words[1]), entry(words));
                    case "remove" -> authorizer.removeAcl(id(words[1]));
                    default -> answers.append(answer(words)).append('\n');
                }
            }
            System.out.print(answers);
            System.out.flush();
        }
    }

    private static String answer(String[] words) throws Exception {
        return switch (words[0]) {
            case "host" -> InetAddress.getByName(words[1]).getHostAddress();
            case "filter" -> matching(words);
            case "type" -> authorizer.authorizeByResourceType(context(words), operation(words[3]), type(words[4])).name();
            case "ask" -> decision(context(words), operation(words[3]), new ResourcePattern(type(words[4]), words[5], PatternType.LITERAL));
            case "audit" -> audited(context(words), operation(words[3]), new ResourcePattern(type(words[4]), words[5], PatternType.LITERAL));
            default -> throw new IllegalArgumentException(words[0]);
        };
    }

    private static String decision(Context context, AclOperation operation, ResourcePattern resource) throws Exception {
        Action action = new Action(operation, resource, 1, false, false);
        String result = authorizer.authorize(context, List.of(action)).get(0).name();
        return result + "\t" + (superUsers.contains(context.principal().toString()) ? "SuperUser" : rule(context, action));
    }

    private static String audited(Context context, AclOperation operation, ResourcePattern resource) throws Exception {
        Field data = StandardAuthorizer.class.getDeclaredField("data");
        data.setAccessible(true);
        Action action = new Action(operation, resource, 1, true, true);
        for (Method method : StandardAuthorizerData.class.getDeclaredMethods()) {
            if (method.getName().equals("buildAuditMessage")) {
                method.setAccessible(true);
                return (String) method.invoke(data.get(authorizer), context.principal(), context, action, rule(context, action));
            }
        }
        throw new IllegalStateException();
    }

    private static Object rule(Context context, Action action) throws Exception {
        Field data = StandardAuthorizer.class.getDeclaredField("data");
        data.setAccessible(true);
        Method find = StandardAuthorizerData.class.getDeclaredMethod("findAclRule", Set.class, String.class, Action.class);
        find.setAccessible(true);
        Set<KafkaPrincipal> principals = Set.of(context.principal(), new KafkaPrincipal(KafkaPrincipal.USER_TYPE, "*"));
        return find.invoke(data.get(authorizer), principals, context.clientAddress().getHostAddress(), action);
    }

    private static String matching(String[] words) {
        ResourcePatternFilter pattern = new ResourcePatternFilter(type(words[1]), orNull(words[2]), pattern(words[3]));
        AccessControlEntryFilter entry = new AccessControlEntryFilter(
            orNull(words[4]), orNull(words[5]), operation(words[6]), permission(words[7]));
        return StreamSupport.stream(authorizer.acls(new AclBindingFilter(pattern, entry)).spliterator(), false)
            .map(found -> StandardAcl.fromAclBinding(found).toString()).sorted().collect(Collectors.joining(";"));
    }

    private static void configure(String allowEveryone, String users) {
        authorizer.loadSnapshot(Map.of());
        superUsers = users.equals("-") ? Set.of() : Set.of(users);
        authorizer.configure(Map.of(
            "super.users", String.join(";", superUsers), "allow.everyone.if.no.acl.found", allowEveryone, "node.id", "1"));
    }

    private static Context context(String[] words) throws IOException {
        InetAddress address = addresses.get(words[2]);
        if (address == null)
            addresses.put(words[2], address = InetAddress.getByName(words[2]));
        return new Context(SecurityUtils.parseKafkaPrincipal(words[1]), address);
    }

    private static StandardAcl entry(String[] words) {
        return new StandardAcl(type(words[2]), words[3], pattern(words[4]), words[5], words[6], operation(words[7]), permission(words[8]));
    }

    private static Uuid id(String number) {
        return new Uuid(0, 100 + Long.parseLong(number));
    }

    private static ResourceType type(String number) {
        return ResourceType.fromCode(Byte.parseByte(number));
    }

    private static PatternType pattern(String number) {
        return PatternType.fromCode(Byte.parseByte(number));
    }

    private static AclOperation operation(String number) {
        return AclOperation.fromCode(Byte.parseByte(number));
    }

    private static AclPermissionType permission(String number) {
        return AclPermissionType.fromCode(Byte.parseByte(number));
    }

    private static String orNull(String word) {
        return word.equals("-") ? null : word;
    }
}
