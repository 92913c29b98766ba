package tare.workloads;

import java.util.List;
import java.util.SplittableRandom;
import net.sourceforge.pmd.PMDConfiguration;
import net.sourceforge.pmd.PmdAnalysis;
import net.sourceforge.pmd.lang.LanguageRegistry;
import net.sourceforge.pmd.lang.document.FileId;
import net.sourceforge.pmd.reporting.Report;
import net.sourceforge.pmd.reporting.RuleViolation;

/** PMD looks for faults in made-up classes, by its quick-start rules. The size is their number. */
final class Pmd implements Workload {
    private static final int CLASSES = 5;
    private static final int METHODS = 40;
    private static final int PARTS = 4;
    private static final List<String> FAULTS =
            List.of(
                    "    if (text.equals(\"NAME\")) sum += 1;\n",
                    "    int NAME = numbers.length;\n",
                    "    for (int NAME : numbers) { sum += NAME; }\n",
                    "    for (int NAME = 0; NAME < numbers.length; NAME++) { sum += numbers[NAME]; }\n",
                    "    try { sum += Integer.parseInt(text); } catch (NumberFormatException NAME) { }\n",
                    "    switch (sum) { case 1: sum = 2; case 2: sum = 3; }\n",
                    "    java.util.List<String> NAME = new java.util.ArrayList<String>();\n"
                            + "    NAME.add(text);\n",
                    "    sum += (numbers.length + (sum));\n",
                    "    while (sum < 0) { sum++; ; }\n",
                    "    boolean NAME = text.isEmpty() ? true : false;\n"
                            + "    if (NAME == true) { sum--; }\n");

    private final int classes;
    private final int threads;
    private final long seed;

    Pmd(Options options) {
        classes = options.sizeOr(CLASSES);
        threads = options.threads();
        seed = options.seed();
    }

    @Override
    public long iterate() {
        PMDConfiguration configuration = new PMDConfiguration();
        configuration.setDefaultLanguageVersion(
                LanguageRegistry.PMD.getLanguageById("java").getVersion("17"));
        configuration.addRuleSet("rulesets/java/quickstart.xml");
        configuration.setIgnoreIncrementalAnalysis(true);
        configuration.setThreads(threads == 1 ? 0 : threads);
        Report report;
        try (PmdAnalysis analysis = PmdAnalysis.create(configuration)) {
            for (int number = 0; number < classes; number++) {
                String name = "Made" + number;
                SplittableRandom random = new SplittableRandom(Digest.of(seed, number));
                FileId file = FileId.fromPathLikeString(name + ".java");
                analysis.files().addSourceFile(file, faulty(name, random));
            }
            report = analysis.performAnalysisAndCollectReport();
        }
        if (!report.getProcessingErrors().isEmpty()) {
            throw new IllegalStateException(report.getProcessingErrors().get(0).getMsg());
        }
        long digest = 0;
        for (RuleViolation violation : report.getViolations()) {
            String rule = violation.getRule().getName() + violation.getFileId().getFileName();
            digest += Digest.of(Digest.of(rule), violation.getBeginLine());
        }
        return Digest.of(digest, report.getViolations().size());
    }

    private static String faulty(String name, SplittableRandom random) {
        StringBuilder source = new StringBuilder("package made;\npublic class " + name + " {\n");
        for (int method = 0; method < METHODS; method++) {
            source.append("  public int m").append(method).append("(String text, int[] numbers) {\n");
            source.append("    int sum = 0;\n");
            for (int part = 0; part < PARTS; part++) {
                String faults = FAULTS.get(random.nextInt(FAULTS.size()));
                source.append(faults.replace("NAME", "n" + part));
            }
            source.append("    return sum;\n  }\n");
        }
        return source.append("}\n").toString();
    }
}
