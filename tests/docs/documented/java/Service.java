import org.example.Search;

/** Fewer queries, each of so much that collections stop them. */
public class Service {
    public static void main(String[] arguments) {
        long found = 0;
        for (int number = 0; number < 6_000; number++) {
            found += Search.query(number, 50);
        }
        System.out.println(found);
    }
}
