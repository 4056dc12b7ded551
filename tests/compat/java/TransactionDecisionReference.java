// Reads requests about a transactional id from standard input, and answers with the response of Kafka's own
// TransactionCoordinator and the new state of the id. Its log is replaced: an append is committed at once. Markers are
// never written; only a transaction without partitions is complete at once, as with Kafka.
//
//     LEVEL STATE init PRODUCER EPOCH TIMEOUT       EPOCH "-" for no expectation
//     LEVEL STATE add PRODUCER EPOCH PARTITIONS CLIENT_VERSION
//     LEVEL STATE verify PRODUCER EPOCH PARTITIONS
//     LEVEL STATE end PRODUCER EPOCH commit|abort CLIENT_VERSION
//     LEVEL STATE sweep
//
// A state is 12 words: id, producer id, previous and next producer id, epoch, last epoch, timeout, state, start,
// last update, client's transaction version, and topic:partition,... or "-". An answer is a line: ERROR PRODUCER
// EPOCH STATE. The time is always NOW; new producer ids are NEW_ID.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.lang.reflect.Proxy;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import kafka.coordinator.transaction.TransactionConfig;
import kafka.coordinator.transaction.TransactionCoordinator;
import kafka.coordinator.transaction.TransactionMarkerChannelManager;
import kafka.coordinator.transaction.TransactionStateManager;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.TransactionResult;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.ProducerIdAndEpoch;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.transaction.ProducerIdManager;
import org.apache.kafka.coordinator.transaction.TransactionMetadata;
import org.apache.kafka.coordinator.transaction.TransactionState;
import org.apache.kafka.coordinator.transaction.TxnTransitMetadata;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.server.common.TransactionVersion;
import scala.Function1;
import scala.Function3;
import scala.runtime.BoxedUnit;

public class TransactionDecisionReference {
    private static final long NOW = 1_700_000_070_000L;
    private static final long NEW_ID = 1_000;
    private static final int MAX_TIMEOUT = 900_000;
    private static final TransactionConfig CONFIG =
        new TransactionConfig(604_800_000, MAX_TIMEOUT, 1, (short) 1, 1 << 20, 1 << 20, 1, 10_000, 3_600_000, true, 30_000);

    static class Manager extends TransactionStateManager {
        String level = "0";

        Manager(Time time) {
            super(0, null, null, null, CONFIG, time, new Metrics());
        }

        @Override
        public TransactionVersion transactionVersionLevel() {
            return version(level);
        }

        @Override
        public int partitionFor(String id) {
            return 0;
        }

        @Override
        public void appendTransactionToLog(
            String id, int epoch, TxnTransitMetadata next, Function1<Errors, BoxedUnit> callback,
            Function1<Errors, Object> retries, RequestLocal local
        ) {
            find(id).completeTransitionTo(next);
            callback.apply(Errors.NONE);
        }

        TransactionMetadata find(String id) {
            return getTransactionState(id).toOption().get().get().transactionMetadata();
        }

        void hold(TransactionMetadata state) {
            transactionMetadataCache().clear();
            ConcurrentHashMap<String, TransactionMetadata> states = new ConcurrentHashMap<>();
            states.put(state.transactionalId(), state);
            addLoadedTransactionsToCache(0, 0, states);
        }
    }

    static class Markers extends TransactionMarkerChannelManager {
        Markers() {
            super(null, null, null, null, null);  // never called: the real constructor opens connections
        }

        @Override
        public void addTxnMarkersToSend(int epoch, TransactionResult result, TransactionMetadata now, TxnTransitMetadata done) {
            if (now.topicPartitions().isEmpty())
                now.completeTransitionTo(done);
        }
    }

    private static String[] answer = {};

