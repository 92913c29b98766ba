// SPDX-License-Identifier: GPL-2.0-or-later
// What Valgrind's configure would find out, of what the core asks on Linux on amd64, x86 and arm64.

#define HAVE_BUILTIN_CLZ 1
#define HAVE_BUILTIN_CTZ 1
#define HAVE_BUILTIN_POPCOUT 1
#define HAVE_ELF32_CHDR 1
#define HAVE_ELF64_CHDR 1
#define HAVE_MREMAP 1
#define VERSION TARE_VALGRIND_VERSION
#define VG_TMPDIR "/tmp"
