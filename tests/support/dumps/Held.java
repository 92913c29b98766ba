import java.util.ArrayList;
import java.util.List;

class Held {
    static final List<byte[]> kept = new ArrayList<>();
    static Object sink;

    static void keep() {
        kept.add(new byte[2048]);
    }

    static void drop() {
        sink = new int[500];
    }

    public static void main(String[] words) {
        for (int i = 0; i < 5000; i++) {
            keep();
            for (int j = 0; j < 20; j++) drop();
        }
    }
}
