import org.example.Search;

public class Main {
    public static void main(String[] arguments) {
        long found = 0;
        for (int number = 0; number < 3_000; number++) {
            found += Search.query(number, 1);
        }
        System.out.println(found);
    }
}
