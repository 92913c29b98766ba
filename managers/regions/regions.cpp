// libtare-regions.so: preloaded, it serves the regions of unmodified programs in another way: those
// of libapr-1 (apr.cpp), talloc (talloc.cpp) and glibc's obstacks (obstack.cpp). malloc is left as
// it is.

#include "process.hpp"

namespace tare::regions {

void ServeTalloc();

namespace {

__attribute__((constructor)) void Constructor() {
  Begin();
  ServeTalloc();
}

}  // namespace
}  // namespace tare::regions
