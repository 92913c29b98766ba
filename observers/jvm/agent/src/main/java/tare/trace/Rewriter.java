package tare.trace;

import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassVisitor;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.Handle;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.Type;

/** Puts a call of {@link Stores} beside each store of a pointer in a class. */
final class Rewriter {
    private static final int ASM = Opcodes.ASM9;
    private static final String UNSAFE = "jdk/internal/misc/Unsafe";
    private static final Type OBJECT = Type.getObjectType("java/lang/Object");

    /** Of System.arraycopy: the array, the first place and the number of those that are written. */
    private static final Type[] COPIED = {OBJECT, Type.INT_TYPE, Type.INT_TYPE};

    private static final Map<String, Integer> NUMBERS = new HashMap<>();
    private static final List<String> OWNERS = new ArrayList<>();
    private static final List<String> NAMES = new ArrayList<>();

    private Rewriter() {}

    /** The class rewritten, or null where it stores no pointers. Called by the agent. */
    static byte[] rewrite(byte[] bytes) {
        ClassReader reader = new ClassReader(bytes);
        if (reader.getClassName().equals(UNSAFE)) {
            return null; // its callers tell
        }
        Map<String, Integer> locals = new HashMap<>();
        reader.accept(new Classes(null, locals), ClassReader.SKIP_DEBUG | ClassReader.SKIP_FRAMES);
        if (locals.isEmpty()) {
            return null;
        }
        ClassWriter writer = new ClassWriter(reader, ClassWriter.COMPUTE_MAXS);
        reader.accept(new Classes(writer, locals), 0);
        return writer.toByteArray();
    }

    /** Loads what the rewriter needs, before it is asked to rewrite that. Called by the agent. */
    static void warmUp() throws IOException {
        List<Class<?>> types =
                List.of(Rewriter.class, Stores.class, Classes.Methods.class);
        for (Class<?> type : types) {
            String file = type.getName().replace('.', '/') + ".class";
            try (InputStream stream = ClassLoader.getSystemResourceAsStream(file)) {
                rewrite(stream.readAllBytes());
            }
        }
    }

    /**
     * Where the numbered field lies in the object, or -1. Called by the agent. The name that the code
     * gives as the owner may be a subclass of the one that declares it.
     */
    static long offset(Object object, int field) {
        String owner;
        String name;
        synchronized (NUMBERS) {
            owner = OWNERS.get(field);
            name = NAMES.get(field);
        }
        owner = owner.replace('/', '.');
        Class<?> type = object.getClass();
        while (type != null && !type.getName().equals(owner)) {
            type = type.getSuperclass();
        }
        for (; type != null; type = type.getSuperclass()) {
            long offset = Stores.declaredOffset(type, name);
            if (offset >= 0) {
                return offset;
            }
        }
        return -1;
    }

    private static int number(String owner, String name) {
        synchronized (NUMBERS) {
            Integer known = NUMBERS.get(owner + "." + name);
            if (known != null) {
                return known;
            }
            int next = OWNERS.size();
            if (next == Stores.MOST_FIELDS) {
                throw new IllegalStateException("too many fields");
            }
            NUMBERS.put(owner + "." + name, next);
            OWNERS.add(owner);
            NAMES.add(name);
            return next;
        }
    }

    private static boolean isPointer(String descriptor) {
        return descriptor.charAt(0) == 'L' || descriptor.charAt(0) == '[';
    }

    /**
     * Without a next visitor it finds the methods to rewrite, and how many local variables each has:
     * the places beyond are free. The others are then copied as they are, which is quicker than to
     * take them apart.
     */
    private static final class Classes extends ClassVisitor {
        private final Map<String, Integer> locals;
        private String owner;

        Classes(ClassVisitor next, Map<String, Integer> locals) {
            super(ASM, next);
            this.locals = locals;
        }

        @Override
        public void visit(
                int version, int access, String name, String sign, String parent, String[] faces) {
            owner = name;
            super.visit(version, access, name, sign, parent, faces);
        }

        @Override
        public MethodVisitor visitMethod(
                int access, String name, String descriptor, String sign, String[] thrown) {
            MethodVisitor next = super.visitMethod(access, name, descriptor, sign, thrown);
            String key = name + descriptor;
            boolean isWanted = cv == null || locals.containsKey(key);
            return isWanted ? new Methods(next, key, locals.getOrDefault(key, 0)) : next;
        }

