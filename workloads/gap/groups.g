# Permutation groups, character tables, polynomials and words, as a computer algebra session does.
primes := Filtered([10 ^ 6 .. 10 ^ 6 + 3000], IsPrimeInt);;
Print(Length(primes), " ", Sum(primes), "\n");
cube := Group(
  (1, 3, 8, 6)(2, 5, 7, 4)(9, 33, 25, 17)(10, 34, 26, 18)(11, 35, 27, 19),
  (9, 11, 16, 14)(10, 13, 15, 12)(1, 17, 41, 40)(4, 20, 44, 37)(6, 22, 46, 35),
  (17, 19, 24, 22)(18, 21, 23, 20)(6, 25, 43, 16)(7, 28, 42, 13)(8, 30, 41, 11),
  (25, 27, 32, 30)(26, 29, 31, 28)(3, 38, 43, 19)(5, 36, 45, 21)(8, 33, 48, 24),
  (33, 35, 40, 38)(34, 37, 39, 36)(3, 9, 46, 32)(2, 12, 47, 29)(1, 14, 48, 27),
  (41, 43, 48, 46)(42, 45, 47, 44)(14, 22, 30, 38)(15, 23, 31, 39)(16, 24, 32, 40));;
Print(Size(cube), "\n");
Print(Size(Centre(cube)), " ", List(Orbits(cube, [1 .. 48]), Length), "\n");
for degree in [5 .. 8] do
  group := SymmetricGroup(degree);
  Print(degree, " ", Size(group), " ", Length(ConjugacyClasses(group)), " ",
    Length(ConjugacyClasses(AlternatingGroup(degree))), "\n");
od;
wreath := WreathProduct(SymmetricGroup(4), SymmetricGroup(5));;
Print(Size(wreath), " ", Size(SylowSubgroup(wreath, 2)), " ", Length(DerivedSeries(wreath)), "\n");
Print(Size(GL(3, 5)), " ", Length(ConjugacyClasses(GL(2, 9))), "\n");
free := FreeGroup("a", "b");;
finite := free / [free.1 ^ 2, free.2 ^ 3, (free.1 * free.2) ^ 7, Comm(free.1, free.2) ^ 8];;
Print(Size(finite), " ", Length(Irr(SymmetricGroup(6))), "\n");
x := Indeterminate(Rationals, "x");;
Print(List([20, 24, 30], n -> Length(Factors(x ^ n - 1))), "\n");
matrix := List([1 .. 60], i -> List([1 .. 60], j -> (i * j + i ^ 2 + j) mod 97));;
Print(RankMat(matrix), " ", Sum(List([1 .. 2000], n -> Phi(n))), "\n");
words := List([1 .. 20000], n -> List([1 .. 12], i -> (n * i * i + 7 * i) mod 26));;
Print(Length(Set(words)), " ", Length(Collected(Concatenation(words))), "\n");
QUIT_GAP(0);
