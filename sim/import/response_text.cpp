// SPDX-License-Identifier: Apache-2.0
#include "sim/import/response_text.h"

namespace moesim {
namespace {

constexpr std::string_view line_blanks = " \t\r";

/// Where the brackets end that begin at `at`; npos if they do not. Texts in them are passed over.
std::size_t end_of_brackets(std::string_view line, std::size_t at) {
  bool quoted = false;
  for (int open = 0; at < line.size(); ++at) {
    if (line[at] == '"') quoted = !quoted;
    if (quoted) continue;
    open += line[at] == '[' ? 1 : line[at] == ']' ? -1 : 0;
    if (open == 0) return at + 1;
  }
  return std::string_view::npos;
}

}  // namespace

bool is_event_field(std::string_view text) {
  return text.starts_with("event:") || text.starts_with("id:") || text.starts_with("retry:") ||
         text.starts_with(":") || text.starts_with("* ") || text.starts_with("> ") ||
         text.starts_with(">\r") || text.starts_with(">\n") || text.starts_with("< ") ||
         text.starts_with("<\r") || text.starts_with("<\n");
}

std::size_t length_of_headers(std::string_view text) {
  if (!text.starts_with("HTTP/")) return 0;
  for (std::size_t end = text.find('\n'); end != std::string_view::npos;
       end = text.find('\n', end + 1)) {
    const std::size_t next = text.find_first_not_of('\r', end + 1);
    if (next != std::string_view::npos && text[next] == '\n') return next + 1;
  }
  return text.size();
}

std::size_t length_of_tags(std::string_view line) {
  std::size_t at = line.find_first_not_of(line_blanks);
  if (at == std::string_view::npos || line[at] != '[') return 0;
  while (at != std::string_view::npos && line[at] == '[') {
    at = end_of_brackets(line, at);
    if (at != std::string_view::npos) at = line.find_first_not_of(line_blanks, at);
  }
  const bool in_list = at == std::string_view::npos || line[at] == ',' || line[at] == ']';
  return in_list ? 0 : at;
}

}  // namespace moesim
