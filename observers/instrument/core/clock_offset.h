// SPDX-License-Identifier: GPL-2.0-or-later
// Where a thread's clock lies, in bytes from its state of the program, while it is in no register:
// clock-in-register.patch. Assembly includes this too.

#define TARE_CLOCK 944
