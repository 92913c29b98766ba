package tare.workloads;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.file.Path;
import org.apache.lucene.index.IndexReader;

/**
 * Searches with and without the timing of events, in one process: the agent leaves the method as it
 * was under the name {@code search$tare}. Both search for the same queries, a few at a time and in
 * turns, so that both meet the same periods of the machine. Prints for each round the processor
 * time of the thread in ns with and without.
 *
 * <p>usage: EventCost DATA ROUNDS WARMUP_ROUNDS
 */
final class EventCost {
    private static final int QUERIES = 2_048;
    private static final int AT_A_TIME = 32;
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

    private final MethodHandle timed;
    private final MethodHandle plain;
    private long digest;

    private EventCost(LuceneSearcher searcher) throws ReflectiveOperationException {
        timed = method("search").bindTo(searcher);
        plain = method("search$tare").bindTo(searcher);
    }

    private static MethodHandle method(String name) throws ReflectiveOperationException {
        Method method = LuceneSearcher.class.getDeclaredMethod(name, int.class);
        method.setAccessible(true);
        return MethodHandles.lookup().unreflect(method);
    }

    public static void main(String[] arguments) throws Throwable {
        Options options = Options.parse(new String[] {"lucene-search", "--data", arguments[0]});
        try (LuceneSearch search = new LuceneSearch(options)) {
            IndexReader reader = (IndexReader) field(search, "reader");
            String[] queries = (String[]) field(search, "queries");
            EventCost cost = new EventCost(new LuceneSearcher(reader, queries));
            for (int round = Integer.parseInt(arguments[2]); round > 0; round--) {
                cost.round();
            }
            for (int round = Integer.parseInt(arguments[1]); round > 0; round--) {
                long[] times = cost.round();
                System.out.println(times[0] + " " + times[1]);
            }
        }
    }

    private static Object field(Object of, String name) throws ReflectiveOperationException {
        Field field = of.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field.get(of);
    }

    /** All queries, with and without. What comes first changes, as it finds the caches colder. */
    private long[] round() throws Throwable {
        long[] times = new long[2];
        for (int from = 0, turn = 0; from < QUERIES; from += AT_A_TIME, turn++) {
            for (int i = 0; i < 2; i++) {
                int which = (turn + i) % 2;
                long before = THREADS.getCurrentThreadCpuTime();
                digest += searched(which == 0 ? timed : plain, from);
                times[which] += THREADS.getCurrentThreadCpuTime() - before;
            }
        }
        return times;
    }

    private static long searched(MethodHandle search, int from) throws Throwable {
        long sum = 0;
        for (int query = from; query < from + AT_A_TIME; query++) {
            sum += (long) search.invokeExact(query);
        }
        return sum;
    }
}
