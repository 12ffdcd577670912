// SPDX-License-Identifier: Apache-2.0
#include "sim/linkfit/logs/nccl_lines.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "sim/base/lower_case.h"
#include "sim/base/read_number.h"

namespace moesim {
namespace {

constexpr std::string_view blanks = " \t\v\f\r\n";

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool all_digits(std::string_view word) {
  return !word.empty() && std::ranges::all_of(word, is_digit);
}

/// Bytes of a data type of nccl-tests or rccl-tests, of any version; 0 for other words.
int type_width(std::string_view word) {
  constexpr std::array<std::pair<std::string_view, int>, 20> types = {{
      {"int8", 1},     {"uint8", 1},  {"char", 1},   {"fp8", 1},    {"fp8_e4m3", 1},
      {"fp8_e5m2", 1}, {"f8e4m3", 1}, {"f8e5m2", 1}, {"half", 2},   {"float16", 2},
      {"bfloat16", 2}, {"int", 4},    {"int32", 4},  {"uint32", 4}, {"float", 4},
      {"float32", 4},  {"int64", 8},  {"uint64", 8}, {"double", 8}, {"float64", 8},
  }};
  const auto at = std::ranges::find(types, word, &std::pair<std::string_view, int>::first);
  return at == types.end() ? 0 : at->second;
}

/// A number that no measurement has.
bool is_odd(std::string_view word) {
  return word == "nan" || word == "-nan" || word == "inf" || word == "-inf";
}

/// Where a time in brackets begins that ends the text, "[2026-11-30 19:57:12.123] "; else its size.
std::size_t before_time(std::string_view text) {
  const std::size_t last = text.find_last_not_of(blanks);
  const std::size_t open = text.rfind('[');
  if (last == std::string_view::npos || text[last] != ']' || open == std::string_view::npos) {
    return text.size();
  }
  const std::string_view inner = text.substr(open + 1, last - open - 1);
  const bool time = inner.find(':') != std::string_view::npos &&
                    inner.find_first_not_of("0123456789-:./TZ+, ") == std::string_view::npos;
  return time ? open : text.size();
}

/// "host:pid:tid".
bool is_process(std::string_view word) {
  const std::size_t last = word.rfind(':');
  if (last == std::string_view::npos || last == 0) return false;
  const std::size_t first = word.rfind(':', last - 1);
  return first != std::string_view::npos && first > 0 && all_digits(word.substr(last + 1)) &&
         all_digits(word.substr(first + 1, last - first - 1));
}

/// Where the n-th word of a line ends.
std::size_t end_of_word(std::string_view line, std::size_t n) {
  std::size_t at = line.find_first_not_of(blanks);
  for (; n > 0; --n) at = line.find_first_not_of(blanks, line.find_first_of(blanks, at));
  return std::min(line.find_first_of(blanks, at), line.size());
}

/// How much of a word belongs to a row whose end NCCL printed into: "-1n1:4000:4100".
std::size_t glued(std::string_view word) {
  if (word.starts_with("-1")) return 2;
  const auto letter = std::ranges::find_if_not(word, is_digit);
  return letter != word.end() && *letter != ':' && *letter != '.' && *letter != '-'
             ? static_cast<std::size_t>(letter - word.begin())
             : 0;
}

}  // namespace

std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words;
  for (std::size_t at = line.find_first_not_of(blanks); at != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_of(blanks, at), line.size());
    words.emplace_back(line.substr(at, end - at));
    at = line.find_first_not_of(blanks, end);
  }
  return words;
}

