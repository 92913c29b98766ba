package tare.events;

import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * What the agent is asked for: {@code event=E[:E…],capacity=N,every=N,length=NANOS,file=PATH}, the
 * file last, in which {@code %p} is the number of the process. An event is {@code package.Class.method}, or {@code @package.Annotation} of methods.
 * After so many events of a thread, as {@code every} says, it takes a pause of {@code length}; 0 is
 * never.
 */
final class Settings {
    private static final String FILE = "file=";

    final List<String> events;
    final int capacity;
    final int every;
    final long length;
    final String file;

    /** Throws IllegalArgumentException where the text is not as described. */
    Settings(String text) {
        int place = text == null ? -1 : text.indexOf(FILE);
        if (place < 0) {
            throw new IllegalArgumentException("no file= is given");
        }
        String process = Long.toString(ProcessHandle.current().pid());
        file = text.substring(place + FILE.length()).replace("%p", process);
        Map<String, String> given = new HashMap<>();
        for (String part : text.substring(0, place).split(",")) {
            String[] pair = part.split("=", 2);
            given.put(pair[0], pair.length == 2 ? pair[1] : "");
        }
        events = List.of(given.getOrDefault("event", "").split(":"));
        capacity = Integer.parseInt(given.getOrDefault("capacity", "0"));
        every = Integer.parseInt(given.getOrDefault("every", "0"));
        length = Long.parseLong(given.getOrDefault("length", "0"));
        if (capacity < 1) {
            throw new IllegalArgumentException("no capacity= is given");
        }
        for (String event : events) {
            if (!event.startsWith("@") && event.indexOf('.') < 1) {
                throw new IllegalArgumentException(event + " is no method of a class");
            }
        }
    }
}
