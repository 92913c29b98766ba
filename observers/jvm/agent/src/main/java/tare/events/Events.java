package tare.events;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.concurrent.locks.LockSupport;

/** What timed methods call. Of calls inside one another on a thread only the outermost counts. */
public final class Events {
    private static final int EVENT = 1;
    private static final int SPIN = 2;
    private static final int PARK = 3;
    private static final int SAFEPOINT = 4;
    private static final int KINDS_OF_PAUSES = 3;

    /**
     * To read a thread's processor time is a call of the kernel, and dear: it costs more than all
     * else here. So it is read for each so many events in a row, and then not for some blocks.
     */
    private static final int BLOCK = 64;

    private static final int BLOCKS_TO_ONE_READ = 4;

    /** Between two events that are no farther apart than this the thread did not rest. */
    private static final long NO_REST_NANOS = 5_000;

    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
    private static final ThreadLocal<Timer> TIMERS = ThreadLocal.withInitial(Timer::new);

    private static Records records;
    private static int every;
    private static long length;

    private Events() {}

    /** Before any timed method is called. */
    static void open(Records into, Settings settings) {
        records = into;
        every = settings.every;
        length = settings.length;
    }

    /** A timed method begins; {@code key} says which events do the same. */
    public static Timer begin(long key) {
        Timer timer = TIMERS.get();
        timer.begin(key);
        return timer;
    }

    /** The key of an event that is told apart by a text. */
    public static long key(String text) {
        return text == null ? 0 : text.hashCode();
    }

    /** The events of one thread. */
    public static final class Timer {
        private final long thread = threadNumber();
        private int depth;
        private long count;
        private boolean readsCpu;
        private long key;
        private long start;
        private long cpu;
        private long lastRead;
        private long lastCpu;

        private void begin(long newKey) {
            if (depth++ == 0) {
                key = newKey;
                readsCpu = count / BLOCK % BLOCKS_TO_ONE_READ == 0;
                start = System.nanoTime();
                if (!readsCpu) {
                    return;
                }
                if (start - lastRead < NO_REST_NANOS) {
                    cpu = lastCpu + (start - lastRead);
                } else {
                    cpu = THREADS.getCurrentThreadCpuTime();
                    start = System.nanoTime();
                }
            }
        }

        /** The timed method ends, however it does. */
        public void end() {
            if (--depth == 0) {
                long end = System.nanoTime();
                long used = 0;
                if (readsCpu) {
                    lastCpu = THREADS.getCurrentThreadCpuTime();
                    lastRead = System.nanoTime();
                    // Of a virtual thread it is not known: the clock says -1.
                    used = lastCpu < 0 ? 0 : Math.max(lastCpu - cpu, 1);
                }
                records.add(EVENT, start, end - start, used, key, thread);
                count++;
                if (every > 0 && count % every == 0) {
                    pause(SPIN + (int) (count / every % KINDS_OF_PAUSES));
                }
            }
        }

        private void pause(int kind) {
            long begun = System.nanoTime();
            long until = begun + length;
            switch (kind) {
                case SPIN:
                    while (System.nanoTime() < until) {}
                    break;
                case PARK:
                    LockSupport.parkNanos(length);
                    break;
                case SAFEPOINT:
                    // Stops all threads, looks at their locks, and allocates nothing.
                    do {
                        THREADS.findMonitorDeadlockedThreads();
                    } while (System.nanoTime() < until);
                    break;
                default:
                    throw new IllegalArgumentException("a pause of kind " + kind);
            }
            records.add(kind, begun, System.nanoTime() - begun, 0, 0, thread);
        }

        // Thread.getId() is deprecated from Java 19 on, and its successor is not in Java 11.
        @SuppressWarnings("deprecation")
        private static long threadNumber() {
            return Thread.currentThread().getId();
        }
    }
}
