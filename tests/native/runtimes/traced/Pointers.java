import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.atomic.AtomicReferenceFieldUpdater;
import java.util.function.Supplier;

public class Pointers {
    static class Target {}
    static class Parent { Object inherited; }
    static class Fields extends Parent {
        Object own;
        volatile Object swapped;
        volatile Object updated;
    }
    class Inner {
        Object pointed;
        Object outer() { return bound; }  // javac leaves out an outer object that is not used
    }
    static Object[] roots = new Object[64];
    static Object fixed;

    Object bound = new Target();

    static Object target() { return new Target(); }

    static Supplier<Object> lambda(Object captured, int number, Object other) {
        return () -> number > 3 ? captured : other;
    }

    public static void main(String[] words) throws Exception {
        int n = 0;
        Fields fields = new Fields();
        fields.inherited = target();
        fields.own = target();
        roots[n++] = fields;
        VarHandle swapped =
            MethodHandles.lookup().findVarHandle(Fields.class, "swapped", Object.class);
        swapped.compareAndSet(fields, null, target());
        AtomicReferenceFieldUpdater.newUpdater(Fields.class, Object.class, "updated")
            .set(fields, target());
        Object[] single = new Object[3];
        single[1] = target();
        roots[n++] = single;
        Object[] copied = new Object[5];
        System.arraycopy(single, 0, copied, 2, 3);
        roots[n++] = copied;
        roots[n++] = single.clone();
        roots[n++] = Arrays.copyOf(single, 10);
        roots[n++] = new Object[4][3][2];
        roots[n++] = new Pointers().new Inner();
        roots[n++] = lambda(target(), 4, target());
        roots[n++] = new AtomicReference<Object>(target());
        AtomicReference<Object> atomic = new AtomicReference<>();
        atomic.compareAndSet(null, target());
        roots[n++] = atomic;
        ArrayList<Object> list = new ArrayList<>();
        for (int i = 0; i < 100; i++) list.add(target());
        roots[n++] = list;
        ConcurrentHashMap<Object, Object> map = new ConcurrentHashMap<>();
        for (int i = 0; i < 200; i++) map.put(i, target());
        roots[n++] = map;
        fixed = target();
        java.lang.reflect.Field field = Fields.class.getDeclaredField("own");
        field.set(fields, target());
    }
}