        private final class Methods extends MethodVisitor {
            private final String method;
            private final int free;
            private boolean isChanged;

            /** In a constructor: its object is not made until another constructor was called. */
            private boolean isMade;

            private int waiting;
            private final List<String[]> early = new ArrayList<>();

            Methods(MethodVisitor next, String method, int free) {
                super(ASM, next);
                this.method = method;
                this.free = free;
                isMade = !method.startsWith("<init>");
            }

            @Override
            public void visitTypeInsn(int opcode, String type) {
                if (opcode == Opcodes.NEW) {
                    waiting++;
                }
                super.visitTypeInsn(opcode, type);
            }

            @Override
            public void visitFieldInsn(int opcode, String owner, String name, String descriptor) {
                if (isPointer(descriptor)) {
                    if (opcode == Opcodes.PUTFIELD && isMade) {
                        super.visitInsn(Opcodes.DUP2);
                        tellOfField(owner, name);
                    } else if (opcode == Opcodes.PUTFIELD) {
                        early.add(new String[] {owner, name, descriptor});
                    } else if (opcode == Opcodes.PUTSTATIC) {
                        super.visitInsn(Opcodes.DUP);
                        super.visitLdcInsn(number(owner, name));
                        tell("staticField", "(Ljava/lang/Object;I)V");
                    }
                }
                super.visitFieldInsn(opcode, owner, name, descriptor);
            }

            private void tellOfField(String owner, String name) {
                super.visitLdcInsn(number(owner, name));
                tell("field", "(Ljava/lang/Object;Ljava/lang/Object;I)V");
            }

            private void tell(String name, String descriptor) {
                isChanged = true;
                super.visitMethodInsn(
                        Opcodes.INVOKESTATIC, "tare/trace/Stores", name, descriptor, false);
            }

            @Override
            public void visitInsn(int opcode) {
                if (opcode == Opcodes.AASTORE) {
                    super.visitVarInsn(Opcodes.ASTORE, free);
                    super.visitInsn(Opcodes.DUP2);
                    super.visitVarInsn(Opcodes.ALOAD, free);
                    tell("element", "([Ljava/lang/Object;ILjava/lang/Object;)V");
                    super.visitVarInsn(Opcodes.ALOAD, free);
                }
                super.visitInsn(opcode);
            }

            @Override
            public void visitMultiANewArrayInsn(String descriptor, int dimensions) {
                super.visitMultiANewArrayInsn(descriptor, dimensions);
                super.visitInsn(Opcodes.DUP);
                super.visitLdcInsn(dimensions);
                tell("nested", "(Ljava/lang/Object;I)V");
            }

            @Override
            public void visitMethodInsn(
                    int opcode, String owner, String name, String descriptor, boolean isInterface) {
                if (owner.equals(UNSAFE) && visitUnsafe(name, descriptor)) {
                    return;
                }
                boolean isCopy = isArrayCopy(owner, name);
                if (isCopy) {
                    keep(COPIED);
                    load(COPIED);
                }
                super.visitMethodInsn(opcode, owner, name, descriptor, isInterface);
                if (isCopy) {
                    load(COPIED);
                    tell("elements", "(Ljava/lang/Object;II)V");
                } else if (givesCopy(owner, name, descriptor)) {
                    super.visitInsn(Opcodes.DUP);
                    tell("copied", "(Ljava/lang/Object;)V");
                } else if (opcode == Opcodes.INVOKESPECIAL && name.equals("<init>")) {
                    constructed();
                }
            }

            /** The first constructor that is not of a new object is that of this one. */
            private void constructed() {
                if (waiting > 0) {
                    waiting--;
                } else if (!isMade) {
                    isMade = true;
                    for (String[] field : early) {
                        super.visitVarInsn(Opcodes.ALOAD, 0);
                        super.visitInsn(Opcodes.DUP);
                        super.visitFieldInsn(Opcodes.GETFIELD, field[0], field[1], field[2]);
                        tellOfField(field[0], field[1]);
                    }
                }
            }

            private boolean isArrayCopy(String owner, String name) {
                boolean isCalled = owner.equals("java/lang/System") && name.equals("arraycopy");
                // Its callers tell, since a compiler knows this method without its code.
                boolean isInside = Classes.this.owner.equals("java/util/Arrays")
                        && method.startsWith("copyOf");
                return isCalled && !isInside;
            }

