/** Says what the jar of DaCapo says, and does nothing. */
public class DaCapo {
    public static void main(String[] words) {
        if (words[0].equals("-l")) {
            System.out.println("fop h2");
            return;
        }
        int iterations = Integer.parseInt(words[2]);
        String start = "===== DaCapo 23.11-chopin " + words[0];
        for (int i = 1; i <= iterations; i++) {
            System.err.println(start + " starting =====");
            String end = i < iterations ? " completed warmup " + i + " in " : " PASSED in ";
            System.err.println(start + end + "1200 msec =====");
        }
    }
}
