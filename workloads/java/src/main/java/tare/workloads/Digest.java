package tare.workloads;

/** Digests of results. Those of parts that ran in any order are added up. */
final class Digest {
    private Digest() {}

    /** A well mixed 64-bit number for each pair: the finalizer of SplitMix64. */
    static long of(long first, long second) {
        long z = first * 0x9E3779B97F4A7C15L + second;
        z = (z ^ (z >>> 30)) * 0xBF58476D1CE4E5B9L;
        z = (z ^ (z >>> 27)) * 0x94D049BB133111EBL;
        return z ^ (z >>> 31);
    }

    static long of(CharSequence text) {
        long digest = text.length();
        for (int i = 0; i < text.length(); i++) {
            digest = digest * 31 + text.charAt(i);
        }
        return of(digest, text.length());
    }

    static long of(byte[] bytes) {
        long digest = bytes.length;
        for (byte one : bytes) {
            digest = digest * 31 + one;
        }
        return of(digest, bytes.length);
    }
}
