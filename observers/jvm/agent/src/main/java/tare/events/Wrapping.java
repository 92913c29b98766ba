package tare.events;

import java.lang.instrument.ClassFileTransformer;
import java.security.ProtectionDomain;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.objectweb.asm.AnnotationVisitor;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassVisitor;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.Label;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.Type;
import org.objectweb.asm.TypePath;

/**
 * Puts a timed method in front of each chosen one: it has the name, and calls what is now called
 * {@code name$tare}. So the code of the program stays as it is.
 */
final class Wrapping implements ClassFileTransformer {
    private static final int ASM = Opcodes.ASM9;
    private static final String EVENTS = "tare/events/Events";
    private static final String TIMER = EVENTS + "$Timer";
    private static final int NEVER =
            Opcodes.ACC_ABSTRACT | Opcodes.ACC_NATIVE | Opcodes.ACC_BRIDGE;

    /** {@code package/Class.method}. */
    private final Set<String> methods = new HashSet<>();

    private final Set<String> classes = new HashSet<>();

    /** Descriptors of annotations. */
    private final Set<String> annotations = new HashSet<>();

    private final Records records;

    Wrapping(List<String> events, Records records) {
        this.records = records;
        for (String event : events) {
            if (event.startsWith("@")) {
                annotations.add("L" + event.substring(1).replace('.', '/') + ";");
            } else {
                int dot = event.lastIndexOf('.');
                String owner = event.substring(0, dot).replace('.', '/');
                classes.add(owner);
                methods.add(owner + event.substring(dot));
            }
        }
    }

    @Override
    public byte[] transform(
            ClassLoader loader,
            String name,
            Class<?> redefined,
            ProtectionDomain domain,
            byte[] bytes) {
        boolean isOurs = name != null && name.startsWith("tare/events/");
        if (redefined != null || isOurs || (annotations.isEmpty() && !classes.contains(name))) {
            return null;
        }
        try {
            return wrapped(bytes);
        } catch (RuntimeException error) {
            // The JVM drops what a transformer throws.
            System.err.println("tare-events: the class " + name + " cannot be timed: " + error);
            return null;
        }
    }

    /** The class with its chosen methods timed, or null where it has none. */
    private byte[] wrapped(byte[] bytes) {
        ClassReader reader = new ClassReader(bytes);
        Set<String> chosen = chosen(reader);
        if (chosen.isEmpty()) {
            return null;
        }
        ClassWriter writer = new ClassWriter(reader, ClassWriter.COMPUTE_MAXS);
        reader.accept(new Rewriter(writer, chosen), 0);
        chosen.forEach(method -> records.addMethod());
        return writer.toByteArray();
    }

    /** Names with descriptors. */
    private Set<String> chosen(ClassReader reader) {
        Set<String> found = new HashSet<>();
        String owner = reader.getClassName();
        ClassVisitor visitor =
                new ClassVisitor(ASM) {
                    @Override
                    public MethodVisitor visitMethod(
                            int access, String name, String descriptor, String s, String[] e) {
                        if ((access & NEVER) != 0 || name.startsWith("<")) {
                            return null;
                        }
                        if (methods.contains(owner + "." + name)) {
                            found.add(name + descriptor);
                        }
                        return new MethodVisitor(ASM) {
                            @Override
                            public AnnotationVisitor visitAnnotation(String type, boolean visible) {
                                if (annotations.contains(type)) {
                                    found.add(name + descriptor);
                                }
                                return null;
                            }
                        };
                    }
                };
        reader.accept(visitor, ClassReader.SKIP_CODE | ClassReader.SKIP_DEBUG);
        return found;
    }

    private static final class Rewriter extends ClassVisitor {
        private final Set<String> chosen;
        private String owner;
        private boolean isInterface;
        private int version;

        Rewriter(ClassVisitor next, Set<String> chosen) {
            super(ASM, next);
            this.chosen = chosen;
        }

        @Override
        public void visit(
                int version, int access, String name, String sign, String parent, String[] faces) {
            this.version = version & 0xFFFF;
            owner = name;
            isInterface = (access & Opcodes.ACC_INTERFACE) != 0;
            super.visit(version, access, name, sign, parent, faces);
        }

        @Override
        public MethodVisitor visitMethod(
                int access, String name, String descriptor, String sign, String[] thrown) {
            if (!chosen.contains(name + descriptor)) {
                return super.visitMethod(access, name, descriptor, sign, thrown);
            }
            // An event includes the wait for the method's lock.
            int outside = access & ~Opcodes.ACC_SYNCHRONIZED;
            int inside =
                    (access & (Opcodes.ACC_STATIC | Opcodes.ACC_SYNCHRONIZED | Opcodes.ACC_STRICT))
                            | Opcodes.ACC_PRIVATE
                            | Opcodes.ACC_SYNTHETIC;
            MethodVisitor timed = super.visitMethod(outside, name, descriptor, sign, thrown);
            MethodVisitor body = super.visitMethod(inside, name + "$tare", descriptor, null, thrown);
            return new Splitter(body, timed, () -> writeTimed(timed, access, name, descriptor));
        }

