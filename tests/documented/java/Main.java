import org.example.Search;

/** Makes and drops lists, and keeps the newest few. */
public class Main {
    public static void main(String[] arguments) {
        long found = 0;
        for (int number = 0; number < 3000; number++) {
            found += Search.query(number);
        }
        System.out.println(found);
    }
}
