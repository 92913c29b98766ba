package tare.workloads;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.lang.reflect.Field;
import org.apache.lucene.index.IndexReader;

/**
 * Searches, and after each search calls a method that does nothing: in turns as the agent made it,
 * timed, and as it left it under the name {@code nothing$tare}. So what differs is an event alone,
 * in a program whose caches are full of other things, and all else is the same compiled code. Prints
 * for each round the processor time of the thread in ns with events and without.
 *
 * <p>usage: EventCost DATA ROUNDS WARMUP_ROUNDS
 */
final class EventCost {
    private static final int QUERIES = 2_048;
    private static final int AT_A_TIME = 32;
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
    private static final MethodHandle TIMED = method("nothing");
    private static final MethodHandle PLAIN = method("nothing$tare");

    private final LuceneSearcher searcher;
    private long digest;

    private EventCost(LuceneSearcher searcher) {
        this.searcher = searcher;
    }

    static long nothing(int query) {
        return query;
    }

    private static MethodHandle method(String name) {
        try {
            return MethodHandles.lookup()
                    .findStatic(
                            EventCost.class, name, MethodType.methodType(long.class, int.class));
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException("the agent does not time events", error);
        }
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
                for (int query = from; query < from + AT_A_TIME; query++) {
                    digest += searcher.search(query);
                    digest +=
                            which == 0
                                    ? (long) TIMED.invokeExact(query)
                                    : (long) PLAIN.invokeExact(query);
                }
                times[which] += THREADS.getCurrentThreadCpuTime() - before;
            }
        }
        return times;
    }
}
