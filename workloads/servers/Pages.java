import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Executors;

/** A server of the JDK alone: each page is a table that it makes, as JSON. Pages PORT */
public final class Pages {
  private static final int ROWS = 300;

  private Pages() {}

  public static void main(String[] arguments) throws IOException {
    var address = new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0]));
    var server = HttpServer.create(address, 0);
    server.createContext(
        "/",
        exchange -> {
          byte[] page = page(exchange.getRequestURI().getPath()).getBytes(StandardCharsets.UTF_8);
          exchange.getResponseHeaders().set("Content-Type", "application/json");
          exchange.sendResponseHeaders(200, page.length);
          try (OutputStream body = exchange.getResponseBody()) {
            body.write(page);
          }
        });
    server.setExecutor(Executors.newFixedThreadPool(4));
    server.start();
  }

  private static String page(String path) {
    List<String> rows = new ArrayList<>();
    for (int n = 0; n < ROWS; n++) {
      rows.add("{\"number\":" + n + ",\"name\":\"row " + n + "\",\"square\":" + n * n + "}");
    }
    return "{\"path\":\"" + path + "\",\"rows\":[" + String.join(",", rows) + "]}";
  }
}
