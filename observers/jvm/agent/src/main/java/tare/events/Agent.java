package tare.events;

import java.io.IOException;
import java.lang.instrument.Instrumentation;

/** Times every call of chosen methods, see {@link Settings}; what it writes is in {@link Records}. */
public final class Agent {
    private Agent() {}

    public static void premain(String text, Instrumentation instrumentation) throws IOException {
        Settings settings = new Settings(text);
        Records records = new Records(settings.file, settings.capacity);
        Events.open(records, settings);
        instrumentation.addTransformer(new Wrapping(settings.events, records));
    }
}
