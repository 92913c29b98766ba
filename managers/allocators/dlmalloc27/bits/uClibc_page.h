/* uClibc mixes the links of the fast bins with their addresses, shifted by this. Lea's malloc has
   plain links, and this shift leaves nothing of an address. */

#pragma once

#define PAGE_SHIFT 63
