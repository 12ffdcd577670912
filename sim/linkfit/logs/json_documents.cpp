// SPDX-License-Identifier: Apache-2.0
#include "sim/linkfit/logs/json_documents.h"

#include <algorithm>

namespace moesim {
namespace {

constexpr std::string_view json_blanks = " \t\r\n";

/// Whether an object with keys, or a list of objects, begins there.
bool begins_document(std::string_view text, std::size_t at) {
  const std::size_t next = text.find_first_not_of(json_blanks, at + 1);
  if (next == std::string_view::npos) return false;
  return text[at] == '{' ? text[next] == '"' || text[next] == '}'
                         : text[at] == '[' && text[next] == '{';
}

/// Behind the bracket that closes what begins there.
std::size_t end_of(std::string_view text, std::size_t at) {
  int depth = 0;
  bool quoted = false;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (quoted) {
      if (c == '\\') ++at;
      quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      if (--depth == 0) return at + 1;
    }
  }
  return text.size();
}

}  // namespace

std::vector<JsonDocument> json_documents(std::string_view text) {
  std::vector<JsonDocument> documents;
  int line = 1;
  std::size_t counted = 0;
  for (std::size_t at = text.find_first_not_of(json_blanks); at != std::string_view::npos;) {
    std::size_t end = std::min(text.find('\n', at), text.size());
    if (begins_document(text, at)) {
      line += static_cast<int>(std::count(text.begin() + static_cast<std::ptrdiff_t>(counted),
                                          text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
      counted = at;
      end = end_of(text, at);
      documents.push_back({line, text.substr(at, end - at)});
    }
    at = text.find_first_not_of(json_blanks, end);
  }
  return documents;
}

}  // namespace moesim
