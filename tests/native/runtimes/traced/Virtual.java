import java.lang.reflect.Method;

// By reflection, for compilers of before Java 21.
public class Virtual {
    static class Made {}
    static volatile Object sink;
    static final Object lock = new Object();

    static void make() {
        for (int i = 0; i < 500; i++) {
            sink = new Made();
            if (i % 10 == 0) {
                synchronized (lock) { sink.hashCode(); }
                Thread.yield();
            }
        }
    }

    static void deep(int depth) {
        if (depth == 0) make(); else deep(depth - 1);
    }

    public static void main(String[] words) throws Exception {
        Method start = Thread.class.getMethod("startVirtualThread", Runnable.class);
        StringBuilder ids = new StringBuilder();
        Thread[] all = new Thread[8];
        for (int i = 0; i < all.length; i++) {
            int depth = 10 * (i % 2);
            all[i] = (Thread) start.invoke(null, (Runnable) () -> deep(depth));
            ids.append(all[i].getId()).append(' ');
        }
        for (Thread each : all) each.join();
        java.nio.file.Files.writeString(java.nio.file.Path.of(words[0]), ids);
    }
}
