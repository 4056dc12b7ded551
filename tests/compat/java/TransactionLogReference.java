// Reads questions about transactional ids from standard input, and answers them with Kafka's own classes.
//
// A state is 12 words: id, producer id, previous and next producer id, epoch, last epoch, timeout, state, start,
// last update, client's transaction version, and topic:partition,... or "-".
//
//     write LEVEL STATE             KEYHEX VALUEHEX, as TransactionLog writes them
//     read KEYHEX VALUEHEX          STATE, as TransactionLog reads it
//     move STATE VERB ARGUMENT...   STATE, as TransactionMetadata moves
//
// Each answer is a line; for a rejected question it is "! " and a text.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.Optional;
import java.util.TreeSet;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.coordinator.transaction.TransactionLog;
import org.apache.kafka.coordinator.transaction.TransactionMetadata;
import org.apache.kafka.coordinator.transaction.TransactionState;
import org.apache.kafka.coordinator.transaction.TxnTransitMetadata;
import org.apache.kafka.server.common.TransactionVersion;

public class TransactionLogReference {
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] args) throws Exception {
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        StringBuilder answers = new StringBuilder();
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            String[] words = line.split(" ");
            try {
                answers.append(answer(words)).append('\n');
            } catch (Exception fault) {
                answers.append("! ").append(fault).append('\n');
            }
        }
        System.out.write(answers.toString().getBytes("UTF-8"));
        System.out.flush();
    }

    private static String answer(String[] words) {
        switch (words[0]) {
            case "write":
                byte[] value = TransactionLog.valueToBytes(transit(words, 2), version(words[1]));
                return HEX.formatHex(TransactionLog.keyToBytes(words[2])) + " " + HEX.formatHex(value);
            case "read":
                return read(ByteBuffer.wrap(HEX.parseHex(words[1])), ByteBuffer.wrap(HEX.parseHex(words[2])));
            default:
                return words[1] + " " + textOf(move(words));
        }
    }

    private static String read(ByteBuffer key, ByteBuffer value) {
        Object result = TransactionLog.read(key, value);
        if (!(result instanceof TransactionLog.TxnRecord))
            return "! " + result;
        TransactionLog.TxnRecord record = (TransactionLog.TxnRecord) result;
        return record.transactionId() + " " + textOf(record.metadata().prepareNoTransit());
    }

    private static TxnTransitMetadata move(String[] words) {
        TransactionMetadata state = metadata(words);
        String[] given = java.util.Arrays.copyOfRange(words, 14, words.length);
        switch (words[13]) {
            case "increment":  // TIMEOUT EXPECTED NOW
                Optional<Short> expected = given[1].equals("-") ? Optional.empty() : Optional.of(Short.parseShort(given[1]));
                return state.prepareIncrementProducerEpoch(Integer.parseInt(given[0]), expected, Long.parseLong(given[2]));
            case "rotate":  // NEXT_ID TIMEOUT NOW RECORDS_LAST_EPOCH
                return state.prepareProducerIdRotation(
                    Long.parseLong(given[0]), Integer.parseInt(given[1]), Long.parseLong(given[2]), given[3].equals("yes"));
            case "add":  // PARTITIONS CLIENT_VERSION NOW
                return state.prepareAddPartitions(partitions(given[0]), Long.parseLong(given[2]), version(given[1]));
            case "end":  // STATE CLIENT_VERSION NEXT_ID NOW
                return state.prepareAbortOrCommit(TransactionState.fromName(given[0]).get(), version(given[1]),
                    Long.parseLong(given[2]), Long.parseLong(given[3]), state.state() != TransactionState.ONGOING);
            case "fence":  // LEVEL NEXT_ID NOW; as TransactionCoordinator does, once it has the fencing epoch
                TxnTransitMetadata fence = state.prepareFenceProducerEpoch();
                state.pendingState(Optional.empty());
                if (!version(given[0]).supportsEpochBump()) {
                    state.setProducerEpoch(fence.producerEpoch());
                    state.setLastProducerEpoch((short) -1);
                }
                TransactionVersion spoken = version(given[0].equals("2") ? "2" : "0");
                return state.prepareAbortOrCommit(TransactionState.PREPARE_ABORT, spoken,
                    Long.parseLong(given[1]), Long.parseLong(given[2]), false);
            case "complete":  // NOW
                return state.prepareComplete(Long.parseLong(given[0]));
            default:
                throw new IllegalArgumentException(words[13]);
        }
    }

    private static TransactionMetadata metadata(String[] words) {
        TxnTransitMetadata state = transit(words, 1);
        return new TransactionMetadata(words[1], state.producerId(), state.prevProducerId(), state.nextProducerId(),
            state.producerEpoch(), state.lastProducerEpoch(), state.txnTimeoutMs(), state.txnState(),
            state.topicPartitions(), state.txnStartTimestamp(), state.txnLastUpdateTimestamp(),
            state.clientTransactionVersion());
    }

    private static TxnTransitMetadata transit(String[] words, int first) {
        String[] given = java.util.Arrays.copyOfRange(words, first, first + 12);
        return new TxnTransitMetadata(
            Long.parseLong(given[1]), Long.parseLong(given[2]), Long.parseLong(given[3]), Short.parseShort(given[4]),
            Short.parseShort(given[5]), Integer.parseInt(given[6]), TransactionState.fromName(given[7]).get(),
            partitions(given[11]), Long.parseLong(given[8]), Long.parseLong(given[9]), version(given[10]));
    }

    private static HashSet<TopicPartition> partitions(String words) {
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

    private static String textOf(TxnTransitMetadata state) {
        TreeSet<String> partitions = new TreeSet<>();
        state.topicPartitions().forEach(each -> partitions.add(each.topic() + ":" + each.partition()));
        return String.join(" ", "" + state.producerId(), "" + state.prevProducerId(), "" + state.nextProducerId(),
            "" + state.producerEpoch(), "" + state.lastProducerEpoch(), "" + state.txnTimeoutMs(),
            state.txnState().stateName(), "" + state.txnStartTimestamp(), "" + state.txnLastUpdateTimestamp(),
            "" + state.clientTransactionVersion().featureLevel(),
            partitions.isEmpty() ? "-" : String.join(",", partitions));
    }
}
