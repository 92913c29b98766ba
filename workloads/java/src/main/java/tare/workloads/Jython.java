package tare.workloads;

import java.util.Properties;
import java.util.SplittableRandom;
import org.python.core.Py;
import org.python.core.PyObject;
import org.python.util.PythonInterpreter;

/** Jython runs a program in Python that counts and sorts words and evaluates formulas. */
final class Jython implements Workload {
    private static final int TEXTS = 24;
    private static final int VOCABULARY = 3_000;
    private static final int WORDS = 4_000;
    private static final String SCRIPT =
            """
            class Formula(object):
                def __init__(self, operator, left, right):
                    self.operator, self.left, self.right = operator, left, right

                def value(self, names):
                    left, right = self.left.value(names), self.right.value(names)
                    if self.operator == '+':
                        return (left + right) % 1000003
                    return left * right % 1000003

            class Name(object):
                def __init__(self, name):
                    self.name = name

                def value(self, names):
                    return names[self.name]

            def formula(words, low, high):
                if high - low == 1:
                    return Name(words[low])
                middle = (low + high) // 2
                operator = '+' if len(words[middle]) % 2 else '*'
                return Formula(operator, formula(words, low, middle), formula(words, middle, high))

            def work(text):
                counts = {}
                for word in text.replace('.', '').split():
                    counts[word] = counts.get(word, 0) + 1
                ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
                lines = ['%5d %s' % (count, word) for word, count in ranked]
                names = dict((word, count + len(word)) for word, count in ranked)
                total = formula([word for word, _ in ranked], 0, len(ranked)).value(names)
                return '%d\\n%s' % (total, '\\n'.join(lines))
            """;

    private final Text text = new Text(VOCABULARY);
    private final PythonInterpreter python;
    private final PyObject work;
    private final int texts;
    private final int threads;
    private final long seed;

    Jython(Options options) {
        Properties properties = new Properties();
        properties.setProperty("python.import.site", "false");
        properties.setProperty("python.cachedir.skip", "true");
        // Otherwise it starts a process to ask for it.
        properties.setProperty("python.console.encoding", "UTF-8");
        PythonInterpreter.initialize(System.getProperties(), properties, new String[0]);
        python = new PythonInterpreter();
        python.exec(SCRIPT);
        work = python.get("work");
        texts = options.sizeOr(TEXTS);
        threads = options.threads();
        seed = options.seed();
    }

    @Override
    public long iterate() throws Exception {
        return Parallel.sum(threads, texts, () -> this::count);
    }

    private long count(int number) {
        SplittableRandom random = new SplittableRandom(Digest.of(seed, number));
        PyObject words = Py.newString(text.passage(WORDS, random));
        return Digest.of(work.__call__(words).toString());
    }

    @Override
    public void close() {
        python.close();
    }
}
