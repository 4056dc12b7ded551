// Reads quotas and values from standard input, and answers as Apache Kafka's Rate and TokenBucket measure them.
//
// A line has words with spaces between them; a double is given by its bits as a decimal int64:
//   rate SAMPLES WINDOW_SECONDS QUOTA or tokens SAMPLES WINDOW_SECONDS QUOTA   starts again
//   quota QUOTA                                                                changes the quota
//   record VALUE TIME_MS                                                       records without checking the quota
//   check TIME_MS                                                              answers "BITS THROTTLE_MS"

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.metrics.QuotaViolationException;
import org.apache.kafka.common.metrics.Sensor;
import org.apache.kafka.common.metrics.stats.Rate;
import org.apache.kafka.common.metrics.stats.TokenBucket;
import org.apache.kafka.server.quota.ControllerMutationQuotaManager;
import org.apache.kafka.server.quota.QuotaUtils;

public class QuotaReference {
    public static void main(String[] args) throws Exception {
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder answers = new StringBuilder();
        try (Metrics metrics = new Metrics()) {
            Sensor sensor = null;
            KafkaMetric metric = null;
            MetricConfig config = null;
            for (String line = questions.readLine(); line != null; line = questions.readLine()) {
                String[] words = line.split(" ");
                switch (words[0]) {
                    case "quota" -> metric.config(new MetricConfig().samples(config.samples())
                        .timeWindow(config.timeWindowMs(), TimeUnit.MILLISECONDS).quota(Quota.upperBound(number(words[1]))));
                    case "record" -> sensor.record(number(words[1]), Long.parseLong(words[2]), false);
                    case "check" -> {
                        long now = Long.parseLong(words[1]);
                        long throttle = 0;
                        try {
                            sensor.checkQuotas(now);
                        } catch (QuotaViolationException e) {
                            throttle = metric.measurable() instanceof TokenBucket
                                ? ControllerMutationQuotaManager.throttleTimeMs(e)
                                : QuotaUtils.throttleTime(e, now);
                        }
                        double value = metric.measurable().measure(metric.config(), now);
                        answers.append(Double.doubleToLongBits(value)).append(' ').append(throttle).append('\n');
                    }
                    default -> {
                        metrics.removeSensor("quota");
                        config = new MetricConfig().samples(Integer.parseInt(words[1]))
                            .timeWindow(Long.parseLong(words[2]), TimeUnit.SECONDS).quota(Quota.upperBound(number(words[3])));
                        sensor = metrics.sensor("quota");
                        sensor.add(metrics.metricName("quota", "quota"),
                            words[0].equals("rate") ? new Rate() : new TokenBucket(), config);
                        metric = metrics.metric(metrics.metricName("quota", "quota"));
                    }
                }
            }
        }
        System.out.print(answers);
        System.out.flush();
    }

    private static double number(String bits) {
        return Double.longBitsToDouble(Long.parseLong(bits));
    }
}
