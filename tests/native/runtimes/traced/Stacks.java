import java.util.concurrent.CountDownLatch;

// A class is loaded while two threads are in `either`, whose compiled code relied on there being no
// such class. It is thrown out, and both threads then have the same place in it.
public class Stacks {
    static class Made {}
    static class Quiet { int step() { return 1; } }
    static class Loud extends Quiet { int step() { return 2; } }
    static final CountDownLatch arrived = new CountDownLatch(2);
    static final CountDownLatch loaded = new CountDownLatch(1);
    static Quiet quiet = new Quiet();
    static volatile boolean waits;
    static Object sink;

    static void hold() throws InterruptedException {
        if (waits) {
            arrived.countDown();
            loaded.await();
        }
        for (int i = 0; i < 4; i++) sink = new Made();
    }

    static int either(boolean first) throws InterruptedException {
        if (first) hold();
        else hold();
        return quiet.step();
    }

    static int deep(int depth, boolean first) throws InterruptedException {
        return depth == 0 ? either(first) : deep(depth - 1, first) + 1;
    }

    static void run(boolean first) {
        try {
            deep(24, first);
        } catch (InterruptedException interrupted) {
            throw new AssertionError(interrupted);
        }
    }

    public static void main(String[] words) throws Exception {
        sink = new Object();
        for (int i = 0; i < 6000; i++) run(i % 3 == 0);
        waits = true;
        Thread one = new Thread(() -> run(true));
        Thread other = new Thread(() -> run(false));
        one.start();
        other.start();
        arrived.await();
        quiet = new Loud();
        loaded.countDown();
        one.join();
        other.join();
    }
}
