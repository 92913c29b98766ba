package tare.workloads;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.SplittableRandom;
import java.util.StringJoiner;
import org.apache.lucene.index.DirectoryReader;
import org.apache.lucene.index.IndexReader;
import org.apache.lucene.index.IndexWriter;
import org.apache.lucene.store.Directory;
import org.apache.lucene.store.FSDirectory;

/**
 * Lucene searches an index in files for 2,048 distinct queries, again and again. The size is the
 * number of searches; the index has no more documents than that. It is made first, or taken from the
 * folder of data, where it is kept.
 */
final class LuceneSearch implements Workload {
    private static final int SEARCHES = 16_384;
    private static final int MOST_DOCUMENTS = 5_000;
    private static final int QUERIES = 2_048;
    /** More frequent words than this rank are in nearly every document. */
    private static final int RAREST_COMMON = 200;

    private final Path temporary;
    private final Directory directory;
    private final IndexReader reader;
    private final String[] queries = new String[QUERIES];
    private final int searches;
    private final int threads;

    LuceneSearch(Options options) throws IOException {
        LuceneDocuments documents = new LuceneDocuments(options.seed());
        temporary = options.data() == null ? Files.createTempDirectory("tare-lucene-") : null;
        Path folder = options.data() == null ? temporary : options.data();
        searches = options.sizeOr(SEARCHES);
        int count = Math.min(searches, MOST_DOCUMENTS);
        directory = FSDirectory.open(prepared(folder, documents, count, options.seed()));
        reader = DirectoryReader.open(directory);
        SplittableRandom random = new SplittableRandom(options.seed());
        for (int query = 0; query < QUERIES; query++) {
            queries[query] = make(documents.text(), random);
        }
        threads = options.threads();
    }

    /** The folder of the index, which is made where it is not there. */
    private static Path prepared(Path folder, LuceneDocuments documents, int count, long seed)
            throws IOException {
        Path index = folder.resolve("lucene-" + count + "-" + seed);
        if (Files.isDirectory(index)) {
            return index;
        }
        Files.createDirectories(folder);
        Path work = Files.createTempDirectory(folder, ".lucene-");
        try (Directory directory = FSDirectory.open(work);
                IndexWriter writer = LuceneDocuments.writer(directory)) {
            for (int number = 0; number < count; number++) {
                writer.addDocument(documents.document(number));
            }
            writer.forceMerge(1);
        }
        Files.move(work, index, StandardCopyOption.ATOMIC_MOVE);
        return index;
    }

    private static String make(Text text, SplittableRandom random) {
        int words = random.nextInt(1, 4);
        StringJoiner query = new StringJoiner(" ");
        for (int i = 0; i < words; i++) {
            int rank;
            do {
                rank = text.draw(random);
            } while (rank < RAREST_COMMON);
            boolean required = words > 1 && random.nextInt(3) == 0;
            query.add((required ? "+" : "") + text.word(rank));
        }
        return query.toString();
    }

    @Override
    public long iterate() throws Exception {
        return Parallel.sum(threads, searches, this::worker);
    }

    private Parallel.Worker worker() throws IOException {
        LuceneSearcher searcher = new LuceneSearcher(reader, queries);
        return number -> searcher.search(queryAt(number));
    }

    @Override
    public void close() throws IOException {
        reader.close();
        directory.close();
        if (temporary != null) {
            Folders.delete(temporary);
        }
    }

    /** Each query comes once in every 2,048 searches, in an order that changes from round to round. */
    private static int queryAt(int number) {
        int round = number / QUERIES;
        int place = number % QUERIES;
        long mixed = Digest.of(round, 0);
        int factor = (int) mixed | 1;
        return (int) (factor * (long) place + (mixed >>> 32)) & (QUERIES - 1);
    }
}
