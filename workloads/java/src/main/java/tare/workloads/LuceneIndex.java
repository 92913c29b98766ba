package tare.workloads;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.lucene.index.DirectoryReader;
import org.apache.lucene.index.IndexReader;
import org.apache.lucene.index.IndexWriter;
import org.apache.lucene.store.Directory;
import org.apache.lucene.store.FSDirectory;

/** Lucene indexes documents into files. The size is their number. */
final class LuceneIndex implements Workload {
    private static final int DOCUMENTS = 1_000;

    private final LuceneDocuments documents;
    private final int count;
    private final int threads;

    LuceneIndex(Options options) {
        documents = new LuceneDocuments(options.seed());
        count = options.sizeOr(DOCUMENTS);
        threads = options.threads();
    }

    @Override
    public long iterate() throws Exception {
        Path folder = Files.createTempDirectory("tare-lucene-");
        try (Directory directory = FSDirectory.open(folder)) {
            try (IndexWriter writer = LuceneDocuments.writer(directory)) {
                Parallel.sum(threads, count, () -> number -> writer.addDocument(documents.document(number)));
            }
            return digest(directory);
        } finally {
            Folders.delete(folder);
        }
    }

    private static long digest(Directory directory) throws IOException {
        try (IndexReader reader = DirectoryReader.open(directory)) {
            return Digest.of(reader.numDocs(), reader.getSumTotalTermFreq(LuceneDocuments.BODY));
        }
    }
}
