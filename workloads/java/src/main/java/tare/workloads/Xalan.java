package tare.workloads;

import java.io.StringReader;
import java.io.StringWriter;
import java.util.SplittableRandom;
import javax.xml.transform.Templates;
import javax.xml.transform.TransformerException;
import javax.xml.transform.stream.StreamResult;
import javax.xml.transform.stream.StreamSource;
import org.apache.xalan.processor.TransformerFactoryImpl;

/** Xalan turns reports in XML into pages, sorted and summed up. The size is their number. */
final class Xalan implements Workload {
    private static final int REPORTS = 40;
    private static final int ENTRIES = 400;
    private static final int VOCABULARY = 3_000;
    private static final String STYLE =
            """
            <xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
              <xsl:output method="html" indent="no"/>
              <xsl:key name="of-kind" match="entry" use="@kind"/>
              <xsl:template match="/report">
                <html><body>
                  <xsl:for-each select="entry[generate-id() = generate-id(key('of-kind', @kind)[1])]">
                    <xsl:sort select="@kind" data-type="number"/>
                    <h1><xsl:value-of select="concat('kind ', @kind)"/></h1>
                    <p><xsl:value-of select="sum(key('of-kind', @kind)/@price)"/></p>
                    <table><xsl:apply-templates select="key('of-kind', @kind)">
                      <xsl:sort select="name"/>
                    </xsl:apply-templates></table>
                  </xsl:for-each>
                </body></html>
              </xsl:template>
              <xsl:template match="entry">
                <tr><td><xsl:value-of select="name"/></td>
                <td><xsl:value-of select="format-number(@price, '#,##0.00')"/></td>
                <td><xsl:value-of select="normalize-space(text)"/></td></tr>
              </xsl:template>
            </xsl:stylesheet>
            """;

    private final Text text = new Text(VOCABULARY);
    private final Templates templates;
    private final int reports;
    private final int threads;
    private final long seed;

    Xalan(Options options) throws TransformerException {
        templates = new TransformerFactoryImpl().newTemplates(new StreamSource(new StringReader(STYLE)));
        reports = options.sizeOr(REPORTS);
        threads = options.threads();
        seed = options.seed();
    }

    @Override
    public long iterate() throws Exception {
        return Parallel.sum(threads, reports, () -> number -> transform(report(number)));
    }

    private long transform(String report) throws TransformerException {
        StringWriter page = new StringWriter();
        StreamSource source = new StreamSource(new StringReader(report));
        templates.newTransformer().transform(source, new StreamResult(page));
        return Digest.of(page.getBuffer());
    }

    private String report(int number) {
        SplittableRandom random = new SplittableRandom(Digest.of(seed, number));
        StringBuilder report = new StringBuilder("<report>");
        for (int entry = 0; entry < ENTRIES; entry++) {
            report.append("<entry kind=\"").append(random.nextInt(20));
            report.append("\" price=\"").append(random.nextInt(100_000) / 4.0).append("\"><name>");
            report.append(text.passage(2, random)).append("</name><text>");
            report.append(text.passage(random.nextInt(5, 40), random)).append("</text></entry>");
        }
        return report.append("</report>").toString();
    }
}