        private void writeTimed(MethodVisitor to, int access, String name, String descriptor) {
            boolean isStatic = (access & Opcodes.ACC_STATIC) != 0;
            Type[] arguments = Type.getArgumentTypes(descriptor);
            List<Object> locals = new ArrayList<>();
            if (!isStatic) {
                locals.add(owner);
            }
            int slot = isStatic ? 0 : 1;
            to.visitCode();
            pushKey(to, arguments, slot);
            to.visitMethodInsn(Opcodes.INVOKESTATIC, EVENTS, "begin", "(J)L" + TIMER + ";", false);
            int timer = slot + slots(arguments);
            to.visitVarInsn(Opcodes.ASTORE, timer);
            Label begin = new Label();
            Label end = new Label();
            Label thrown = new Label();
            to.visitTryCatchBlock(begin, end, thrown, null);
            to.visitLabel(begin);
            if (!isStatic) {
                to.visitVarInsn(Opcodes.ALOAD, 0);
            }
            for (Type argument : arguments) {
                to.visitVarInsn(argument.getOpcode(Opcodes.ILOAD), slot);
                slot += argument.getSize();
                locals.add(frameType(argument));
            }
            locals.add(TIMER);
            int call = isStatic ? Opcodes.INVOKESTATIC : Opcodes.INVOKESPECIAL;
            to.visitMethodInsn(call, owner, name + "$tare", descriptor, isInterface);
            to.visitLabel(end);
            stop(to, timer);
            to.visitInsn(Type.getReturnType(descriptor).getOpcode(Opcodes.IRETURN));
            to.visitLabel(thrown);
            if (version >= Opcodes.V1_6) {
                Object[] stack = {"java/lang/Throwable"};
                to.visitFrame(Opcodes.F_FULL, locals.size(), locals.toArray(), 1, stack);
            }
            stop(to, timer);
            to.visitInsn(Opcodes.ATHROW);
            to.visitMaxs(0, 0);
            to.visitEnd();
        }

        private static void stop(MethodVisitor to, int timer) {
            to.visitVarInsn(Opcodes.ALOAD, timer);
            to.visitMethodInsn(Opcodes.INVOKEVIRTUAL, TIMER, "end", "()V", false);
        }

        /** The first argument tells events apart, where it is a whole number or a text. */
        private static void pushKey(MethodVisitor to, Type[] arguments, int slot) {
            int sort = arguments.length == 0 ? Type.VOID : arguments[0].getSort();
            if (sort == Type.LONG) {
                to.visitVarInsn(Opcodes.LLOAD, slot);
            } else if (sort >= Type.BOOLEAN && sort <= Type.INT) {
                to.visitVarInsn(Opcodes.ILOAD, slot);
                to.visitInsn(Opcodes.I2L);
            } else if (sort == Type.OBJECT && arguments[0].getClassName().equals("java.lang.String")) {
                to.visitVarInsn(Opcodes.ALOAD, slot);
                to.visitMethodInsn(
                        Opcodes.INVOKESTATIC, EVENTS, "key", "(Ljava/lang/String;)J", false);
            } else {
                to.visitInsn(Opcodes.LCONST_0);
            }
        }

        private static int slots(Type[] arguments) {
            int sum = 0;
            for (Type argument : arguments) {
                sum += argument.getSize();
            }
            return sum;
        }

        private static Object frameType(Type type) {
            switch (type.getSort()) {
                case Type.FLOAT:
                    return Opcodes.FLOAT;
                case Type.LONG:
                    return Opcodes.LONG;
                case Type.DOUBLE:
                    return Opcodes.DOUBLE;
                case Type.ARRAY:
                case Type.OBJECT:
                    return type.getInternalName();
                default:
                    return Opcodes.INTEGER;
            }
        }
    }

    /** The code goes into the body; annotations and names of parameters stay with the name. */
    private static final class Splitter extends MethodVisitor {
        private final MethodVisitor timed;
        private final Runnable writeTimed;

        Splitter(MethodVisitor body, MethodVisitor timed, Runnable writeTimed) {
            super(ASM, body);
            this.timed = timed;
            this.writeTimed = writeTimed;
        }

        @Override
        public void visitParameter(String name, int access) {
            timed.visitParameter(name, access);
        }

        @Override
        public AnnotationVisitor visitAnnotation(String type, boolean visible) {
            return timed.visitAnnotation(type, visible);
        }

        @Override
        public AnnotationVisitor visitTypeAnnotation(
                int reference, TypePath path, String type, boolean visible) {
            return timed.visitTypeAnnotation(reference, path, type, visible);
        }

        @Override
        public void visitAnnotableParameterCount(int count, boolean visible) {
            timed.visitAnnotableParameterCount(count, visible);
        }

        @Override
        public AnnotationVisitor visitParameterAnnotation(
                int parameter, String type, boolean visible) {
            return timed.visitParameterAnnotation(parameter, type, visible);
        }

        @Override
        public AnnotationVisitor visitAnnotationDefault() {
            return timed.visitAnnotationDefault();
        }

        @Override
        public void visitCode() {
            writeTimed.run();
            super.visitCode();
        }
    }
}
