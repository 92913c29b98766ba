# Formats the words of a dictionary into filled paragraphs, and reports on them.
use strict;
use warnings;

my ($path, @widths) = @ARGV;
open(my $file, '<', $path) or die "$path: $!\n";
my @words = <$file>;
close($file);
chomp(@words);

for my $width (@widths) {
    my %paragraphs;
    for my $word (@words) {
        push @{ $paragraphs{ lc(substr($word, 0, 2)) } }, { word => $word, key => lc($word) };
    }
    for my $start (sort keys %paragraphs) {
        my @sorted = sort { $a->{key} cmp $b->{key} || $a->{word} cmp $b->{word} }
            @{ $paragraphs{$start} };
        my $line = "$start:";
        my @lines;
        for my $entry (@sorted) {
            if (length($line) + length($entry->{word}) + 1 > $width) {
                push @lines, $line;
                $line = '   ';
            }
            $line .= ' ' . $entry->{word};
        }
        push @lines, $line;
        print join("\n", @lines), "\n\n";
    }
}
