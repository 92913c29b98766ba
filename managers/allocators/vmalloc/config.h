/* What the configure script of graphviz would say of this machine. */

#define HAVE_SYS_TYPES_H 1
/* Objects are aligned for long double, to 16 bytes. */
#define _long_double 1
