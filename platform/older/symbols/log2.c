// Of glibc 2.29, which differs from that of before in that it calls no handler of errors.
double older_log2(double x);
__asm__(".symver older_log2, log2@GLIBC_2.2.5");

double log2(double x) { return older_log2(x); }
