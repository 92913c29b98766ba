package tare.workloads;

import java.nio.file.Path;

/**
 * What the command line asks for. Where {@code size} is 0 the workload has its own; {@code data}
 * and {@code times} may be null.
 */
record Options(String workload, int iterations, int threads, int size, long seed, Path data, Path times) {
    static final String USAGE =
            """
            usage: java -jar tare-workloads.jar WORKLOAD [--iterations N] [--threads N] [--size N]
                   [--seed N] [--data FOLDER] [--times FILE]
            """;
    static final String TIMES_VARIABLE = "TARE_ITERATIONS";

    int sizeOr(int usual) {
        return size == 0 ? usual : size;
    }

    /** Throws IllegalArgumentException where the arguments are wrong. */
    static Options parse(String[] arguments) {
        if (arguments.length == 0) {
            throw new IllegalArgumentException("no workload is named");
        }
        int iterations = 1;
        int threads = 1;
        int size = 0;
        long seed = 1;
        Path data = null;
        String named = System.getenv(TIMES_VARIABLE);
        Path times = named == null || named.isEmpty() ? null : Path.of(named);
        for (int i = 1; i < arguments.length; i += 2) {
            String option = arguments[i];
            if (i + 1 == arguments.length) {
                throw new IllegalArgumentException(option + ": nothing follows");
            }
            String value = arguments[i + 1];
            switch (option) {
                case "--iterations" -> iterations = positive(option, value);
                case "--threads" -> threads = positive(option, value);
                case "--size" -> size = positive(option, value);
                case "--seed" -> seed = whole(option, value);
                case "--data" -> data = Path.of(value);
                case "--times" -> times = Path.of(value);
                default -> throw new IllegalArgumentException(option + ": no such option");
            }
        }
        return new Options(arguments[0], iterations, threads, size, seed, data, times);
    }

    private static int positive(String option, String value) {
        long number = whole(option, value);
        if (number < 1 || number > Integer.MAX_VALUE) {
            throw new IllegalArgumentException(option + ": " + value + " is out of range");
        }
        return (int) number;
    }

    private static long whole(String option, String value) {
        try {
            return Long.parseLong(value);
        } catch (NumberFormatException error) {
            throw new IllegalArgumentException(option + ": " + value + " is no whole number", error);
        }
    }
}
