// Its threads allocate already while the recording begins.
public class Early {
    static volatile Object[] sinks = new Object[6];
    static volatile boolean isOver;

    public static void premain(String words) {
        for (int i = 0; i < sinks.length; i++) {
            int sink = i;
            Thread made = new Thread(() -> {
                for (int size = 0; !isOver; size = (size + 8) % 20000) sinks[sink] = new byte[size];
            });
            made.setDaemon(true);
            made.start();
        }
    }

    public static void main(String[] words) {
        isOver = true;
    }
}
