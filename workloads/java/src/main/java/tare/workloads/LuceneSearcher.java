package tare.workloads;

import java.io.IOException;
import org.apache.lucene.analysis.standard.StandardAnalyzer;
import org.apache.lucene.index.IndexReader;
import org.apache.lucene.index.StoredFields;
import org.apache.lucene.queryparser.classic.ParseException;
import org.apache.lucene.queryparser.classic.QueryParser;
import org.apache.lucene.search.IndexSearcher;
import org.apache.lucene.search.ScoreDoc;
import org.apache.lucene.search.TopDocs;

/** What one thread searches with. */
final class LuceneSearcher {
    private static final int HITS = 10;

    private final String[] queries;
    private final IndexSearcher searcher;
    private final QueryParser parser = new QueryParser(LuceneDocuments.BODY, new StandardAnalyzer());
    private final StoredFields stored;

    LuceneSearcher(IndexReader reader, String[] queries) throws IOException {
        this.queries = queries;
        searcher = new IndexSearcher(reader);
        // Queries come again: a cache of their results would be all that is measured.
        searcher.setQueryCache(null);
        stored = reader.storedFields();
    }

    /** One query, by its number; returns a digest of what it found. */
    long search(int query) throws IOException, ParseException {
        TopDocs found = searcher.search(parser.parse(queries[query]), HITS);
        long digest = Digest.of(query, found.totalHits.value);
        for (ScoreDoc hit : found.scoreDocs) {
            digest += Digest.of(stored.document(hit.doc).get("number"));
        }
        return digest;
    }
}
