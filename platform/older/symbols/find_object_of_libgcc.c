// For libgcc_eh.a.
struct dl_find_object;

int tare_listed_object(void* address, struct dl_find_object* found);
int of_libgcc(void* address, struct dl_find_object* found) __asm__("_dl_find_object");

int of_libgcc(void* address, struct dl_find_object* found) {
  return tare_listed_object(address, found);
}
