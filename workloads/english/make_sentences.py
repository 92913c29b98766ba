"""Writes English sentences from a small grammar, with the commands a link-parser batch needs.

usage: make_sentences.py FILE SENTENCES
"""

import random
import sys

NOUNS = "dog cat teacher river engine house letter child garden window storm market train".split()
ADJECTIVES = "old green quiet large broken careful happy strange narrow heavy".split()
VERBS = "sees follows finds carries likes remembers watches opens".split()
SAYING = "thinks says believes knows hopes".split()
ADVERBS = "slowly often never quickly still".split()
PLACES = "in under near behind beside over".split()


def noun_phrase(rng: random.Random, depth: int) -> str:
    words = [rng.choice(["the", "a", "every", "his", "that"])]
    if rng.random() < 0.5:
        words.append(rng.choice([word for word in ADJECTIVES if word[0] not in "aeiou"]))
    words.append(rng.choice([word for word in NOUNS if word[0] not in "aeiou"]))
    if depth > 0 and rng.random() < 0.5:
        words += [rng.choice(PLACES), noun_phrase(rng, depth - 1)]
    elif depth > 0 and rng.random() < 0.4:
        words += ["that", rng.choice(VERBS), noun_phrase(rng, depth - 1)]
    return " ".join(words)


def clause(rng: random.Random, depth: int) -> str:
    subject = noun_phrase(rng, depth)
    if depth > 0 and rng.random() < 0.3:
        return f"{subject} {rng.choice(SAYING)} that {clause(rng, depth - 1)}"
    text = f"{subject} {rng.choice(VERBS)} {noun_phrase(rng, depth)}"
    if rng.random() < 0.3:
        text += f" {rng.choice(ADVERBS)}"
    if depth > 0 and rng.random() < 0.3:
        text += f" and {clause(rng, depth - 1)}"
    return text


def main() -> None:
    path, sentences = sys.argv[1], int(sys.argv[2])
    rng = random.Random(1)
    with open(path, "w", encoding="ascii") as file:
        for _ in range(sentences):
            text = clause(rng, 2)
            file.write(text[0].upper() + text[1:] + ".\n")


if __name__ == "__main__":
    main()
