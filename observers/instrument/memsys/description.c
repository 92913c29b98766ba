// SPDX-License-Identifier: GPL-2.0-or-later
// Reads models as tare/observers/memory_system.py writes them: a line for each part, words and
// numbers in a fixed order. Whoever writes models writes the TOML of docs/memsys.md, where names
// say what is what.

#include "description.h"

#define LARGEST ((ULong)1 << 40)
enum { MOST_WORDS = 12, MOST_WAYS = 1 << 20, LEAST_CHUNK = 4 };

typedef struct {
  const HChar* word[MOST_WORDS];
  UInt words;
  const HChar* wrong;
} Line;

static void split(Line* line, HChar* text) {
  line->words = 0;
  line->wrong = NULL;
  HChar* rest = NULL;
  for (HChar* word = VG_(strtok_r)(text, " ", &rest); word != NULL;
       word = VG_(strtok_r)(NULL, " ", &rest)) {
    if (line->words == MOST_WORDS) {
      line->wrong = "too many words";
      return;
    }
    line->word[line->words++] = word;
  }
}

static Bool is(const Line* line, UInt index, const HChar* word) {
  return index < line->words && VG_(strcmp)(line->word[index], word) == 0;
}

static ULong number_at(Line* line, UInt index, ULong least, ULong most) {
  if (index >= line->words) {
    line->wrong = "a number is missing";
    return least;
  }
  HChar* end;
  const ULong value = VG_(strtoull10)(line->word[index], &end);
  if (*end != '\0' || value < least || value > most) {
    line->wrong = "a number is not what it can be";
    return least;
  }
  return value;
}

static UInt power_at(Line* line, UInt index, ULong least, ULong most) {
  const ULong value = number_at(line, index, least, most);
  if ((value & (value - 1)) != 0) line->wrong = "a size is not a power of two";
  return (UInt)value;
}

static Bool choice_at(Line* line, UInt index, const HChar* yes, const HChar* no) {
  if (!is(line, index, yes) && !is(line, index, no)) line->wrong = "a word is not known";
  return is(line, index, yes);
}

// cache LEVEL HOLDS SETS WAYS LINE fetch|around back|through inclusive|free
static void read_cache(Line* line, Model* model) {
  const UInt level = (UInt)number_at(line, 1, 1, MOST_LEVELS);
  const ULong sets = number_at(line, 3, 1, LARGEST);
  const UInt ways = (UInt)number_at(line, 4, 1, MOST_WAYS);
  const UInt bytes = power_at(line, 5, LEAST_CHUNK, 1 << 16);
  const Bool fetches = choice_at(line, 6, "fetch", "around");
  const Bool through = choice_at(line, 7, "through", "back");
  const Bool includes = choice_at(line, 8, "inclusive", "free");
  const Bool of_instructions = is(line, 2, "instructions");
  if (level == 1 && (sets & (sets - 1)) != 0)
    line->wrong = "the sets of the first level are not a power of two";
  if (sets > LARGEST / ways) line->wrong = "a cache is too large";
  if (line->wrong != NULL) return;
  Cache* const cache = level > 1         ? &model->below[level - 2]
                       : of_instructions ? &model->instruction
                                         : &model->data;
  cache_initialise(cache, sets, ways, bytes);
  cache->fetches_writes = fetches;
  cache->writes_through = through;
  cache->includes_above = includes;
  if (level == 1 && is(line, 2, "both")) model->unified = True;
  if (level > model->levels) model->levels = level;
}

// tlb HOLDS SETS WAYS PAGE
static void read_pages(Line* line, Model* model) {
  const ULong sets = number_at(line, 2, 1, 1 << 20);
  const UInt ways = (UInt)number_at(line, 3, 1, MOST_WAYS);
  const UInt bytes = power_at(line, 4, 512, 1 << 30);
  if (line->wrong != NULL) return;
  const Bool of_instructions = is(line, 1, "instructions");
  cache_initialise(of_instructions ? &model->instruction_pages : &model->data_pages, sets, ways,
                   bytes);
  if (is(line, 1, "both")) model->unified_pages = True;
  if (!is(line, 1, "data")) model->translates_fetches = True;
  if (!of_instructions) model->translates_data = True;
}

