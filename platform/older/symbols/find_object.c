// Of glibc 2.35: which object is at an address. The C library says it where it can, and else its
// list of objects, whose lock is held for no allocation.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>

extern int of_library(void* address, struct dl_find_object* found) __asm__("_dl_find_object")
    __attribute__((weak));

int tare_listed_object(void* address, struct dl_find_object* found);

static int take_if_there(struct dl_phdr_info* object, size_t size, void* data) {
  (void)size;
  struct dl_find_object* found = data;
  const uintptr_t address = (uintptr_t)found->dlfo_map_start;
  uintptr_t start = UINTPTR_MAX;
  uintptr_t end = 0;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)* part = &object->dlpi_phdr[i];
    const uintptr_t place = object->dlpi_addr + part->p_vaddr;
    if (part->p_type == PT_LOAD) {
      start = place < start ? place : start;
      end = place + part->p_memsz > end ? place + part->p_memsz : end;
    } else if (part->p_type == PT_GNU_EH_FRAME) {
      found->dlfo_eh_frame = (void*)place;
    }
  }
  if (address < start || address >= end) {
    found->dlfo_eh_frame = NULL;
    return 0;
  }
  found->dlfo_map_start = (void*)start;
  found->dlfo_map_end = (void*)end;
  // In its last words, which are reserved; their name is not the same in each glibc.
  struct link_map* map = (struct link_map*)((uint64_t*)(found + 1) - 2);
  map->l_addr = object->dlpi_addr;
  map->l_name = (char*)object->dlpi_name;
  found->dlfo_link_map = map;
  return 1;
}

int tare_listed_object(void* address, struct dl_find_object* found) {
  *found = (struct dl_find_object){.dlfo_map_start = address};
  return dl_iterate_phdr(take_if_there, found) == 1 ? 0 : -1;
}

int tare_dl_find_object(void* address, struct dl_find_object* found) {
  return of_library != NULL ? of_library(address, found) : tare_listed_object(address, found);
}
