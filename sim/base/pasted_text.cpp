// SPDX-License-Identifier: Apache-2.0
#include "sim/base/pasted_text.h"

#include <algorithm>
#include <functional>
#include <map>
#include <sstream>
#include <string_view>

#include "sim/base/plain_line.h"

namespace moesim {
namespace {

using Lines = std::vector<std::string>;

bool is_empty(std::string_view line) { return line.find_first_not_of(" \t") == line.npos; }

std::ptrdiff_t filled(const Lines& lines) {
  return std::ranges::count_if(lines, [](const std::string& line) { return !is_empty(line); });
}

/// Programs of a launcher and errors of it print lines between those of a text.
bool are_most(std::ptrdiff_t some, std::ptrdiff_t all) { return some > 1 && some * 5 >= all * 4; }

/// Whether the text has digits where the pattern has 0, and else the pattern's characters.
bool fits(std::string_view text, std::string_view pattern) {
  return text.size() >= pattern.size() &&
         std::ranges::equal(text.substr(0, pattern.size()), pattern, [](char c, char p) {
           return p == '0' ? c >= '0' && c <= '9' : c == p;
         });
}

/// Takes the first of these beginnings off that is there.
bool skip(std::string_view& rest, std::initializer_list<std::string_view> patterns) {
  for (const std::string_view pattern : patterns) {
    if (!fits(rest, pattern)) continue;
    rest.remove_prefix(pattern.size());
    return true;
  }
  return false;
}

bool skip_date(std::string_view& rest) {
  constexpr std::string_view months = "JanFebMarAprMayJunJulAugSepOctNovDec";
  const std::size_t month = rest.size() > 7 ? months.find(rest.substr(0, 3)) : months.npos;
  if (month != months.npos && month % 3 == 0) {
    rest.remove_prefix(3);
    return skip(rest, {" 00 ", "  0 "});
  }
  return !skip(rest, {"0000-00-00", "0000/00/00"}) || skip(rest, {"T", " "});
}

/// "INFO ", "[INFO] ", "- root - INFO - " and the like, with one blank behind them.
void skip_level(std::string_view& rest) {
  constexpr std::size_t longest = 40;
  for (const std::string_view level : {"INFO", "DEBUG", "WARNING", "ERROR"}) {
    const std::size_t at = rest.substr(0, longest).find(level);
    if (at == rest.npos) continue;
    const bool dashes = rest.starts_with("- ");
    rest.remove_prefix(at + level.size());
    skip(rest, {"]", ":"});
    if (dashes) skip(rest, {" -"});
    skip(rest, {" "});
    return;
  }
}

/// "    12\t", as cat -n prints it.
std::size_t number_before(std::string_view line) {
  std::string_view rest = line.substr(std::min(line.find_first_not_of(' '), line.size()));
  if (!skip(rest, {"0"})) return 0;
  while (skip(rest, {"0"})) continue;
  return skip(rest, {"\t"}) ? line.size() - rest.size() : 0;
}

/// The length of "2026-01-03T10:22:33.1Z stdout F ", "[10:22:33] INFO " and the like.
std::size_t time_before(std::string_view line) {
  std::string_view rest = line;
  const bool bracket = skip(rest, {"["});
  if (!skip_date(rest) || !skip(rest, {"00:00:00"})) return 0;
  if (skip(rest, {".", ","})) {
    while (skip(rest, {"0"})) continue;
  }
  skip(rest, {"Z", "+00:00", "-00:00", "+0000", "-0000"});
  if (bracket && !skip(rest, {"]"})) return 0;
  skip(rest, {":"});
  if (!rest.empty() && !skip(rest, {" ", "\t"})) return 0;
  skip(rest, {"stdout F ", "stdout P ", "stderr F ", "stderr P ", "stdout F", "stderr F"});
  skip_level(rest);
  return line.size() - rest.size();
}

std::size_t quote_before(std::string_view line) {
  const std::size_t end = std::min(line.find_first_not_of('>'), line.size());
  return end > 0 && end < line.size() && line[end] == ' ' ? end + 1 : end;
}

bool is_name(std::string_view word) {
  return !word.empty() && word.front() != '-' && word.find_first_of("\"'<>{}=#|,") == word.npos;
}

/// "n1: ", "[n1] ", "(worker-0) ", "node1  | ", "n1 kernel[1]: " with the blank that ends it, if
/// the line goes on.
std::size_t name_before(std::string_view line) {
  const auto with_blank = [&](std::size_t end) { return std::min(end + 1, line.size()); };
  if (line.starts_with('[') || line.starts_with('(')) {
    const std::size_t close = line.find(line.front() == '[' ? ']' : ')');
    if (close == line.npos || !is_name(line.substr(1, close - 1))) return 0;
    const std::size_t end = close + 1;
    return end == line.size() || line[end] == ' ' ? with_blank(end) : 0;
  }
  const std::size_t blank = std::min(line.find(' '), line.size());
  const std::string_view first = line.substr(0, blank);
  if (!is_name(first) || first.find('\t') != first.npos) return 0;
  if (first.back() == ':') return with_blank(blank);
  const std::size_t next = std::min(line.find_first_not_of(' ', blank), line.size());
  if (next < line.size() && line[next] == '|') return with_blank(next + 1);
  const std::size_t end = std::min(line.find(' ', next), line.size());
  return line.substr(next, end - next).ends_with("]:") ? with_blank(end) : 0;
}

std::string trimmed_end(std::string_view text) {
  return std::string(text.substr(0, text.find_last_not_of(" \t") + 1));
}

/// How many lines each name is before.
std::map<std::string, std::ptrdiff_t> counts_of_names(const Lines& lines) {
  std::map<std::string, std::ptrdiff_t> counts;
  for (const std::string& line : lines) {
    const std::size_t length = name_before(line);
    if (length > 0) ++counts[trimmed_end(std::string_view(line).substr(0, length))];
  }
  return counts;
}

/// Takes off what nearly all lines begin with, of one kind.
bool take_off(Lines& lines, const std::function<std::size_t(const std::string&)>& length) {
  if (!are_most(std::ranges::count_if(lines, [&](const auto& line) { return length(line) > 0; }),
                filled(lines))) {
    return false;
  }
  for (std::string& line : lines) line.erase(0, length(line));
  return true;
}

bool take_name_off(Lines& lines) {
  const auto counts = counts_of_names(lines);
  const auto most = std::ranges::max_element(
      counts, {},
      [](const std::pair<const std::string, std::ptrdiff_t>& one) { return one.second; });
  if (most == counts.end()) return false;
  return take_off(lines, [&](const std::string& line) {
    const std::size_t end = name_before(line);
    return end > 0 && trimmed_end(std::string_view(line).substr(0, end)) == most->first ? end : 0;
  });
}

/// What a mail has besides its quote goes, too.
bool take_quote_off(Lines& lines) {
  const auto quoted =
      std::ranges::count_if(lines, [](const std::string& line) { return quote_before(line) > 0; });
  if (quoted < 2 || quoted * 2 < filled(lines)) return false;
  for (std::string& line : lines)
    line.erase(0, quote_before(line) > 0 ? quote_before(line) : line.npos);
  return true;
}

void take_indent_off(Lines& lines) {
  const std::string* first = nullptr;
  std::size_t indent = 0;
  for (const std::string& line : lines) {
    if (is_empty(line)) continue;
    const std::size_t own = line.find_first_not_of(" \t");
    if (!first) indent = own;
    if (!first) first = &line;
    const auto [a, b] = std::ranges::mismatch(*first, line);
    indent = std::min({indent, own, static_cast<std::size_t>(b - line.begin())});
  }
  if (indent == 0) return;
  for (std::string& line : lines) line.erase(0, indent);
}

/// "$ cat f", "root@n1:~# cat f", "[root@n1 ~]# cat f", "(base) n1:~$".
bool is_prompt(std::string_view line) {
  for (const std::string_view sign : {"$ ", "+ ", "\xe2\x9e\x9c ", "\xe2\x9d\xaf "}) {
    if (line.starts_with(sign) || line == sign.substr(0, sign.size() - 1)) return true;
  }
  if (line.starts_with("(") && line.find(") ") != line.npos)
    line.remove_prefix(line.find(") ") + 2);
  std::size_t sign = line.find_first_of("#$%>");
  if (sign == 0 || sign == line.npos) return false;
  if (sign + 1 < line.size() && line[sign + 1] != ' ') return false;
  const std::string_view before = line.substr(0, sign);
  if (before.starts_with("PS ") || before.find(":\\") == 1) return true;
  if (before.find_first_of("\"'<={}") != before.npos) return false;
  const std::size_t at = before.find('@');
  const bool host = (at != before.npos && at > 0) || before.find(":~") != before.npos;
  return host &&
         (before.find(' ') == before.npos || (before.front() == '[' && before.back() == ']'));
}

/// Comments before XML, which has none of that form, are prompts of root.
void take_prompts_off(Lines& lines) {
  for (std::string& line : lines) {
    if (is_prompt(trimmed_end(line))) line.clear();
  }
  const auto is_comment = [](const std::string& line) { return is_empty(line) || line[0] == '#'; };
  const auto first = std::ranges::find_if_not(lines, is_comment);
  if (first == lines.end() || !first->starts_with('<')) return;
  std::for_each(lines.begin(), first, [](std::string& line) { line.clear(); });
}

bool is_fence(std::string_view line) {
  const std::size_t first = line.find_first_not_of(' ');
  return first < 4 &&
         (line.substr(first).starts_with("```") || line.substr(first).starts_with("~~~"));
}

/// Keeps what is between fences; one alone was copied with what it ends or begins.
void take_fences_off(Lines& lines) {
  const bool pairs = std::ranges::count_if(lines, is_fence) > 1;
  bool inside = false;
  for (std::string& line : lines) {
    const bool fence = is_fence(line);
    if (fence) inside = !inside;
    if (fence || (pairs && !inside)) line.clear();
  }
}

/// Three lines before the output of each machine, as clush -b and dshbak print them.
void take_headings_off(Lines& lines) {
  const auto is_rule = [](const std::string& line) {
    return line.size() >= 8 && trimmed_end(line).find_first_not_of('-') == line.npos;
  };
  for (std::size_t i = 2; i < lines.size(); ++i) {
    if (!is_rule(lines[i - 2]) || is_rule(lines[i - 1]) || !is_rule(lines[i])) continue;
    for (std::size_t back = 0; back < 3; ++back) lines[i - back].clear();
  }
}

void take_marks_off(Lines& lines) {
  constexpr int most_nested = 8;
  take_prompts_off(lines);
  for (int i = 0; i < most_nested; ++i) {
    take_indent_off(lines);
    const bool any = take_quote_off(lines) || take_off(lines, time_before) ||
                     take_off(lines, number_before) || take_name_off(lines);
    if (!any) break;
  }
}

Lines plain_lines(const std::string& text) {
  Lines lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(plain_line(line));
  return lines;
}

}  // namespace

std::string as_printed(const std::string& text) {
  Lines lines = plain_lines(text);
  if (lines.size() < 2) return text;
  take_headings_off(lines);
  take_marks_off(lines);
  take_fences_off(lines);
  take_marks_off(lines);
  std::string out;
  for (const std::string& line : lines) out += line + '\n';
  return out;
}

std::vector<std::string> names_before_lines(const std::string& text) {
  const Lines lines = plain_lines(text);
  std::vector<std::string> names;
  std::ptrdiff_t named = 0;
  for (const auto& [name, count] : counts_of_names(lines)) {
    if (count < 3) continue;
    named += count;
    names.push_back(name);
  }
  return are_most(named, filled(lines)) ? names : std::vector<std::string>();
}

}  // namespace moesim
