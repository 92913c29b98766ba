package tare.workloads;

import java.io.Closeable;
import java.io.IOException;

/** A program that does the same work in every iteration. */
interface Workload extends Closeable {
    /** Does the work once; returns a digest of its results, the same for every iteration. */
    long iterate() throws Exception;

    @Override
    default void close() throws IOException {}
}
