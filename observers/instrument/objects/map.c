// SPDX-License-Identifier: GPL-2.0-or-later
#include "map.h"

#include "platform/linux.h"

// From LARGE_BYTES of the map on, an object's part of it is given back to the kernel with it. From
// HUGE_BYTES on it is one block of memory, mapped again and again.
enum { LARGE_BYTES = 1 << 20, HUGE_BYTES = 8 << 20, BLOCK_BYTES = 2 << 20, MOST_BLOCKS = 4096 };

static Bool maps_whole_objects;

static void reserve(Addr start, SizeT bytes, const HChar* what) {
  if (map_at(start, bytes, VKI_MAP_PRIVATE | VKI_MAP_ANONYMOUS | MAP_NEVER_REPLACING, -1)) return;
  VG_(umsg)
  ("no addresses for %s: is the size of address spaces limited (ulimit -v), or does the kernel "
   "refuse to overcommit (vm.overcommit_memory = 2)?\n",
   what);
  VG_(exit)(1);
}

void map_initialise(Bool whole) {
  maps_whole_objects = whole;
  const SizeT map_bytes = (SizeT)1 << (ADDRESS_BITS - 1);
  reserve(OBJECT_MAP, map_bytes, "the object map");
  reserve(EMPTY_MAP, map_bytes, "the empty map");
  reserve(OBJECT_USES, sizeof(Use) << 32, "the uses of objects");
  reserve(OBJECT_SLOTS, sizeof(Object) << SLOT_BITS, "the objects");
  use_of(0)->end = ~(Addr)0;  // so that code passes over what is no object
}

UInt object_at(Addr address) {
  if (!has_map_entry(address)) return 0;
  const UInt slot = *map_entry(address);
  return slot != 0 && object_in(slot)->address == address ? slot : 0;
}

static void fill(UInt* entry, const UInt* end, UInt slot) {
  while (entry < end) *entry++ = slot;
}

static void empty_pages(Addr start, Addr end) {
  tl_assert(map_at(start, end - start, VKI_MAP_PRIVATE | VKI_MAP_ANONYMOUS | VKI_MAP_FIXED, -1));
}

// False when the kernel does not give memory that can be mapped several times.
static Bool repeat_block(Addr start, Addr end, UInt slot) {
  SizeT block_bytes = BLOCK_BYTES;
  while ((end - start) / block_bytes > MOST_BLOCKS) block_bytes *= 2;
  const Int file = open_memory(block_bytes);
  if (file < 0) return False;
  Bool done = True;
  for (Addr at = start; done && at < end; at += block_bytes) {
    const SizeT bytes = end - at < block_bytes ? end - at : block_bytes;
    done = map_at(at, bytes, VKI_MAP_SHARED | VKI_MAP_FIXED, file);
    if (done && at == start) fill((UInt*)start, (const UInt*)(start + bytes), slot);
  }
  VG_(close)(file);
  if (!done) empty_pages(start, end);
  return done;
}

void map_fill(Addr address, SizeT size, UInt slot) {
  UInt* const entry = map_entry(address);
  if (!maps_whole_objects || size <= 8) {
    *entry = slot;
    return;
  }
  UInt* const behind = entry + (size + 7) / 8;
  const SizeT bytes = (SizeT)(behind - entry) * sizeof *entry;
  const Addr start = VG_PGROUNDUP((Addr)entry);
  const Addr end = VG_PGROUNDDN((Addr)behind);
  const Bool in_pages =
      slot == 0 ? bytes >= LARGE_BYTES : bytes >= HUGE_BYTES && repeat_block(start, end, slot);
  if (!in_pages) return fill(entry, behind, slot);
  if (slot == 0) empty_pages(start, end);
  fill(entry, (const UInt*)start, slot);
  fill((UInt*)end, behind, slot);
}
