public class Lives {
    static class Kept { Kept next; }
    static class Dropped { Dropped next; }
    static class Garbage { long a, b, c; }
    static class Filler { long a, b, c, d; }
    static Kept kept;
    static Dropped dropped;
    static Object sink;

    static void fill(int count) {
        for (int i = 0; i < count; i++) sink = new Filler();
    }

    public static void main(String[] words) {
        for (int i = 0; i < 1000; i++) {
            Kept k = new Kept(); k.next = kept; kept = k;
            Dropped d = new Dropped(); d.next = dropped; dropped = d;
        }
        fill(20000);
        dropped = null;
        fill(20000);
        for (int i = 0; i < 1000; i++) sink = new Garbage();
        fill(20000);
    }
}
