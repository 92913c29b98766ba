public class Endless {
    static Object sink;
    public static void main(String[] words) throws Exception {
        for (int i = 0; i < 30000; i++) sink = new long[4];
        Runtime.getRuntime().exec(new String[] {"kill", "-9", "" + ProcessHandle.current().pid()});
        for (;;) Thread.sleep(1000);
    }
}
