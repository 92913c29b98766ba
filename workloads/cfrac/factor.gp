\\ Factors products of two large primes of 35 digits together, as long as cfrac's.
{
  my(n);
  for (i = 1, 4,
    n = nextprime(10^17 * i + 12345) * nextprime(3 * 10^16 * (i + 7) + 999);
    print(n, " = ", factorint(n, 1)~));
}
