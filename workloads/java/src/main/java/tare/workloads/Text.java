package tare.workloads;

import java.util.Arrays;
import java.util.SplittableRandom;

/** Made-up words, as frequent as those of a natural language: by Zipf's law, short ones first. */
final class Text {
    private static final String CONSONANTS = "bdfghjklmnprstvz";
    private static final String VOWELS = "aeiou";
    private static final int SYLLABLES = CONSONANTS.length() * VOWELS.length();
    private static final double ZIPF_SHIFT = 2.7;

    private final String[] words;
    private final double[] cumulative;

    Text(int vocabulary) {
        words = new String[vocabulary];
        cumulative = new double[vocabulary];
        double sum = 0;
        for (int rank = 0; rank < vocabulary; rank++) {
            words[rank] = spell(rank);
            sum += 1 / (rank + ZIPF_SHIFT);
            cumulative[rank] = sum;
        }
        for (int rank = 0; rank < vocabulary; rank++) {
            cumulative[rank] /= sum;
        }
    }

    private static String spell(int rank) {
        StringBuilder word = new StringBuilder();
        for (int rest = rank + SYLLABLES; rest > 0; rest /= SYLLABLES) {
            int syllable = rest % SYLLABLES;
            word.append(CONSONANTS.charAt(syllable / VOWELS.length()));
            word.append(VOWELS.charAt(syllable % VOWELS.length()));
        }
        return word.toString();
    }

    String word(int rank) {
        return words[rank];
    }

    /** The rank of a word, drawn by its frequency. */
    int draw(SplittableRandom random) {
        int place = Arrays.binarySearch(cumulative, random.nextDouble());
        return Math.min(place < 0 ? -place - 1 : place, words.length - 1);
    }

    /** So many words in sentences. */
    String passage(int length, SplittableRandom random) {
        StringBuilder text = new StringBuilder(length * 8);
        for (int i = 1; i <= length; i++) {
            text.append(words[draw(random)]).append(i % 16 == 0 ? ". " : " ");
        }
        return text.toString();
    }
}
