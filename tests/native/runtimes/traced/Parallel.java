import com.sun.management.ThreadMXBean;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.RecursiveTask;
import java.util.concurrent.atomic.AtomicReferenceArray;
import java.util.concurrent.atomic.LongAdder;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

// Fork and join, a parallel stream, concurrent maps, and objects that go from thread to thread. The
// program counts, by thread, what it makes.
public class Parallel {
    static final int THREADS = 8;
    static class Begin {}
    static class End {}
    static class Made { Object other; }
    static class Boxed {
        final Object shared;
        final int number;
        Boxed(int number) { this.number = number; shared = told; }
    }
    static class Sum extends RecursiveTask<Integer> {
        final int leaves;
        Sum(int leaves) { this.leaves = leaves; }
        @Override
        protected Integer compute() {
            if (leaves == 1) return 1;
            Sum left = sum(leaves / 2);
            left.fork();
            return sum(leaves - leaves / 2).compute() + left.join();
        }
    }
    static final ConcurrentHashMap<String, LongAdder> told = new ConcurrentHashMap<>();
    static final AtomicReferenceArray<Object> places = new AtomicReferenceArray<>(5);
    static final Object[] sinks = new Object[THREADS];
    static final ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();

    static void tell(String what, long count) {
        String name = what + " " + Thread.currentThread().getId();
        told.computeIfAbsent(name, unused -> new LongAdder()).add(count);
    }

    static Sum sum(int leaves) {
        tell("Sum", 1);
        return new Sum(leaves);
    }

    static Boxed box(int number) {
        tell("Boxed", 1);
        return new Boxed(number);
    }

    static void make(int place) {
        tell("Made", 1);
        Made made = new Made();
        made.other = places.getAndSet(place, made);
    }

    static void work(int worker) {
        long thread = Thread.currentThread().getId();
        for (int i = 0; i < 3; i++) threads.getThreadAllocatedBytes(thread);
        sinks[worker] = new Begin();
        long before = threads.getThreadAllocatedBytes(thread);
        for (int i = 0; i < 3000; i++) make((worker + i) % places.length());
        long after = threads.getThreadAllocatedBytes(thread);
        sinks[worker] = new End();
        tell("bytes", after - before);
    }

    public static void main(String[] words) throws Exception {
        // The JVM counts classes that a thread loads among the bytes of its objects.
        Object[] loaded = {Begin.class, End.class, Made.class, Boxed.class, Sum.class};
        sinks[0] = loaded;
        tell("main", 1);
        Thread[] all = new Thread[THREADS];
        for (int i = 0; i < THREADS; i++) {
            int worker = i;
            all[i] = new Thread(() -> work(worker));
        }
        for (Thread each : all) each.start();
        ForkJoinPool pool = new ForkJoinPool(THREADS);
        if (pool.invoke(sum(4096)) != 4096) throw new AssertionError();
        int size = pool.submit(() -> IntStream.range(0, 8000).parallel().mapToObj(Parallel::box)
            .collect(Collectors.toConcurrentMap(each -> each.number, each -> each))).get().size();
        if (size != 8000) throw new AssertionError();
        for (Thread each : all) each.join();
        Files.write(Path.of(words[0]), (Iterable<String>) told.entrySet().stream()
            .map(each -> each.getKey() + " " + each.getValue())::iterator);
    }
}
