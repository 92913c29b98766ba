# Counts made-up words, in strings and a hash that come and go.
my $letters = 0;
for my $round (1 .. 5) {
    my %count;
    $count{"word" . $_ * 7919 % 500}++ for 1 .. 3000;
    $letters += length join " ", sort keys %count;
}
print "$letters\n";
