# Formats the words of a dictionary into filled, justified paragraphs, once for each width: 50, 65
# and 80, or those up to -v widest=WIDTH.
#
# Lines are built by joining and cutting strings, word by word, as report scripts do: nearly every
# statement makes a new string.

function justify(line, width,    count, parts, spaces, i, out) {
    count = split(line, parts, " ")
    if (count == 1) return line
    spaces = width - length(line)
    out = parts[1]
    for (i = 2; i <= count; i++) {
        out = out " "
        if (spaces > 0 && i % 2 == 0) { out = out " "; spaces-- }
        out = out parts[i]
    }
    return out
}

function fill(width,    i, line, word) {
    line = ""
    for (i = 1; i <= words; i++) {
        word = dictionary[i]
        gsub(/'s$/, "", word)
        if (line != "" && length(line) + length(word) + 1 > width) {
            print justify(line, width)
            line = ""
        }
        line = line == "" ? word : line " " word
        if (substr(word, 1, 1) != substr(dictionary[i + 1], 1, 1)) {
            print line
            print ""
            line = toupper(substr(dictionary[i + 1], 1, 1)) ":"
        }
    }
    print line
}

{ dictionary[++words] = $0 }

END { for (width = 50; width <= (widest ? widest : 80); width += 15) fill(width) }
