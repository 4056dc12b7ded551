// Reads groups from standard input, and answers with the assignments of Apache Kafka's own assignors.
//
// A group is lines, with spaces between words: "topic NUMBER PARTITIONS" for each topic, "member NAME INSTANCE TOPICS
// ASSIGNED" for each member ("-" for none; topics as 1,2 and assigned partitions as 1:0,1:1), and at its end
// "assign NAME SUBSCRIPTION_TYPE". "assignable 1:0,1:1" before that line restricts the partitions that may be assigned,
// as in share groups. The answer has a line "NAME ASSIGNED" for each member, and then an empty line.

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.SimpleAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberAssignmentImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

public class AssignorReference {
    private static final Map<String, PartitionAssignor> ASSIGNORS =
        Map.of("uniform", new UniformAssignor(), "range", new RangeAssignor(), "simple", new SimpleAssignor());

    private record Topics(Map<Uuid, Integer> partitions) implements SubscribedTopicDescriber {
        public int numPartitions(Uuid topic) {
            return partitions.getOrDefault(topic, -1);
        }

        public Set<String> racksForPartition(Uuid topic, int partition) {
            return Set.of();
        }
    }

    public static void main(String[] args) throws IOException {
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder answers = new StringBuilder();
        Topics topics = new Topics(new HashMap<>());
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        Optional<Map<Uuid, Set<Integer>>> assignable = Optional.empty();
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            String[] words = line.split(" ");
            switch (words[0]) {
                case "topic" -> topics.partitions().put(topic(words[1]), Integer.parseInt(words[2]));
                case "member" -> {
                    Map<Uuid, Set<Integer>> assigned = assigned(words[4]);
                    assigned.forEach((topic, numbers) -> numbers.forEach(
                        number -> owners.computeIfAbsent(topic, any -> new HashMap<>()).put(number, words[1])));
                    Optional<String> instance = words[2].equals("-") ? Optional.empty() : Optional.of(words[2]);
                    members.put(words[1], new MemberSubscriptionAndAssignmentImpl(
                        Optional.empty(), instance, subscribed(words[3]), new Assignment(assigned)));
                }
                case "assignable" -> assignable = Optional.of(assigned(words[1]));
                default -> {
                    var spec = new GroupSpecImpl(members, SubscriptionType.valueOf(words[2]), owners, assignable);
                    Map<String, MemberAssignment> found;
                    try {
                        found = new TreeMap<>(ASSIGNORS.get(words[1]).assign(spec, topics).members());
                    } catch (NoSuchElementException failure) {  // thrown by `simple`, which runs out of members
                        found = Map.of("fails", new MemberAssignmentImpl(Map.of()));
                    }
                    found.forEach((member, one) -> answers.append(member).append(' ').append(textOf(one.partitions())).append('\n'));
                    answers.append('\n');
                    topics.partitions().clear();
                    members = new HashMap<>();
                    owners.clear();
                    assignable = Optional.empty();
                }
            }
        }
        System.out.print(answers);
        System.out.flush();
    }

    private static Uuid topic(String number) {
        return new Uuid(0, 100 + Long.parseLong(number));
    }

    private static Set<Uuid> subscribed(String text) {
        Set<Uuid> found = new LinkedHashSet<>();
        for (String number : text.equals("-") ? new String[0] : text.split(","))
            found.add(topic(number));
        return found;
    }

    private static Map<Uuid, Set<Integer>> assigned(String text) {
        Map<Uuid, Set<Integer>> found = new LinkedHashMap<>();
        for (String place : text.equals("-") ? new String[0] : text.split(",")) {
            String[] parts = place.split(":");
            found.computeIfAbsent(topic(parts[0]), any -> new HashSet<>()).add(Integer.parseInt(parts[1]));
        }
        // Hash maps of the same sizes as the coordinator makes them.
        return found.entrySet().stream().collect(Collectors.toMap(Map.Entry::getKey, one -> new HashSet<>(one.getValue())));
    }

    private static String textOf(Map<Uuid, Set<Integer>> partitions) {
        Set<String> places = new TreeSet<>();
        partitions.forEach((topic, numbers) ->
            numbers.forEach(number -> places.add(topic.getLeastSignificantBits() - 100 + ":" + number)));
        return places.isEmpty() ? "-" : String.join(",", places);
    }
}
