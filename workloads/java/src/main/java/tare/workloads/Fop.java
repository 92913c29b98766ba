package tare.workloads;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.StringReader;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.Date;
import java.util.SplittableRandom;
import java.util.logging.Level;
import java.util.logging.Logger;
import java.util.regex.Pattern;
import javax.xml.transform.TransformerException;
import javax.xml.transform.TransformerFactory;
import javax.xml.transform.sax.SAXResult;
import javax.xml.transform.stream.StreamSource;
import org.apache.fop.apps.FOPException;
import org.apache.fop.apps.FOUserAgent;
import org.apache.fop.apps.FopFactory;
import org.apache.fop.apps.MimeConstants;

/** FOP makes made-up documents into PDF, in the fonts that every reader has. The size is their number. */
final class Fop implements Workload {
    private static final int DOCUMENTS = 12;
    private static final int CHAPTERS = 6;
    private static final int VOCABULARY = 3_000;
    private static final Pattern NOW = Pattern.compile("<xmp:MetadataDate>[^<]*");
    private static final Logger LOGGER = Logger.getLogger("org.apache.fop");

    private final Text text = new Text(VOCABULARY);
    private final FopFactory factory = FopFactory.newInstance(URI.create("file:/"));
    private final int documents;
    private final int threads;
    private final long seed;

    Fop(Options options) {
        LOGGER.setLevel(Level.SEVERE);
        documents = options.sizeOr(DOCUMENTS);
        threads = options.threads();
        seed = options.seed();
    }

    @Override
    public long iterate() throws Exception {
        return Parallel.sum(threads, documents, () -> this::print);
    }

    private long print(int number) throws FOPException, TransformerException, IOException {
        FOUserAgent agent = factory.newFOUserAgent();
        agent.setCreationDate(new Date(0));
        ByteArrayOutputStream pages = new ByteArrayOutputStream();
        org.apache.fop.apps.Fop fop = factory.newFop(MimeConstants.MIME_PDF, agent, pages);
        TransformerFactory.newDefaultInstance()
                .newTransformer()
                .transform(
                        new StreamSource(new StringReader(document(number))),
                        new SAXResult(fop.getDefaultHandler()));
        String written = pages.toString(StandardCharsets.ISO_8859_1);
        // The trailer holds an identifier drawn at random.
        String body = written.substring(0, written.lastIndexOf("trailer"));
        return Digest.of(NOW.matcher(body).replaceFirst(""));
    }

    private String document(int number) {
        SplittableRandom random = new SplittableRandom(Digest.of(seed, number));
        StringBuilder document =
                new StringBuilder(
                        """
                        <fo:root xmlns:fo="http://www.w3.org/1999/XSL/Format" font-family="Times">
                        <fo:layout-master-set><fo:simple-page-master master-name="page"
                          page-width="210mm" page-height="297mm" margin="20mm">
                        <fo:region-body column-count="2"/></fo:simple-page-master></fo:layout-master-set>
                        <fo:page-sequence master-reference="page"><fo:flow flow-name="xsl-region-body">
                        """);
        for (int chapter = 0; chapter < CHAPTERS; chapter++) {
            document.append("<fo:block font-size=\"16pt\" space-before=\"12pt\" span=\"all\">");
            document.append(text.passage(4, random)).append("</fo:block>");
            for (int paragraph = 0; paragraph < 4; paragraph++) {
                document.append("<fo:block text-align=\"justify\" space-after=\"6pt\">");
                document.append(text.passage(random.nextInt(60, 200), random)).append("</fo:block>");
            }
            table(document, random);
        }
        return document.append("</fo:flow></fo:page-sequence></fo:root>").toString();
    }

    private void table(StringBuilder document, SplittableRandom random) {
        document.append("<fo:table table-layout=\"fixed\" width=\"100%\"><fo:table-body>");
        for (int row = 0; row < 12; row++) {
            document.append("<fo:table-row>");
            for (int column = 0; column < 3; column++) {
                document.append("<fo:table-cell border=\"0.5pt solid black\"><fo:block>");
                document.append(text.passage(2, random)).append("</fo:block></fo:table-cell>");
            }
            document.append("</fo:table-row>");
        }
        document.append("</fo:table-body></fo:table>");
    }
}
