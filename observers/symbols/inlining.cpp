#include "inlining.hpp"

#include <dwarf.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <ranges>
#include <utility>

namespace tare::symbols {
namespace {

constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
constexpr unsigned kDeepest = 500;  // of a damaged file
constexpr std::size_t kMostInlined = 100;

std::string TextOf(Dwarf_Die* die, unsigned name) {
  Dwarf_Attribute attribute;
  const char* const text = dwarf_formstring(dwarf_attr_integrate(die, name, &attribute));
  return text != nullptr ? text : "";
}

// Where a function is declared: what a copy of it, or its definition, refers to.
Dwarf_Die DeclarationOf(Dwarf_Die die) {
  Dwarf_Attribute attribute;
  for (unsigned step = 0; step < kDeepest; ++step) {
    if (dwarf_attr(&die, DW_AT_abstract_origin, &attribute) == nullptr &&
        dwarf_attr(&die, DW_AT_specification, &attribute) == nullptr)
      break;
    if (dwarf_formref_die(&attribute, &die) == nullptr) break;
  }
  return die;
}

// Namespaces, classes and functions that a declaration lies in, each followed by ::.
std::string ScopesOf(Dwarf_Die declaration) {
  Dwarf_Die* scopes = nullptr;
  std::string text;
  const int count = dwarf_getscopes_die(&declaration, &scopes);
  for (int number = 1; number < count; ++number) {
    const int tag = dwarf_tag(&scopes[number]);
    if (tag == DW_TAG_compile_unit || tag == DW_TAG_partial_unit) break;
    if (tag == DW_TAG_lexical_block || tag == DW_TAG_inlined_subroutine) continue;
    const std::string name = TextOf(&scopes[number], DW_AT_name);
    const char* const unnamed = tag == DW_TAG_namespace ? "(anonymous namespace)" : "{lambda}";
    text.insert(0, (name.empty() ? unnamed : name) + "::");
  }
  std::free(scopes);
  return text;
}

std::string Absolute(const char* file, Dwarf_Die* unit) {
  if (file == nullptr) return "";
  Dwarf_Attribute attribute;
  const char* const folder =
      file[0] == '/' ? nullptr : dwarf_formstring(dwarf_attr(unit, DW_AT_comp_dir, &attribute));
  return folder == nullptr ? file : std::string(folder) + "/" + file;
}

Dwarf_Word NumberOf(Dwarf_Die* die, unsigned name) {
  Dwarf_Attribute attribute;
  Dwarf_Word number = 0;
  dwarf_formudata(dwarf_attr_integrate(die, name, &attribute), &number);
  return number;
}

void PutLine(Place& place, Dwarf_Die* unit, Dwarf_Addr address) {
  Dwarf_Line* const line = dwarf_getsrc_die(unit, address);
  int number = 0;
  if (line == nullptr) return;
  place.file = Absolute(dwarf_linesrc(line, nullptr, nullptr), unit);
  if (dwarf_lineno(line, &number) == 0 && number > 0)
    place.line = static_cast<std::uint32_t>(number);
}

void PutCall(Place& place, Dwarf_Die* copy, Dwarf_Die* unit) {
  Dwarf_Files* files = nullptr;
  std::size_t count = 0;
  const Dwarf_Word file = NumberOf(copy, DW_AT_call_file);
  if (dwarf_getsrcfiles(unit, &files, &count) == 0 && file < count)
    place.file = Absolute(dwarf_filesrc(files, file, nullptr, nullptr), unit);
  place.line = static_cast<std::uint32_t>(NumberOf(copy, DW_AT_call_line));
}

using Position = std::pair<Dwarf_Word, Dwarf_Word>;  // a line and a column

Position CallOf(Dwarf_Die* copy) {
  return {NumberOf(copy, DW_AT_call_line), NumberOf(copy, DW_AT_call_column)};
}

Position NameAt(Dwarf_Die* die) {
  return {NumberOf(die, DW_AT_decl_line), NumberOf(die, DW_AT_decl_column)};
}

// What the declaration of a function lies in.
Dwarf_Die AroundDeclaration(const Dwarf_Die& function) {
  Dwarf_Die declaration = DeclarationOf(function);
  Dwarf_Die* scopes = nullptr;
  const Dwarf_Die around = dwarf_getscopes_die(&declaration, &scopes) > 1 ? scopes[1] : declaration;
  std::free(scopes);
  return around;
}

bool IsOfTemplate(Dwarf_Die* function) {
  return (ScopesOf(DeclarationOf(*function)) + TextOf(function, DW_AT_name)).find('<') !=
         std::string::npos;
}

// A class and its constructors have one name, but for the arguments of templates.
bool IsConstructor(Dwarf_Die* copy) {
  Dwarf_Die around = AroundDeclaration(*copy);
  const std::string name = TextOf(copy, DW_AT_name), other = TextOf(&around, DW_AT_name);
  return name.substr(0, name.find('<')) == other.substr(0, other.find('<'));
}

// Where the last statement before a copy begins, of those in these lines of a file; 0 where there
// is none.
Position StatementBefore(Dwarf_Die* copy, Dwarf_Die* unit, const std::string& file,
                         Dwarf_Word first, Dwarf_Word last) {
  Dwarf_Lines* lines = nullptr;
  std::size_t count = 0;
  Dwarf_Addr entry = 0;
  if (dwarf_getsrclines(unit, &lines, &count) != 0 || dwarf_entrypc(copy, &entry) != 0) return {};
  const auto is_before = [&](std::size_t row) {
    Dwarf_Addr address = 0;
    return dwarf_lineaddr(dwarf_onesrcline(lines, row), &address) == 0 && address < entry;
  };
  const auto ends = [&](std::size_t row) {
    bool is_end = false;
    return dwarf_lineendsequence(dwarf_onesrcline(lines, row), &is_end) != 0 || is_end;
  };
  std::size_t row =
      *std::ranges::partition_point(std::views::iota(std::size_t{0}, count), is_before);
  while (row < count && ends(row)) ++row;
  // A view counts the rows of one address.
  row = std::min<std::size_t>(row + NumberOf(copy, DW_AT_GNU_entry_view), count);
  while (row-- > 0 && !ends(row)) {
    Dwarf_Line* const line = dwarf_onesrcline(lines, row);
    bool begins = false;
    int number = 0, column = 0;
    dwarf_linebeginstatement(line, &begins);
    dwarf_lineno(line, &number);
    dwarf_linecol(line, &column);
    const Position found(number, column);
    if (begins && first <= found.first && found.first <= last &&
        Absolute(dwarf_linesrc(line, nullptr, nullptr), unit) == file)
      return found;
  }
  return {};
}

}  // namespace

Inlining::Inlining(Dwarf* dwarf) {
  Dwarf_CU* unit = nullptr;
  Dwarf_Die lines, split;
  while (dwarf != nullptr &&
         dwarf_get_units(dwarf, unit, &unit, nullptr, nullptr, &lines, &split) == 0) {
    AddRanges(ranges_, &lines, units_.size());
    // What lies in a file of its own (-gsplit-dwarf) is not here.
    units_.push_back({lines, split.addr != nullptr ? split : lines, false, {}, {}, {}});
  }
  Sort(ranges_);
}

std::vector<Place> Inlining::At(Dwarf_Addr address) {
  std::vector<Place> places;
  const Range* const range = Find(ranges_, address);
  if (range == nullptr) return places;
  Unit& unit = units_[range->owner];
  Read(unit);
  Place place;
  PutLine(place, &unit.lines, address);
  std::size_t scope = ScopeAt(unit, address);
  while (scope != kNone && places.size() < kMostInlined) {
    Dwarf_Die* const die = &unit.scopes[scope].die;
    place.function = NameOf(unit, die);
    places.push_back(std::exchange(place, {}));
    const std::size_t inner = std::exchange(scope, unit.scopes[scope].outer);
    if (scope == kNone) break;
    PutCall(place, die, &unit.lines);
    PutStatement(place, unit, inner);
  }
  if (places.empty() && !place.file.empty()) places.push_back(place);
  return places;
}

// g++ 12 gives constructors of temporaries that it tried to compute itself the place at which their
// caller ends. A closing brace is the last place of a call, left of the statement, and no further
// right than the caller's name. The table of lines has the statement, but of functions of
// templates. The source is not read: it may be gone or changed.
void Inlining::PutStatement(Place& place, Unit& unit, std::size_t scope) {
  Dwarf_Die* const copy = &unit.scopes[scope].die;
  const std::size_t outer = unit.scopes[scope].outer;
  // Constructors return nothing. This comes first, as to look for names takes long.
  if (dwarf_hasattr(copy, DW_AT_GNU_entry_view) == 0 ||
      dwarf_hasattr_integrate(copy, DW_AT_type) != 0)
    return;
  Dwarf_Die caller = unit.scopes[outer].die;
  Position name = NameAt(&caller);
  if (name.first == 0) {  // of a lambda the class has a place
    caller = AroundDeclaration(caller);
    name = NameAt(&caller);
  }
  const Position call = CallOf(copy);
  const auto is_later = [&](Scope& other) {
    return other.outer == outer && CallOf(&other.die) > call;
  };
  if (call.first <= name.first || call.second > name.second || !IsConstructor(copy) ||
      IsOfTemplate(&unit.scopes[outer].die) || std::ranges::any_of(unit.scopes, is_later))
    return;
  const Position found = StatementBefore(copy, &unit.lines, place.file, name.first, call.first);
  if (found.first > name.first && found.second > call.second)
    place.line = static_cast<std::uint32_t>(found.first);
}

std::string Inlining::NameOf(Unit& unit, Dwarf_Die* die) {
  for (const unsigned name : {DW_AT_linkage_name, DW_AT_MIPS_linkage_name})
    // Of C it is a second name, such as __GI_fopen.
    if (const std::string symbol = TextOf(die, name); symbol.starts_with("_Z"))
      return Readable(symbol.c_str());
  const Dwarf_Die declaration = DeclarationOf(*die);
  const auto [known, is_new] = names_.try_emplace(declaration.addr);
  if (is_new) {
    const int language = dwarf_srclang(&unit.tree);
    const bool is_c = language == DW_LANG_C || language == DW_LANG_C89 || language == DW_LANG_C99 ||
                      language == DW_LANG_C11;
    known->second = (is_c ? "" : ScopesOf(declaration)) + TextOf(die, DW_AT_name);
  }
  return known->second;
}

void Inlining::Read(Unit& unit) {
  if (std::exchange(unit.is_read, true)) return;
  ReadChildren(unit, &unit.tree, kNone, kNone, 0);
  Sort(unit.ranges);
}

void Inlining::ReadChildren(Unit& unit, Dwarf_Die* parent, std::size_t function, std::size_t scope,
                            unsigned nesting) {
  Dwarf_Die die;
  if (nesting == kDeepest || dwarf_child(parent, &die) != 0) return;
  do {
    std::size_t of_function = function, of_scope = scope;
    switch (dwarf_tag(&die)) {
      case DW_TAG_subprogram: {
        const std::size_t before = unit.ranges.size();
        of_function = unit.functions.size();
        AddRanges(unit.ranges, &die, of_function);
        if (unit.ranges.size() == before) continue;
        of_scope = unit.scopes.size();
        unit.scopes.push_back({die, kNone, 0});
        unit.functions.push_back({of_scope, {}});
        break;
      }
      case DW_TAG_inlined_subroutine:
        if (function == kNone) continue;
        of_scope = unit.scopes.size();
        unit.scopes.push_back({die, scope, unit.scopes[scope].depth + 1});
        AddRanges(unit.functions[function].copies, &die, of_scope);
        break;
      case DW_TAG_class_type:
      case DW_TAG_structure_type:  // a lambda's code can lie in its type, as gcc 14 has it
        if (function == kNone) continue;
        break;
      case DW_TAG_lexical_block:
      case DW_TAG_namespace:
      case DW_TAG_module:
        break;
      default:
        continue;
    }
    ReadChildren(unit, &die, of_function, of_scope, nesting + 1);
  } while (dwarf_siblingof(&die, &die) == 0);
}

void Inlining::AddRanges(std::vector<Range>& ranges, Dwarf_Die* die, std::size_t owner) {
  Dwarf_Addr base = 0, start = 0, end = 0;
  for (std::ptrdiff_t at = 0; (at = dwarf_ranges(die, at, &base, &start, &end)) > 0;)
    if (start < end) ranges.push_back({start, end, owner});
}

void Inlining::Sort(std::vector<Range>& ranges) {
  std::ranges::stable_sort(ranges, {}, &Range::start);
}

const Inlining::Range* Inlining::Find(const std::vector<Range>& ranges, Dwarf_Addr address) {
  constexpr int kMostInside = 16;  // a function may lie in another
  auto at = std::ranges::upper_bound(ranges, address, {}, &Range::start);
  for (int looked = 0; at != ranges.begin() && looked < kMostInside; ++looked)
    if (--at; address < at->end) return &*at;
  return nullptr;
}

// The innermost.
std::size_t Inlining::ScopeAt(const Unit& unit, Dwarf_Addr address) {
  const Range* const range = Find(unit.ranges, address);
  if (range == nullptr) return kNone;
  const Function& function = unit.functions[range->owner];
  std::size_t innermost = function.scope;
  for (const Range& copy : function.copies)
    if (copy.start <= address && address < copy.end &&
        unit.scopes[copy.owner].depth > unit.scopes[innermost].depth)
      innermost = copy.owner;
  return innermost;
}

}  // namespace tare::symbols