    public static void main(String[] args) throws Exception {
        Time time = (Time) Proxy.newProxyInstance(Time.class.getClassLoader(), new Class<?>[] {Time.class},
            (proxy, method, given) -> method.getReturnType() == long.class ? NOW : null);
        Manager manager = new Manager(time);
        Field unsafe = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
        unsafe.setAccessible(true);
        Markers markers = (Markers) ((sun.misc.Unsafe) unsafe.get(null)).allocateInstance(Markers.class);
        ProducerIdManager ids = () -> NEW_ID;
        TransactionCoordinator coordinator =
            new TransactionCoordinator(CONFIG, null, () -> ids, manager, markers, time, new LogContext());
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        StringBuilder answers = new StringBuilder();
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            String[] words = line.split(" ");
            answer = new String[] {"none", "-1", "-1"};
            manager.level = words[0];
            manager.hold(metadata(words));
            try {
                ask(coordinator, words[1], words[13], Arrays.copyOfRange(words, 14, words.length));
            } catch (Exception fault) {
                answer[0] = "!" + fault.getClass().getSimpleName();
            }
            answers.append(String.join(" ", answer)).append(' ').append(textOf(manager.find(words[1]))).append('\n');
        }
        System.out.write(answers.toString().getBytes("UTF-8"));
        System.out.flush();
    }

    private static void ask(TransactionCoordinator coordinator, String id, String verb, String[] given) {
        RequestLocal local = RequestLocal.noCaching();
        if (verb.equals("sweep")) {
            coordinator.abortTimedOutTransactions(which -> (Function3<Errors, Object, Object, BoxedUnit>)
                (error, producer, epoch) -> noteAnswer(error, -1, -1));
            return;
        }
        long producer = Long.parseLong(given[0]);
        switch (verb) {
            case "init":
                scala.Option<ProducerIdAndEpoch> expected = given[1].equals("-") ? scala.Option.empty()
                    : scala.Option.apply(new ProducerIdAndEpoch(producer, Short.parseShort(given[1])));
                coordinator.handleInitProducerId(id, Integer.parseInt(given[2]), false, false, expected,
                    result -> noteAnswer(result.error(), result.producerId(), result.producerEpoch()), local);
                break;
            case "add":
                coordinator.handleAddPartitionsToTransaction(id, producer, Short.parseShort(given[1]),
                    partitions(given[2]), error -> noteAnswer(error, -1, -1), version(given[3]), local);
                break;
            case "verify":
                coordinator.handleVerifyPartitionsInTransaction(id, producer, Short.parseShort(given[1]),
                    partitions(given[2]), result -> {
                        short code = result.topicResults().iterator().next().resultsByPartition().iterator().next()
                            .partitionErrorCode();
                        return noteAnswer(Errors.forCode(code), -1, -1);
                    });
                break;
            default:
                TransactionResult end = given[2].equals("commit") ? TransactionResult.COMMIT : TransactionResult.ABORT;
                coordinator.handleEndTransaction(id, producer, Short.parseShort(given[1]), end, version(given[3]),
                    (error, next, epoch) -> noteAnswer(error, (Long) next, (Short) epoch), local);
        }
    }

    private static BoxedUnit noteAnswer(Errors error, long producer, int epoch) {
        answer = new String[] {error.name(), "" + producer, "" + epoch};
        return BoxedUnit.UNIT;
    }

    private static TransactionMetadata metadata(String[] words) {
        String[] given = Arrays.copyOfRange(words, 1, 13);
        TransactionMetadata state = new TransactionMetadata(given[0],
            Long.parseLong(given[1]), Long.parseLong(given[2]), Long.parseLong(given[3]), Short.parseShort(given[4]),
            Short.parseShort(given[5]), Integer.parseInt(given[6]), TransactionState.fromName(given[7]).get(),
            partitions(given[11]), Long.parseLong(given[8]), Long.parseLong(given[9]), version(given[10]));
        if (given[7].startsWith("Prepare"))
            state.prepareComplete(NOW);  // as always from the decision to the last marker, and after loading
        return state;
    }

    private static Set<TopicPartition> partitions(String words) {
        HashSet<TopicPartition> partitions = new HashSet<>();
        if (!words.equals("-"))
            for (String each : words.split(",")) {
                int colon = each.lastIndexOf(':');
                partitions.add(new TopicPartition(each.substring(0, colon), Integer.parseInt(each.substring(colon + 1))));
            }
        return partitions;
    }

    private static TransactionVersion version(String level) {
        return TransactionVersion.fromFeatureLevel(Short.parseShort(level));
    }

    private static String textOf(TransactionMetadata metadata) {
        TxnTransitMetadata state = metadata.prepareNoTransit();
        TreeSet<String> partitions = new TreeSet<>();
        state.topicPartitions().forEach(each -> partitions.add(each.topic() + ":" + each.partition()));
        return String.join(" ", metadata.transactionalId(), "" + state.producerId(), "" + state.prevProducerId(),
            "" + state.nextProducerId(), "" + state.producerEpoch(), "" + state.lastProducerEpoch(),
            "" + state.txnTimeoutMs(), state.txnState().stateName(), "" + state.txnStartTimestamp(),
            "" + state.txnLastUpdateTimestamp(), "" + state.clientTransactionVersion().featureLevel(),
            partitions.isEmpty() ? "-" : String.join(",", partitions));
    }
}
