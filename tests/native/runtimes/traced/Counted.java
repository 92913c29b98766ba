import com.sun.management.ThreadMXBean;
import java.lang.management.ManagementFactory;

public class Counted {
    static class Begin {}
    static class End {}
    static Object sink;

    public static void main(String[] words) throws Exception {
        ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
        long thread = Thread.currentThread().getId();
        for (int i = 0; i < 3; i++) {
            threads.getThreadAllocatedBytes(thread);
        }
        sink = new Begin();
        long before = threads.getThreadAllocatedBytes(thread);
        for (int i = 0; i < 20000; i++) {
            sink = new byte[i % 300];
            sink = new Object[i % 7];
            sink = Integer.valueOf(1000 + i);
            sink = new int[2][3];
            sink = new StringBuilder("text").append(i).toString();
        }
        long after = threads.getThreadAllocatedBytes(thread);
        sink = new End();
        java.nio.file.Files.writeString(java.nio.file.Path.of(words[0]), "" + (after - before));
    }
}
