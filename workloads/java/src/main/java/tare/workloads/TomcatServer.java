package tare.workloads;

import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.TreeMap;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.apache.catalina.Context;
import org.apache.catalina.LifecycleException;
import org.apache.catalina.startup.Tomcat;

/** Tomcat serves pages made for each request, to clients in the same process. */
final class TomcatServer implements Workload {
    private static final int REQUESTS = 1_500;
    private static final int VOCABULARY = 3_000;
    private static final int ROWS = 40;
    private static final int OK = 200;
    private static final Logger LOGGER = Logger.getLogger("org.apache");

    private final Text text = new Text(VOCABULARY);
    private final Tomcat tomcat = new Tomcat();
    private final Path folder;
    private final int requests;
    private final int threads;
    private final long seed;

    TomcatServer(Options options) throws IOException, LifecycleException {
        this(options, 0);
    }

    private TomcatServer(Options options, int port) throws IOException, LifecycleException {
        LOGGER.setLevel(Level.SEVERE);
        requests = options.sizeOr(REQUESTS);
        threads = options.threads();
        seed = options.seed();
        folder = Files.createTempDirectory("tare-tomcat-");
        tomcat.setBaseDir(folder.toString());
        tomcat.setPort(port);
        tomcat.getConnector().setProperty("address", "127.0.0.1");
        Context context = tomcat.addContext("", folder.toString());
        Tomcat.addServlet(context, "pages", new Pages());
        context.addServletMappingDecoded("/pages/*", "pages");
        tomcat.start();
    }

    /** The server alone, until a signal ends it. TomcatServer PORT */
    public static void main(String[] arguments) throws IOException, LifecycleException {
        Options options = Options.parse(new String[] {"tomcat"});
        new TomcatServer(options, Integer.parseInt(arguments[0])).tomcat.getServer().await();
    }

    @Override
    public long iterate() throws Exception {
        return Parallel.sum(threads, requests, this::client);
    }

    private Parallel.Worker client() {
        HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
        String address = "http://127.0.0.1:" + tomcat.getConnector().getLocalPort() + "/pages/";
        return number -> {
            HttpRequest request =
                    HttpRequest.newBuilder(URI.create(address + number + "?seed=" + seed)).build();
            HttpResponse<String> answer = client.send(request, HttpResponse.BodyHandlers.ofString());
            if (answer.statusCode() != OK) {
                throw new IllegalStateException("request " + number + ": " + answer.statusCode());
            }
            return Digest.of(answer.body());
        };
    }

    @Override
    public void close() throws IOException {
        try {
            tomcat.stop();
            tomcat.destroy();
        } catch (LifecycleException error) {
            throw new IOException(error);
        }
        Folders.delete(folder);
    }

    /** Pages with a table, sorted by its first column; the request says which. */
    private final class Pages extends HttpServlet {
        private static final long serialVersionUID = 1;

        @Override
        protected void doGet(HttpServletRequest request, HttpServletResponse response)
                throws IOException {
            long number = Long.parseLong(request.getPathInfo().substring(1));
            long wanted = Long.parseLong(request.getParameter("seed"));
            SplittableRandom random = new SplittableRandom(Digest.of(wanted, number));
            Map<String, String> rows = new TreeMap<>();
            for (int row = 0; row < ROWS; row++) {
                rows.put(text.passage(2, random), text.passage(random.nextInt(5, 30), random));
            }
            response.setContentType("text/html;charset=UTF-8");
            StringBuilder page = new StringBuilder("<html><body><table>");
            rows.forEach(
                    (name, value) ->
                            page.append("<tr><td>" + name + "</td><td>" + value + "</td></tr>"));
            response.getWriter().append(page).append("</table></body></html>");
        }
    }
}
