package tare.workloads;

import java.io.IOException;
import java.util.SplittableRandom;
import org.apache.lucene.analysis.standard.StandardAnalyzer;
import org.apache.lucene.document.Document;
import org.apache.lucene.document.Field;
import org.apache.lucene.document.StringField;
import org.apache.lucene.document.TextField;
import org.apache.lucene.index.IndexWriter;
import org.apache.lucene.index.IndexWriterConfig;
import org.apache.lucene.index.SerialMergeScheduler;
import org.apache.lucene.store.Directory;

/** Documents of made-up text for Lucene; each follows from the seed and its number. */
final class LuceneDocuments {
    static final String BODY = "body";
    static final int VOCABULARY = 60_000;
    private static final int FEWEST_WORDS = 100;
    private static final int MOST_WORDS = 400;

    private final Text text = new Text(VOCABULARY);
    private final long seed;

    LuceneDocuments(long seed) {
        this.seed = seed;
    }

    Text text() {
        return text;
    }

    Document document(int number) {
        SplittableRandom random = new SplittableRandom(Digest.of(seed, number));
        Document document = new Document();
        document.add(new StringField("number", Integer.toString(number), Field.Store.YES));
        String body = text.passage(random.nextInt(FEWEST_WORDS, MOST_WORDS), random);
        document.add(new TextField(BODY, body, Field.Store.NO));
        return document;
    }

    /** A writer that merges in its own thread: the same calls give the same index. */
    static IndexWriter writer(Directory directory) throws IOException {
        IndexWriterConfig config = new IndexWriterConfig(new StandardAnalyzer());
        config.setOpenMode(IndexWriterConfig.OpenMode.CREATE);
        config.setMergeScheduler(new SerialMergeScheduler());
        return new IndexWriter(directory, config);
    }
}
