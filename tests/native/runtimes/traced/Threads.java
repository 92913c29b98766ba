public class Threads {
    static class Made { Object other; }
    static volatile Object sink;

    public static void main(String[] words) throws Exception {
        Thread[] all = new Thread[4];
        for (int i = 0; i < all.length; i++) {
            all[i] = new Thread(() -> {
                Made last = null;
                for (int j = 0; j < 5000; j++) {
                    Made made = new Made();
                    made.other = last;
                    last = j % 100 == 0 ? null : made;
                    sink = made;
                }
            });
            all[i].start();
        }
        for (Thread each : all) each.join();
    }
}
