package tare.events;

import java.io.IOException;
import java.nio.ByteOrder;
import java.nio.LongBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;

/**
 * A file mapped into memory, so that what was written stays however the process ends, and writing
 * allocates nothing.
 *
 * <p>All numbers are 64 bits, little-endian. A head of six: {@link #MAGIC}, the capacity in records,
 * methods that are timed, records that found no room, and two of no meaning. Then records of six:
 * what it is (see {@link Events}), start, wall time and processor time of the thread in ns (0: not
 * known), key, thread. Where the first is 0 there is no record.
 */
final class Records {
    /** "TAREEVT1". */
    static final long MAGIC = 0x3154564545524154L;

    private static final int WORDS = 6;
    private static final int METHODS = 2;
    private static final int DROPPED = 3;

    private final LongBuffer words;
    private final int capacity;
    private final AtomicInteger next = new AtomicInteger();
    private final AtomicLong dropped = new AtomicLong();

    Records(String file, int capacity) throws IOException {
        this.capacity = capacity;
        long bytes = (capacity + 1L) * WORDS * Long.BYTES;
        try (FileChannel channel =
                FileChannel.open(
                        Path.of(file),
                        StandardOpenOption.CREATE,
                        StandardOpenOption.READ,
                        StandardOpenOption.WRITE)) {
            words =
                    channel.map(FileChannel.MapMode.READ_WRITE, 0, bytes)
                            .order(ByteOrder.LITTLE_ENDIAN)
                            .asLongBuffer();
        }
        words.put(0, MAGIC);
        words.put(1, capacity);
    }

    synchronized void addMethod() {
        words.put(METHODS, words.get(METHODS) + 1);
    }

    void add(long what, long start, long wall, long cpu, long key, long thread) {
        int record = next.get();
        if (record >= capacity || (record = next.getAndIncrement()) >= capacity) {
            words.put(DROPPED, dropped.incrementAndGet());
            return;
        }
        int word = (record + 1) * WORDS;
        words.put(word + 1, start);
        words.put(word + 2, wall);
        words.put(word + 3, cpu);
        words.put(word + 4, key);
        words.put(word + 5, thread);
        words.put(word, what);
    }
}
