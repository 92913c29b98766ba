package tare.workloads;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** Shares the items of an iteration out to threads: the same items to the same thread each time. */
final class Parallel {
    /** What one thread does with each of its items; returns a digest. */
    interface Worker {
        long item(int number) throws Exception;
    }

    private Parallel() {}

    /** The sum of the digests of all items; each thread has a worker of its own. */
    static long sum(int threads, int items, Callable<Worker> workers) throws Exception {
        if (threads == 1) {
            return sumEvery(1, 0, items, workers.call());
        }
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        try {
            List<Future<Long>> parts = new ArrayList<>();
            for (int thread = 0; thread < threads; thread++) {
                int first = thread;
                parts.add(pool.submit(() -> sumEvery(threads, first, items, workers.call())));
            }
            long sum = 0;
            for (Future<Long> part : parts) {
                sum += part.get();
            }
            return sum;
        } finally {
            pool.shutdownNow();
        }
    }

    private static long sumEvery(int step, int first, int items, Worker worker) throws Exception {
        long sum = 0;
        for (int item = first; item < items; item += step) {
            sum += worker.item(item);
        }
        return sum;
    }
}
