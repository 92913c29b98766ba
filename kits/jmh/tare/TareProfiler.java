package tare;

import java.io.IOException;
import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.openjdk.jmh.infra.BenchmarkParams;
import org.openjdk.jmh.infra.IterationParams;
import org.openjdk.jmh.profile.InternalProfiler;
import org.openjdk.jmh.results.AggregationPolicy;
import org.openjdk.jmh.results.IterationResult;
import org.openjdk.jmh.results.Result;
import org.openjdk.jmh.results.ScalarResult;

/** What the iterations of a benchmark cost the collector: {@code -prof tare.TareProfiler}. */
public final class TareProfiler implements InternalProfiler {
  /** Beginnings of HotSpot's names of its collectors' threads, as Linux has them. */
  private static final List<String> COLLECTORS =
      List.of("VM Thread", "GC Thread#", "G1 ", "Shenand", "ZDriver", "ZDirect", "ZWorker", "ZStat");

  /** A moment's sums. The nanoseconds are -1 where the system does not tell them. */
  private record Sums(
      Map<Long, Long> bytesOfThreads, long collections, long milliseconds, long nanoseconds) {}

  private Sums before;

  @Override
  public String getDescription() {
    return "Bytes allocated, collections, their pauses, and the collector's processor time";
  }

  @Override
  public void beforeIteration(BenchmarkParams benchmark, IterationParams iteration) {
    before = now();
  }

  @Override
  public Collection<? extends Result<?>> afterIteration(
      BenchmarkParams benchmark, IterationParams iteration, IterationResult result) {
    Sums after = now();
    long bytes = 0;
    for (Map.Entry<Long, Long> thread : after.bytesOfThreads.entrySet())
      bytes += thread.getValue() - before.bytesOfThreads.getOrDefault(thread.getKey(), 0L);
    double operations = Math.max(1, result.getMetadata().getAllOps());
    List<Result<?>> found = new ArrayList<>();
    found.add(of("allocated", bytes / operations, "B/op", AggregationPolicy.AVG));
    long collections = after.collections - before.collections;
    found.add(of("collections", collections, "counts", AggregationPolicy.SUM));
    long pauses = after.milliseconds - before.milliseconds;
    found.add(of("pauses", pauses, "ms", AggregationPolicy.SUM));
    if (before.nanoseconds >= 0 && after.nanoseconds >= 0) {
      double collector = (after.nanoseconds - before.nanoseconds) / operations;
      found.add(of("collector", collector, "ns/op", AggregationPolicy.AVG));
    }
    return found;
  }

  private static Result<?> of(String name, double value, String unit, AggregationPolicy policy) {
    return new ScalarResult("tare." + name, value, unit, policy);
  }

  private static Sums now() {
    com.sun.management.ThreadMXBean threads =
        (com.sun.management.ThreadMXBean) ManagementFactory.getThreadMXBean();
    long[] ids = threads.getAllThreadIds();
    long[] bytes = threads.getThreadAllocatedBytes(ids);
    Map<Long, Long> bytesOfThreads = new HashMap<>();
    for (int i = 0; i < ids.length; i++) bytesOfThreads.put(ids[i], Math.max(0, bytes[i]));
    long collections = 0;
    long milliseconds = 0;
    for (GarbageCollectorMXBean collector : ManagementFactory.getGarbageCollectorMXBeans()) {
      // A concurrent collector has a bean of its cycles and one of their pauses.
      String name = collector.getName();
      if (!name.endsWith("Pauses")) collections += collector.getCollectionCount();
      if (!name.endsWith("Cycles") && !name.endsWith("Concurrent GC"))
        milliseconds += collector.getCollectionTime();
    }
    return new Sums(bytesOfThreads, collections, milliseconds, ofCollectors());
  }

  private static long ofCollectors() {
    long sum = 0;
    try (DirectoryStream<Path> threads = Files.newDirectoryStream(Path.of("/proc/self/task"))) {
      for (Path thread : threads) {
        try {
          String name = Files.readString(thread.resolve("comm"));
          String times = Files.readString(thread.resolve("schedstat"));
          if (COLLECTORS.stream().anyMatch(name::startsWith))
            sum += Long.parseLong(times.substring(0, times.indexOf(' ')));
        } catch (IOException ended) {
          continue;
        }
      }
    } catch (IOException | RuntimeException none) {
      return -1;
    }
    return sum;
  }
}
