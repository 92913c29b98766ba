// Of glibc 2.32, for libstdc++.a: perhaps there are threads.
char __libc_single_threaded = 0;
