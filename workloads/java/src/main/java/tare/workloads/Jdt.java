package tare.workloads;

import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.SplittableRandom;
import org.eclipse.jdt.core.compiler.batch.BatchCompiler;

/** The compiler of Eclipse compiles made-up classes. The size is their number. */
final class Jdt implements Workload {
    private static final int CLASSES = 6;
    private static final int METHODS = 120;

    private final int classes;
    private final int threads;
    private final long seed;

    Jdt(Options options) {
        classes = options.sizeOr(CLASSES);
        threads = options.threads();
        seed = options.seed();
    }

    @Override
    public long iterate() throws Exception {
        return Parallel.sum(threads, classes, () -> this::compile);
    }

    private long compile(int number) throws IOException {
        Path folder = Files.createTempDirectory("tare-jdt-");
        try {
            String name = "Made" + number;
            Path source = folder.resolve(name + ".java");
            Files.writeString(source, source(name, number));
            StringWriter said = new StringWriter();
            PrintWriter out = new PrintWriter(said);
            String command = "-17 -nowarn -proc:none -d \"" + folder + "\" \"" + source + "\"";
            if (!BatchCompiler.compile(command, out, out, null)) {
                throw new IllegalStateException(said.toString());
            }
            return Digest.of(Files.readAllBytes(folder.resolve(name + ".class")));
        } finally {
            Folders.delete(folder);
        }
    }

    private String source(String name, int number) {
        SplittableRandom random = new SplittableRandom(Digest.of(seed, number));
        StringBuilder source = new StringBuilder("import java.util.*;\npublic class " + name + " {\n");
        source.append("  private final Map<String, List<Integer>> found = new TreeMap<>();\n");
        for (int method = 0; method < METHODS; method++) {
            int called = random.nextInt(method + 1);
            source.append("  int m").append(method).append("(int n, String text) {\n    int sum = ");
            source.append(random.nextInt(1000)).append(";\n    for (int i = 0; i < n; i++) {\n");
            source.append("      sum += i % ").append(random.nextInt(1, 50)).append(" == 0 ? i : -i;\n");
            source.append("      found.computeIfAbsent(text + i, key -> new ArrayList<>()).add(sum);\n");
            source.append("    }\n    return n > 0 ? sum + m").append(called);
            source.append("(n - 1, text.trim()) : found.values().stream()");
            source.append(".mapToInt(List::size).filter(size -> size > sum(").append(called);
            source.append(")).sum();\n  }\n");
        }
        return source.append("  static int sum(int of) { return of; }\n}\n").toString();
    }
}
