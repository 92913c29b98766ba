package tare.trace;

/**
 * What the rewritten classes of a program call at their stores of pointers. The native methods are
 * in observers/jvm/trace. Most objects are known by their identity hashes, which the JVM counts
 * (-XX:hashCode=3); 0 stands for null, and as a source for static memory.
 */
public final class Stores {
    static final int MOST_FIELDS = 1 << 18;

    /** With pointers of 8 bytes, which the JVM is started with. */
    private static final long FIRST_ELEMENT = 16;

    private static final int POINTER_BYTES = 8;

    /** Where the numbered fields lie in their objects; 0 is not known yet, less cannot be found. */
    private static final long[] OFFSETS = new long[MOST_FIELDS];

    private Stores() {}

    // What is called for most stores is small enough to be compiled into the methods that store.
    public static void field(Object source, Object target, int field) {
        if (source != null) {
            long offset = OFFSETS[field];
            at(source, offset != 0 ? offset : located(source, field), target);
        }
    }

    private static long located(Object source, int field) {
        long offset = locate(source, field);
        OFFSETS[field] = offset;
        return offset;
    }

    public static void staticField(Object target, int field) {
        at(null, field, target);
    }

    /** Before the array is stored to, which may fail. */
    public static void element(Object[] array, int index, Object target) {
        if (array != null && index >= 0 && index < array.length) {
            at(array, FIRST_ELEMENT + (long) POINTER_BYTES * index, target);
        }
    }

    /** The elements of an array that was filled by other means than single stores. */
    public static void elements(Object array) {
        if (array instanceof Object[]) {
            elements(array, 0, ((Object[]) array).length);
        }
    }

    public static void elements(Object array, int start, int count) {
        if (!(array instanceof Object[])) {
            return;
        }
        Object[] them = (Object[]) array;
        for (int index = start; index < start + count; index++) {
            element(them, index, them[index]);
        }
    }

    /** The elements of an array of arrays, and theirs, as many dimensions deep as were made. */
    public static void nested(Object array, int dimensions) {
        if (dimensions < 2) {
            return;
        }
        Object[] them = (Object[]) array;
        elements(them);
        for (Object each : them) {
            nested(each, dimensions - 1);
        }
    }

    public static void copied(Object copy) {
        if (copy instanceof Object[]) {
            elements(copy);
        } else if (!copy.getClass().isArray()) {
            copiedUnseen();
        }
    }

    /** Of a lambda, whose class cannot be rewritten: its pointers lie one after another. */
    public static void captured(Object lambda, Object target, int place) {
        at(lambda, FIRST_ELEMENT + (long) POINTER_BYTES * place, target);
    }

    public static void unsafe(Object source, long offset, Object target) {
        if (source != null) {
            at(source, offset, target);
        }
    }

    public static boolean swapped(boolean done, Object source, long offset, Object target) {
        if (done) {
            unsafe(source, offset, target);
        }
        return done;
    }

    public static Object exchanged(
            Object found, Object source, long offset, Object expected, Object target) {
        if (found == expected) {
            unsafe(source, offset, target);
        }
        return found;
    }

    private static void at(Object source, long offset, Object target) {
        if (offset < 0) {
            lost();
        } else if (!stored(
                System.identityHashCode(source), offset, System.identityHashCode(target))) {
            storedExactly(source, offset, target);
        }
    }

    /** False where one of the objects is not known by its hash. */
    private static native boolean stored(int source, long offset, int target);

    private static native void storedExactly(Object source, long offset, Object target);

    private static native void lost();

    private static native void copiedUnseen();

    /** {@link Rewriter#offset}, out of sight of the recording. */
    private static native long locate(Object source, int field);

    /** Of a field that this very class declares, or -1. */
    static native long declaredOffset(Class<?> owner, String name);
}
