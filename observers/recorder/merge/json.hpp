// Text as JSON has it.

#pragma once

#include <string>
#include <string_view>

#include "../../json_text.h"

namespace tare::recorder {

inline std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  while (!text.empty()) {
    char piece[TARE_JSON_PIECE_BYTES];
    text.remove_prefix(tare_json_piece(text.data(), text.size(), piece));
    quoted += piece;
  }
  return quoted + '"';
}

}  // namespace tare::recorder
