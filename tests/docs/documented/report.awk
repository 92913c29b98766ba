# Counts words, and joins them.
{ count[$2]++; line = length(line) > 500 ? $0 : line " " $0 }
END { print length(count), length(line) }
