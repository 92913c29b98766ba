// SPDX-License-Identifier: GPL-2.0-or-later
#include "files.h"

#include "../../json_text.h"

enum { MOST_IMAGES = 100000 };

static Bool exists(const HChar* file) {
  struct vg_stat status;
  return !sr_isError(VG_(stat)(file, &status));
}

const HChar* file_path(const HChar* base, const HChar* ending) {
  static HChar path[PATH_BYTES];
  VG_(snprintf)(path, sizeof path, "%s.%s", base, ending);
  return path;
}

void file_claim(const HChar* folder, const HChar* ending, HChar base[PATH_BYTES]) {
  for (UInt image = 0; image < MOST_IMAGES; ++image) {
    VG_(snprintf)(base, PATH_BYTES, "%s/%d.%u", folder, VG_(getpid)(), image);
    if (!exists(file_path(base, ending))) return;
  }
}

static const HChar* unfinished(const HChar* path) {
  static HChar name[PATH_BYTES];
  VG_(snprintf)(name, sizeof name, "%s.part", path);
  return name;
}

VgFile* file_begin(const HChar* path) {
  VgFile* const file = VG_(fopen)(unfinished(path), VKI_O_CREAT | VKI_O_WRONLY | VKI_O_TRUNC,
                                  VKI_S_IRUSR | VKI_S_IWUSR);
  if (file == NULL) VG_(umsg)("cannot write %s\n", path);
  return file;
}

void file_end(VgFile* file, const HChar* path) {
  VG_(fclose)(file);
  if (VG_(rename)(unfinished(path), path) != 0) VG_(umsg)("cannot write %s\n", path);
}

static void put_piece(void* file, const HChar* piece) { VG_(fprintf)(file, "%s", piece); }

void file_put_text(VgFile* file, const HChar* text) {
  tare_json_string(text, VG_(strlen)(text), put_piece, file);
}

void file_put_process(VgFile* file) {
  VG_(fprintf)
  (file, "\"pid\": %d, \"parent\": %d,\n \"program\": ", VG_(getpid)(), VG_(getppid)());
  file_put_text(file, VG_(args_the_exename));
}
