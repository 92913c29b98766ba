/** Says what the jar of Renaissance says, and does nothing. */
public class Renaissance {
    public static void main(String[] words) {
        if (words[0].equals("--raw-list")) {
            System.out.println("als");
            return;
        }
        for (int i = 0; i < Integer.parseInt(words[2]); i++) {
            String start = "====== " + words[0] + " (apache-spark) [default], iteration " + i;
            System.out.println(start + " started ======");
            System.out.println(start + " completed (1234.500 ms) ======");
        }
    }
}
