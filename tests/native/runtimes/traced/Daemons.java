import java.util.concurrent.CountDownLatch;

// Threads that allocate until the JVM is gone.
public class Daemons {
    static volatile Object sink;

    public static void main(String[] words) throws Exception {
        CountDownLatch busy = new CountDownLatch(6);
        for (int i = 0; i < 6; i++) {
            Thread made = new Thread(() -> {
                for (int j = 0; j < 2000; j++) sink = new Object();
                busy.countDown();
                while (true) sink = new Object();
            });
            made.setDaemon(true);
            made.start();
        }
        busy.await();
    }
}
