package tare.workloads;

import com.sun.management.OperatingSystemMXBean;
import java.io.IOException;
import java.io.PrintWriter;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.util.List;

/** Runs a workload, checks that its iterations agree, and reports how long each took. */
public final class Main {
    private static final int FAILED = 1;
    private static final int WRONG_USAGE = 2;
    private static final List<String> NAMES =
            List.of(
                    "batik",
                    "biojava",
                    "fop",
                    "graph",
                    "h2",
                    "jdt",
                    "jython",
                    "lucene-index",
                    "lucene-search",
                    "pmd",
                    "tomcat",
                    "xalan",
                    "zxing");

    private Main() {}

    public static void main(String[] arguments) throws Exception {
        Options options;
        try {
            options = Options.parse(arguments);
            if (!NAMES.contains(options.workload())) {
                throw new IllegalArgumentException(options.workload() + ": no such workload");
            }
        } catch (IllegalArgumentException error) {
            System.err.print(error.getMessage() + "\n" + Options.USAGE);
            System.err.println("workloads: " + String.join(" ", NAMES));
            System.exit(WRONG_USAGE);
            return;
        }
        // Threads that a library leaves behind must not keep the process.
        System.exit(run(options));
    }

    private static Workload open(Options options) throws Exception {
        return switch (options.workload()) {
            case "batik" -> new Batik(options);
            case "biojava" -> new BioJava(options);
            case "fop" -> new Fop(options);
            case "graph" -> new Graph(options);
            case "h2" -> new H2(options);
            case "jdt" -> new Jdt(options);
            case "jython" -> new Jython(options);
            case "lucene-index" -> new LuceneIndex(options);
            case "lucene-search" -> new LuceneSearch(options);
            case "pmd" -> new Pmd(options);
            case "tomcat" -> new TomcatServer(options);
            case "xalan" -> new Xalan(options);
            case "zxing" -> new ZXing(options);
            default -> throw new IllegalArgumentException(options.workload());
        };
    }

    private static int run(Options options) throws Exception {
        long digest = 0;
        try (PrintWriter times = openTimes(options);
                Workload workload = open(options)) {
            for (int iteration = 0; iteration < options.iterations(); iteration++) {
                long cpu = cpuNanos();
                long start = System.nanoTime();
                long found = workload.iterate();
                long end = System.nanoTime();
                if (times != null) {
                    times.println(iteration + "," + start + "," + end + "," + (cpuNanos() - cpu));
                    times.flush();
                }
                if (iteration > 0 && found != digest) {
                    System.err.printf(
                            "%s: iteration %d gave %016x instead of %016x%n",
                            options.workload(), iteration, found, digest);
                    return FAILED;
                }
                digest = found;
            }
        }
        System.out.printf(
                "%s: %d iterations, digest %016x%n", options.workload(), options.iterations(), digest);
        return 0;
    }

    private static PrintWriter openTimes(Options options) throws IOException {
        if (options.times() == null) {
            return null;
        }
        PrintWriter times = new PrintWriter(Files.newBufferedWriter(options.times()));
        times.println("iteration,start_ns,end_ns,cpu_ns");
        return times;
    }

    private static long cpuNanos() {
        return ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class).getProcessCpuTime();
    }
}