// buffer ENTRIES WIDTH PAGE SAME_PAGE_CYCLES OTHER_PAGE_CYCLES READ_FETCH FETCH_MISS READ_MISS
static void read_buffer(Line* line, Model* model) {
  WriteBuffer* const buffer = &model->buffer;
  buffer->entries = (UInt)number_at(line, 1, 1, MOST_ENTRIES);
  buffer->width_shift = 31 - (UInt)__builtin_clz(power_at(line, 2, 1, 64));
  buffer->page_shift = 31 - (UInt)__builtin_clz(power_at(line, 3, 1, 1 << 30));
  buffer->same_page_cycles = (UInt)number_at(line, 4, 0, 1000000);
  buffer->other_page_cycles = (UInt)number_at(line, 5, 0, 1000000);
  buffer->last_page = NO_LINE;
  model->read_fetch_shift = 31 - (UInt)__builtin_clz(power_at(line, 6, LEAST_CHUNK, 1 << 16));
  model->fetch_miss_cycles = (UInt)number_at(line, 7, 0, 1000000);
  model->read_miss_cycles = (UInt)number_at(line, 8, 0, 1000000);
}

static void prepare(Model* model) {
  for (UInt i = 0; i < QUICK_HINTS; ++i) model->quick_data[i] = model->data.slots;
}

static const HChar* check(const Model* model) {
  if (model->data.slots == NULL) return "a model has no cache for data";
  if (!model->unified && model->instruction.slots == NULL)
    return "a model has no cache for instructions";
  for (UInt level = 1; level < model->levels; ++level)
    if (model->below[level - 1].slots == NULL) return "a model leaves out a level";
  if (model->buffer.entries > 0 &&
      (model->levels > 1 || model->translates_data || model->translates_fetches))
    return "a model with a write buffer has more than one level";
  if (model->buffer.entries > 0 && model->read_fetch_shift < model->data.shift)
    return "a read miss fetches less than a line";
  return NULL;
}

static void read_phase(Line* line, PhaseNames* phases) {
  if (line->words != 2 || phases->used == MOST_PHASES)
    line->wrong = "too many phases, or one without a name";
  else
    phases->name[phases->used++] = line->word[1];
}

static void read_part(Line* line, Description* description) {
  if (is(line, 0, "curve")) {
    CurveDescription* const curve = &description->curves[description->curves_used];
    if (description->curves_used == MOST_CURVES) {
      line->wrong = "too many curves";
      return;
    }
    curve->of_instructions = choice_at(line, 1, "instructions", "data");
    curve->line_bytes = power_at(line, 2, LEAST_CHUNK, 1 << 16);
    ++description->curves_used;
  } else if (is(line, 0, "window")) {
    description->window_instructions = number_at(line, 1, 1, LARGEST);
  } else if (is(line, 0, "collecting")) {
    read_phase(line, &description->collecting);
  } else if (is(line, 0, "collector")) {
    read_phase(line, &description->collector);
  } else if (is(line, 0, "by-instruction")) {
    description->charges_instructions = True;
  } else if (is(line, 0, "model")) {
    if (description->models_used == MOST_MODELS || line->words != 2) {
      line->wrong = "too many models, or one without a name";
      return;
    }
    Model* const model = &description->models[description->models_used++];
    VG_(memset)(model, 0, sizeof *model);
    VG_(strncpy)(model->name, line->word[1], NAME_BYTES - 1);
  } else if (description->models_used == 0) {
    line->wrong = "a model must come first";
  } else {
    Model* const model = &description->models[description->models_used - 1];
    if (is(line, 0, "cache"))
      read_cache(line, model);
    else if (is(line, 0, "tlb"))
      read_pages(line, model);
    else if (is(line, 0, "buffer"))
      read_buffer(line, model);
    else if (is(line, 0, "whole"))
      model->whole_accesses = True;
    else
      line->wrong = "a line begins with a word that is not known";
  }
}

const HChar* description_read(HChar* text, Description* description) {
  HChar* rest = NULL;
  for (HChar* words = VG_(strtok_r)(text, "\n", &rest); words != NULL;
       words = VG_(strtok_r)(NULL, "\n", &rest)) {
    Line line;
    split(&line, words);
    if (line.wrong == NULL) read_part(&line, description);
    if (line.wrong != NULL) return line.wrong;
  }
  for (UInt i = 0; i < description->models_used; ++i) {
    const HChar* const wrong = check(&description->models[i]);
    if (wrong != NULL) return wrong;
    prepare(&description->models[i]);
    description->models[i].number = i;
  }
  if (description->models_used == 0) return "there is no model";
  return NULL;
}