            private boolean givesCopy(String owner, String name, String descriptor) {
                if (owner.equals("java/util/Arrays") && name.startsWith("copyOf")) {
                    return descriptor.endsWith(")[Ljava/lang/Object;");
                }
                boolean isArrays = owner.startsWith("[") && isPointer(owner.substring(1));
                return name.equals("clone")
                        && descriptor.equals("()Ljava/lang/Object;")
                        && (isArrays || owner.equals("java/lang/Object"));
            }

            /** Stores of any kind into a place that is given by its offset. */
            private boolean visitUnsafe(String name, String descriptor) {
                switch (descriptor) {
                    case "(Ljava/lang/Object;JLjava/lang/Object;)V":
                    case "(Ljava/lang/Object;JLjava/lang/Object;)Ljava/lang/Object;":
                        call(name, descriptor, OBJECT, Type.LONG_TYPE, OBJECT);
                        load(OBJECT, Type.LONG_TYPE, OBJECT);
                        tell("unsafe", "(Ljava/lang/Object;JLjava/lang/Object;)V");
                        return true;
                    case "(Ljava/lang/Object;JLjava/lang/Object;Ljava/lang/Object;)Z":
                        call(name, descriptor, OBJECT, Type.LONG_TYPE, OBJECT, OBJECT);
                        load(OBJECT, Type.LONG_TYPE);
                        super.visitVarInsn(Opcodes.ALOAD, free + 4);
                        tell("swapped", "(ZLjava/lang/Object;JLjava/lang/Object;)Z");
                        return true;
                    case "(Ljava/lang/Object;JLjava/lang/Object;Ljava/lang/Object;)Ljava/lang/Object;":
                        call(name, descriptor, OBJECT, Type.LONG_TYPE, OBJECT, OBJECT);
                        load(OBJECT, Type.LONG_TYPE, OBJECT, OBJECT);
                        tell(
                                "exchanged",
                                "(Ljava/lang/Object;Ljava/lang/Object;JLjava/lang/Object;"
                                        + "Ljava/lang/Object;)Ljava/lang/Object;");
                        return true;
                    default:
                        return false;
                }
            }

            private void call(String name, String descriptor, Type... arguments) {
                keep(arguments);
                load(arguments);
                super.visitMethodInsn(Opcodes.INVOKEVIRTUAL, UNSAFE, name, descriptor, false);
            }

            @Override
            public void visitInvokeDynamicInsn(
                    String name, String descriptor, Handle bootstrap, Object... constants) {
                Type[] arguments = Type.getArgumentTypes(descriptor);
                boolean isLambda =
                        bootstrap.getOwner().equals("java/lang/invoke/LambdaMetafactory");
                if (isLambda) {
                    keep(arguments);
                    load(arguments);
                }
                super.visitInvokeDynamicInsn(name, descriptor, bootstrap, constants);
                if (isLambda) {
                    tellOfCaptured(arguments);
                }
            }

            private void tellOfCaptured(Type[] arguments) {
                int local = free;
                int place = 0;
                for (Type argument : arguments) {
                    if (isPointer(argument.getDescriptor())) {
                        super.visitInsn(Opcodes.DUP);
                        super.visitVarInsn(Opcodes.ALOAD, local);
                        super.visitLdcInsn(place++);
                        tell("captured", "(Ljava/lang/Object;Ljava/lang/Object;I)V");
                    }
                    local += argument.getSize();
                }
            }

            @Override
            public void visitMaxs(int stack, int most) {
                if (isChanged) {
                    locals.put(method, most);
                }
                super.visitMaxs(stack, most);
            }

            /** The topmost of the stack, the last of them first, into free places. */
            private void keep(Type... types) {
                int local = free;
                for (Type type : types) {
                    local += type.getSize();
                }
                for (int i = types.length; i-- > 0; ) {
                    local -= types[i].getSize();
                    super.visitVarInsn(types[i].getOpcode(Opcodes.ISTORE), local);
                }
            }

            private void load(Type... types) {
                int local = free;
                for (Type type : types) {
                    super.visitVarInsn(type.getOpcode(Opcodes.ILOAD), local);
                    local += type.getSize();
                }
            }
        }
    }
}