std::optional<LibraryOutput> library_output(const std::string& line) {
  std::size_t marker = std::string::npos;
  for (const char* kind : {"NCCL INFO", "NCCL WARN", "NCCL TRACE", "NCCL CALL", "NCCL ABORT"}) {
    marker = std::min(marker, line.find(kind));
  }
  if (marker == std::string::npos) return std::nullopt;
  LibraryOutput found{marker, "", line.substr(marker), line.compare(marker, 9, "NCCL INFO") == 0};
  // The process is before the marker, with a device and maybe a file in between.
  std::size_t end = marker;
  for (int back = 0; back < 4; ++back) {
    const std::size_t last = end == 0 ? end : line.find_last_not_of(blanks, end - 1);
    if (end == 0 || last == std::string::npos) break;
    const std::size_t before = line.find_last_of(blanks, last);
    const std::size_t begin = before == std::string::npos ? 0 : before + 1;
    std::string_view word(line.data() + begin, last + 1 - begin);
    if (is_process(word)) {
      // A tag of a launcher may touch it: "(worker-0)n1:4000:4100".
      word = word.substr(0, word.rfind(':', word.rfind(':') - 1));
      const std::size_t row = row_words(line.substr(0, begin), false) ? glued(word) : 0;
      const std::size_t tag = word.find_last_of(":>])");
      found.at = row > 0 ? begin + row : before_time(std::string_view(line).substr(0, begin));
      found.host = std::string(word.substr(tag == std::string_view::npos ? row : tag + 1));
      break;
    }
    end = begin;
  }
  return found;
}

std::optional<RankLine> rank_line(const std::string& line) {
  const std::vector<std::string> words = words_of(line);
  const auto value = [&](std::string_view key) -> std::optional<long long> {
    for (std::size_t i = 0; i + 1 < words.size(); ++i) {
      if (words[i] == key || words[i] == "#" + std::string(key))
        return parse_integer<long long>(words[i + 1]);
    }
    return std::nullopt;
  };
  const auto rank = value("Rank"), device = value("device");
  const auto on = std::ranges::find(words, "on");
  const bool sound = rank && device && words.end() - on > 3 && *(on + 2) == "device";
  if (!sound || *rank < 0 || *rank > (1 << 24)) return std::nullopt;
  const std::size_t name = line.find("] ", line.find("device "));
  RankLine found{static_cast<int>(*rank), static_cast<int>(value("Group").value_or(0)), *(on + 1),
                 "", ""};
  if (*device >= 0 && *device < (1 << 24)) found.device = static_cast<int>(*device);
  const std::size_t bracket = line.rfind('[', name);
  if (name != std::string::npos && bracket != std::string::npos) {
    found.address = line.substr(bracket + 1, name - bracket - 1);
  }
  if (name != std::string::npos) {
    found.gpu = line.substr(name + 2);
    found.gpu.resize(found.gpu.find_last_not_of(blanks) + 1);
  }
  return found;
}

std::vector<std::string> columns_in(const std::string& line) {
  std::vector<std::string> words = words_of(line);
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    const std::string first = words[i].substr(words[i].find_last_of('#') + 1);
    const bool begins = (first == "size" && words[i + 1] == "count") ||
                        (first == "bytes" && words[i + 1] == "N");  // before 2.0
    if (!begins) continue;
    words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(i));
    words.front() = "size";
    return words;
  }
  return {};
}

std::optional<RowWords> row_words(const std::string& line, bool has_root) {
  const std::vector<std::string> words = words_of(line);
  for (std::size_t i = 2; i < words.size(); ++i) {
    const int width = type_width(words[i]);
    if (width == 0 || !all_digits(words[i - 1])) continue;
    const std::string& first = words[i - 2];
    const std::string size = first.substr(first.find_last_not_of("0123456789") + 1);  // of a prefix
    if (size.empty()) continue;
    const auto count = parse_integer<long long>(words[i - 1]);
    const auto bytes = parse_integer<long long>(size);
    const bool whole = count && bytes && *bytes % width == 0 && *bytes / width == *count;
    const std::size_t size_end = end_of_word(line, i - 2);
    RowWords row{size, size_end, whole, "", "", {}};
    std::size_t next = i + 1;
    const auto is_number = [](const std::string& word) {
      return is_digit(word[0]) || word[0] == '-' || word[0] == '.' || word == "N/A";
    };
    if (next < words.size() && !is_number(words[next])) row.redop = words[next++];
    if (next < words.size() && has_root) row.root = words[next++];
    row.rest.assign(words.begin() + static_cast<std::ptrdiff_t>(next), words.end());
    return row;
  }
  return std::nullopt;
}

