/* Hoard looks for a header at each object's address rounded down to 256 KiB, also where the object
   is of its buffer in .bss, which serves until the heap is there. What lies below the object of a
   process cannot always be read (Linux aligns large mappings, from 6.7 on), and the look ended
   programs. This comes first in .bss, and lies below the buffer. */
__attribute__((used)) static char room_below_the_buffer[256 << 10];
