// SPDX-License-Identifier: Apache-2.0
#include "sim/base/plain_line.h"

#include <algorithm>
#include <string_view>

namespace moesim {
namespace {

/// Without "[1,0]<stdout>:" and the like, each two blanks.
std::string without_tags(std::string_view line) {
  constexpr std::size_t longest = 200;  // tags name hosts
  constexpr std::string_view stream = "]<std";
  std::string plain;
  std::size_t from = 0;
  for (std::size_t at = line.find(stream); at != line.npos; at = line.find(stream, at + 1)) {
    const std::size_t begin = std::max(from, at - std::min(at, longest));
    const std::size_t open = line.substr(begin, at - begin).rfind('[');
    const std::size_t end = line.substr(at, 12).find(">:");
    if (begin > at || open == line.npos || end == line.npos) continue;
    plain += line.substr(from, begin + open - from);
    plain += "  ";
    from = at + end + 2;
  }
  plain += line.substr(from);
  return plain;
}

void replace_all(std::string& text, std::string_view what, std::string_view by) {
  for (std::size_t at = text.find(what); at != text.npos; at = text.find(what, at + by.size())) {
    text.replace(at, what.size(), by);
  }
}

/// Without "<stdout rank="0">" and "&#010;</stdout>" of mpirun --xml.
std::string without_xml(std::string line) {
  if (!line.starts_with("<stdout ") && !line.starts_with("<stderr ")) return line;
  const std::size_t begin = line.find('>');
  const std::size_t end = line.rfind("</std");
  if (begin == line.npos || end == line.npos || end < begin) return line;
  line = line.substr(begin + 1, end - begin - 1);
  replace_all(line, "&#010;", "");
  replace_all(line, "&lt;", "<");
  replace_all(line, "&gt;", ">");
  replace_all(line, "&amp;", "&");
  return line;
}

}  // namespace

std::string plain_line(const std::string& line) {
  std::string plain;
  for (std::size_t at = 0; at < line.size(); ++at) {
    if (line[at] == '\r') {
      plain += ' ';
    } else if (line.compare(at, 2, "\xc2\xa0") == 0) {  // a blank that browsers copy
      plain += ' ';
      ++at;
    } else if (line[at] != '\x1b') {
      plain += line[at];
    } else if (at + 1 < line.size() && line[at + 1] == '[') {
      at = std::min(line.find_first_not_of("0123456789;?", at + 2), line.size());
    } else {
      ++at;  // of two characters
    }
  }
  return without_tags(without_xml(std::move(plain)));
}

}  // namespace moesim
