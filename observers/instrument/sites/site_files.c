// SPDX-License-Identifier: GPL-2.0-or-later
#include "site_files.h"

#include "output/files.h"
#include "output/table.h"

static Table* sites;
static HChar frames[PATH_BYTES];

void site_files_begin(const HChar* base) {
  table_abandon(sites);
  sites = table_create(file_path(base, "sites"), "sites", "caller frame address");
  VG_(snprintf)(frames, sizeof frames, "%s.frames", base);
  VG_(unlink)(frames);  // of a killed process that had this one's number
}

void site_files_add_site(UInt caller, UInt frame, Addr call) {
  const ULong row[] = {caller, frame, call};
  table_add(sites, row);
}

void site_files_flush(void) { table_flush(sites); }

void put_place(VgFile* file, Addr call) {
  const DiEpoch epoch = VG_(current_DiEpoch)();
  const HChar *name, *folder;
  UInt line = 0;
  VG_(fprintf)(file, "\"function\": ");
  file_put_text(file, VG_(get_fnname)(epoch, call, &name) ? name : "");
  VG_(fprintf)(file, ", \"object\": ");
  file_put_text(file, VG_(get_objname)(epoch, call, &name) ? name : "");
  static HChar source[PATH_BYTES];
  source[0] = '\0';
  if (VG_(get_filename_linenum)(epoch, call, &name, &folder, &line))
    VG_(snprintf)(source, sizeof source, "%s%s%s", folder, folder[0] == '\0' ? "" : "/", name);
  VG_(fprintf)(file, ", \"file\": ");
  file_put_text(file, source);
  const DebugInfo* const info = VG_(find_DebugInfo)(epoch, call);
  const Addr offset = info == NULL ? 0 : call - (Addr)VG_(DebugInfo_get_text_bias)(info);
  VG_(fprintf)(file, ", \"line\": %u, \"offset\": %lu", line, offset);
}

// Opened for each line: they are few, and a file that stays open would be one of the program's.
void site_files_add_frame(Addr call) {
  VgFile* const file =
      VG_(fopen)(frames, VKI_O_CREAT | VKI_O_WRONLY | VKI_O_APPEND, VKI_S_IRUSR | VKI_S_IWUSR);
  if (file == NULL) return;
  VG_(fprintf)(file, "{");
  put_place(file, call);
  VG_(fprintf)(file, "}\n");
  VG_(fclose)(file);
}
