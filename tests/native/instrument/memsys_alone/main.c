// SPDX-License-Identifier: GPL-2.0-or-later
// The memory-system simulator without Valgrind: models from the file that is named, accesses from
// standard input, counts to standard output.
//
//   i ADDRESS SIZE   an instruction        r|w ADDRESS SIZE   an access of the latest instruction
//   o NUMBER CALLER  an operation begins, 0: the program goes on
//   p NUMBER         a phase begins        e                  the block of code ends
// A number of phases that are told apart is the sum of their bits, which are their names.
// Addresses are hexadecimal, the other numbers decimal.

#include "memsys/results.h"
#include "memsys/simulator.h"

static Draft draft;
static ULong addresses[MOST_ACCESSES];  // of the first access of each place
static ULong stream[STREAM_WORDS];
static ULong* word = stream;
static Step step;  // the next: whom it charges

static void drain(void) {
  step.word = stream;
  step.end = word;
  simulator_take(&step);
  step.calls = 0;
  word = stream;
}

static void close_basic_block(void) {
  if (draft.instructions == 0) return;
  if (draft.places > 0) addresses[draft.places - 1] += (ULong)(PtrdiffT)draft.lowest;
  if (word + 1 + draft.places > stream + STREAM_WORDS) drain();
  Bool is_new;
  const BasicBlock* const block = basic_block_of(&draft, &is_new);
  if (is_new) basic_block_link(block);
  *word++ = (ULong)block;
  for (UInt i = 0; i < draft.places; ++i) *word++ = addresses[i];
  draft_clear(&draft);
}

static void add_access(ULong address, UInt size, UInt flags) {
  if (draft.places > 0) {
    ULong* const latest = &addresses[draft.places - 1];
    if (draft_access_beside(&draft, (PtrdiffT)(address - *latest), size, flags)) return;
    *latest += (ULong)(PtrdiffT)draft.lowest;
  }
  addresses[draft.places] = address;
  draft_access(&draft, size, flags);
}

static const HChar* operation_name(UInt operation) {
  static HChar name[16];
  snprintf(name, sizeof name, "%u", operation);
  return name;
}

static void write_phase(VgFile* file, ULong phase) {
  fprintf(file, phase == 0 ? "\"\"" : "\"%llu\"", phase);
}

// The bits of a phase are its name.
static ULong phase_bit(const HChar* name) { return strtoull(name, NULL, 10); }

static void write_row(void* separator, const ULong* row) {
  const HChar** const before = separator;
  fputs(*before, stdout);
  for (UInt i = 0; i < OCCURRENCE_COLUMNS; ++i) printf("%s%llu", i > 0 ? ", " : "[", row[i]);
  fputs("]", stdout);
  *before = ", ";
}

static void write_caller(VgFile* file, Addr caller) { fprintf(file, "\"address\": %lu", caller); }

int main(int argc, char** argv) {
  static HChar text[1 << 16];
  FILE* const models = argc == 2 ? fopen(argv[1], "r") : NULL;
  if (models == NULL) return 2;
  text[fread(text, 1, sizeof text - 1, models)] = '\0';
  fclose(models);
  const HChar* const wrong = simulator_read(text);
  if (wrong != NULL) {
    puts(wrong);
    return 1;
  }
  simulator_find_phases(phase_bit);
  const FetchRules rules = simulator_fetch_rules();
  char kind;
  unsigned long first, second;
  char line[100];
  while (fgets(line, sizeof line, stdin) != NULL) {
    first = second = 0;
    if (sscanf(line, line[0] == 'o' || line[0] == 'p' ? "%c %lu %lx" : "%c %lx %lu", &kind, &first,
               &second) < 1)
      return 2;
    if (kind == 'i') {
      if (!draft_has_room(&draft)) close_basic_block();
      draft_instruction(&draft, first, (UInt)second, &rules);
    } else if (kind == 'r' || kind == 'w') {
      add_access(first, (UInt)second, kind == 'w' ? WRITES : 0);
    } else {
      close_basic_block();
      if (kind == 'p') step.phase = first;
      if (kind == 'o') {
        step.operation = (UInt)first;
        step.caller = second;
      }
      if (kind != 'e') drain();
      if (kind == 'o') step.calls = 1;
    }
  }
  close_basic_block();
  drain();
  const Describer describer = {operation_name, write_phase, write_caller};
  fputs("{", stdout);
  results_write(stdout, &describer);
  fputs(", \"occurrences\": [", stdout);
  const HChar* separator = "";
  results_visit_occurrences(write_row, &separator);
  fputs("]}\n", stdout);
  return 0;
}