std::string without_frame(const std::string& line) {
  constexpr std::array<std::string_view, 12> frames = {
      "\"",           "'",    ",",    "|", "$", "^M", "\\n", "\\r", "\xe2\x94\x82",
      "\xe2\x95\x91", "<br>", "<br/>"};
  std::string_view rest = line;
  const auto trimmed = [](std::string_view text) {
    return text.substr(0, text.find_last_not_of(blanks) + 1);
  };
  for (bool any = true; any;) {
    const std::string_view whole = trimmed(rest);
    const auto frame =
        std::ranges::find_if(frames, [&](std::string_view f) { return whole.ends_with(f); });
    const std::size_t open = std::min(whole.rfind("</"), whole.size());
    const std::size_t tag = whole.find('>', open) + 1 == whole.size() ? open : whole.size();
    any = frame != frames.end() || tag < whole.size();
    if (any) rest = whole.substr(0, tag < whole.size() ? tag : whole.size() - frame->size());
  }
  return rest.size() == line.size() ? line : std::string(trimmed(rest));
}

bool begins_as_value(const std::string& word) {
  return word == "N/A" || is_odd(word) || word[0] == '.' || is_digit(word[0]);
}

bool is_value(const std::string& word) {
  return word == "N/A" || is_odd(word) ||
         (begins_as_value(word) && is_digit(word.back()) &&
          word.find_first_not_of("0123456789.e+-:") == std::string::npos);
}

bool is_of_dump(const std::string& word) {
  return word.size() > 1 && word[0] == '0' && all_digits(word);
}

std::string tag_before(std::string_view line) {
  const std::string_view tag = line.substr(0, line.find('#'));
  const std::size_t first = tag.find_first_not_of(blanks);
  if (first == std::string_view::npos) return "";
  return std::string(tag.substr(first, tag.find_last_not_of(blanks) + 1 - first));
}

std::size_t end_of_row(const std::string& line) {
  if (!row_words(line, false)) return std::string::npos;
  const std::size_t comment = line.find('#');
  if (comment != std::string::npos && row_words(line.substr(0, comment), false)) return comment;
  // The next row begins with the size, two words before its type.
  std::size_t size = std::string::npos, count = size, types = 0;
  for (std::size_t at = line.find_first_not_of(blanks); at != std::string::npos;) {
    const std::size_t end = std::min(line.find_first_of(blanks, at), line.size());
    const std::string word = line.substr(at, end - at);
    const bool type = type_width(word) > 0 && size != std::string::npos &&
                      is_digit(line[line.find_first_of(blanks, size) - 1]) &&
                      all_digits(line.substr(count, line.find_first_of(blanks, count) - count));
    if (type && ++types == 2) {
      const std::size_t last = line.find_first_of(blanks, size) - 1;
      const std::size_t other = line.find_last_not_of("0123456789", last);  // "N/A33554432"
      return other == std::string::npos ? size : std::max(size, other + 1);
    }
    size = count;
    count = at;
    at = line.find_first_not_of(blanks, end);
  }
  return std::string::npos;
}

std::string program_in(const std::string& line) {
  const std::size_t at = line.find("_perf");
  if (at == std::string::npos) return "";
  const auto part = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  std::size_t begin = at, end = at + 5;
  while (begin > 0 && part(line[begin - 1])) --begin;
  while (end < line.size() && part(line[end])) ++end;
  // "src/all_reduce_perf.cu" is not a command, nor is a folder of that name.
  if (end < line.size() && (line[end] == '.' || line[end] == '/')) return "";
  return line.substr(begin, end - begin);
}

std::string word_after(std::string_view line, std::string_view key) {
  const std::size_t at = line.find(key);
  if (at == std::string_view::npos) return "";
  const std::size_t start = line.find_first_not_of(blanks, at + key.size());
  if (start == std::string_view::npos) return "";
  return std::string(line.substr(start, line.find_first_of(blanks, start) - start));
}

bool tells_of_an_end(std::string_view line) {
  const std::string lower = lower_case(line);
  constexpr std::array<std::string_view, 20> signs = {
      "nccl warn", "failure", "failed",       "error",         "killed",
      "signal",    "abort",   "cancelled",    "canceled",      "time limit",
      "timed out", "timeout", "segmentation", "out of memory", "terminated",
      "exited",    "fatal",   "traceback",    "no space left", "interrupt"};
  return std::ranges::any_of(
      signs, [&](std::string_view sign) { return lower.find(sign) != std::string::npos; });
}

}  // namespace moesim
