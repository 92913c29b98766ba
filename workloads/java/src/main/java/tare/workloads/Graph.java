package tare.workloads;

import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;

/**
 * Builds graphs of objects in which few nodes have many neighbours, and ranks their nodes (PageRank).
 * The size is the number of graphs.
 */
final class Graph implements Workload {
    private static final int GRAPHS = 24;
    private static final int NODES = 20_000;
    private static final int EDGES_OF_A_NODE = 6;
    private static final int ROUNDS = 10;
    private static final double DAMPING = 0.85;

    private final int graphs;
    private final int threads;
    private final long seed;

    Graph(Options options) {
        graphs = options.sizeOr(GRAPHS);
        threads = options.threads();
        seed = options.seed();
    }

    @Override
    public long iterate() throws Exception {
        return Parallel.sum(threads, graphs, () -> number -> digest(ranked(Digest.of(seed, number))));
    }

    private static final class Node {
        final List<Node> comeFrom = new ArrayList<>();
        int leaving;
        double rank = 1;
        double next;
    }

    /** Each new node points to some that others point to: the many get more. */
    private static List<Node> ranked(long seed) {
        SplittableRandom random = new SplittableRandom(seed);
        List<Node> nodes = new ArrayList<>();
        List<Node> pointedTo = new ArrayList<>();
        for (int i = 0; i < NODES; i++) {
            Node node = new Node();
            for (int edge = 0; edge < EDGES_OF_A_NODE && i > 0; edge++) {
                Node target =
                        random.nextBoolean() && !pointedTo.isEmpty()
                                ? pointedTo.get(random.nextInt(pointedTo.size()))
                                : nodes.get(random.nextInt(i));
                target.comeFrom.add(node);
                node.leaving++;
                pointedTo.add(target);
            }
            nodes.add(node);
        }
        for (int round = 0; round < ROUNDS; round++) {
            for (Node node : nodes) {
                double sum = 0;
                for (Node from : node.comeFrom) {
                    sum += from.rank / from.leaving;
                }
                node.next = 1 - DAMPING + DAMPING * sum;
            }
            for (Node node : nodes) {
                node.rank = node.next;
            }
        }
        return nodes;
    }

    private static long digest(List<Node> nodes) {
        long digest = 0;
        for (Node node : nodes) {
            digest = Digest.of(digest, Double.doubleToLongBits(node.rank));
        }
        return digest;
    }
}
