// SPDX-License-Identifier: Apache-2.0
#include "sim/import/log_lines.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "sim/base/error.h"
#include "sim/base/parse_integer.h"
#include "sim/base/plain_line.h"
#include "sim/import/response_text.h"
#include "sim/import/table_values.h"

namespace moesim {
namespace {

bool is_word(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

std::vector<std::string> names_of_words(const std::vector<std::string>& words) {
  std::vector<std::string> names;
  std::string joined;
  for (auto word = words.rbegin(); word != words.rend() && names.size() < 3; ++word) {
    joined = *word + joined;
    names.push_back(joined);
  }
  return names;
}

/// Where a list ends that begins at a bracket; the line's end if it does not.
std::size_t end_of_list(std::string_view line, std::size_t at) {
  for (std::int64_t open = 0; at < line.size(); ++at) {
    open += line[at] == '[' ? 1 : line[at] == ']' ? -1 : 0;
    if (open == 0) return at + 1;
  }
  return line.size();
}

/// Whether a word calls a function that prints a list: "tensor([1, 6], device='cuda:0')".
bool prints_list(std::string_view word, std::string_view after) {
  return after.starts_with('(') && (word == "tensor" || word == "array");
}

std::string word_after(std::string_view line, std::size_t at) {
  at = std::min(line.find_first_not_of(' ', at), line.size());
  std::size_t end = at;
  while (end < line.size() && is_word(line[end])) ++end;
  return std::string(line.substr(at, end - at));
}

/// Numbers and lists of a line, each with the words since the value before it.
std::vector<NamedValue> values_of(std::string_view line) {
  std::vector<NamedValue> values;
  std::vector<std::string> words;
  std::size_t last = 0;  // where the value before ends
  const auto add = [&](std::size_t at, std::size_t end) {
    const bool follows =
        !values.empty() && words.empty() &&
        line.substr(last, at - last).find_first_not_of(", \t") == std::string_view::npos;
    values.push_back({names_of_words(words), std::string(line.substr(at, end - at)), follows,
                      word_after(line, end)});
    words.clear();
    last = end;
  };
  for (std::size_t at = 0; at < line.size();) {
    std::size_t end = at + 1;
    if (is_word(line[at])) {
      while (end < line.size() && (is_word(line[end]) || is_digit(line[end]))) ++end;
      const std::size_t digits = line.find_last_not_of("0123456789", end - 1) + 1;
      if (!prints_list(line.substr(at, digits - at), line.substr(digits))) {
        words.emplace_back(line.substr(at, digits - at));
      }
      end = digits;  // "expert_3" is a word and a number
    } else if (is_digit(line[at])) {
      while (end < line.size() && (is_digit(line[end]) || line[end] == '.')) ++end;
      add(at, end);
    } else if (line[at] == '[' && line.find(']', at) != std::string_view::npos) {
      end = end_of_list(line, at);
      add(at, end);
    }
    at = end;
  }
  return values;
}

bool is_list(const NamedValue& value) { return value.text.front() == '['; }

/// Lists in a list are those of several tokens.
TableValue value_in_line(const std::string& text) {
  TableValue value = value_of_text(text);
  std::int64_t lists = 0, depth = 0;
  bool nested = false, open = false;
  for (const char c : text) {
    if (c == '[') open = true, nested = nested || ++depth > 1;
    if (c == ']') lists += open ? 1 : 0, open = false, --depth;
  }
  if (nested) value.lists = lists, value.nested = true;
  return value;
}

/// The layer in a name that llama.cpp gives to a tensor, "ffn_moe_topk-3".
std::optional<std::int64_t> layer_of_tensor(std::string_view line) {
  constexpr std::string_view name = "ffn_moe_topk-";
  const std::size_t at = line.find(name);
  if (at == std::string_view::npos) return std::nullopt;
  const std::size_t first = at + name.size();
  const std::size_t last = std::min(line.find_first_not_of("0123456789", first), line.size());
  return parse_integer<std::int64_t>(line.substr(first, last - first));
}

constexpr std::size_t longest_print = std::size_t{1} << 24;

/// Whether a printed tensor continues in the next line.
bool opens_print(std::string_view line) {
  const std::size_t at = line.find("tensor([");
  if (at == std::string_view::npos) return false;
  const std::string_view print = line.substr(at);
  return std::ranges::count(print, '[') > std::ranges::count(print, ']');
}

bool are_ids(const TableValue& value) {
  return std::ranges::all_of(value.numbers, [](double n) {
    return n >= 0 && n < 1 << 20 && n == static_cast<double>(static_cast<int>(n));
  });
}

/// The name in a heading of llama.cpp's eval-callback, "ggml_debug: ffn_moe_topk-3 = (i32) ...".
std::optional<std::string_view> tensor_named_by(std::string_view line) {
  const std::size_t type = line.find(" = (");
  if (type == std::string_view::npos || line.find('{', type) == std::string_view::npos) return {};
  const std::string_view of = line.substr(type + 4, line.find(')', type) - type - 4);
  const auto plain = [](char c) { return is_word(c) || is_digit(c); };  // "i32", "q4_K"
  if (of.empty() || !std::ranges::all_of(of, plain)) return {};
  const std::string_view before = line.substr(0, type);
  const std::size_t blank = before.find_last_of(" \t");
  return blank == std::string_view::npos ? before : before.substr(blank + 1);
}

[[noreturn]] void refuse_elision(const TableRow& row) {
  throw error_in(row.file, "leaves values of a list out ('...')",
                 "print whole tensors: torch.set_printoptions(threshold=sys.maxsize)", row.line);
}

}  // namespace

/// Whether a line is a heading of a tensor, or of one that holds no chosen experts. A print that
/// leaves values out is refused.
bool LogLines::passes_tensor(const std::string& line, const TableRow& row) {
  if (const auto name = tensor_named_by(line)) {
    in_tensor_ = true;
    of_ids_ = name->starts_with("ffn_moe_topk");
    const std::size_t dash = name->find_last_of('-');
    const TableValue layer =
        value_of_text(std::string(dash == std::string_view::npos ? "" : name->substr(dash + 1)));
    if (of_ids_ && layer.numeric) layer_ = static_cast<std::int64_t>(layer.numbers.front());
    return true;
  }
  if (!in_tensor_ || !of_ids_) return in_tensor_;
  if (line.find("...") != std::string::npos) {
    throw error_in(row.file, "leaves values of ffn_moe_topk out ('...')",
                   "print whole tensors: eval-callback shows 3 at each end, so prompts of at most "
                   "6 tokens and top-6 are whole",
                   row.line);
  }
  return line.find('[') == std::string::npos;
}

std::optional<TableRole> LogLines::role_of(const NamedValue& named) const {
  for (const std::string& name : named.names) {
    if (const auto role = fields_.role_of(name)) return role;
  }
  return std::nullopt;
}

/// The values of a line; without those in its tags ("[12] layer=1 ids=[2, 0]") if choices or
/// counts follow them.
std::vector<NamedValue> LogLines::values_behind_tags(std::string_view line) const {
  const std::size_t tags = length_of_tags(line);
  const auto tells = [&](const NamedValue& value) {
    const auto role = role_of(value);
    return role == TableRole::experts || role == TableRole::count ||
           (value.names.empty() && is_list(value));
  };
  auto values = values_of(line.substr(tags));
  return tags == 0 || std::ranges::any_of(values, tells) ? values : values_of(line);
}

/// Fills a row with what a line names; returns whether it holds choices, or counts that are wanted.
bool LogLines::fill_values(const std::string& line, TableRow& row) const {
  bool chosen = false, counts = false;
  std::optional<TableRole> last;  // of the value before, if it is one number
  for (const NamedValue& named : values_behind_tags(line)) {
    const TableValue value = value_in_line(named.text);
    std::optional<TableRole> role = role_of(named);
    if (!value.numeric) {
      const bool elided = named.text.find("...") != std::string::npos;
      if (role == TableRole::experts && elided) refuse_elision(row);
      continue;
    }
    const bool one = !is_list(named);
    const bool more =
        one && named.follows && (last == TableRole::experts || last == TableRole::weights);
    if (more) role = last;  // "experts 2,4"
    if (named.names.empty() && !one && !chosen) role = TableRole::experts;
    if (named.names.empty() && one && !named.follows && fields_.counts_an_expert(named.after)) {
      role = TableRole::count;
    }
    last = one ? role : std::nullopt;
    if (!role) continue;
    if (*role == TableRole::experts) {
      if (!are_ids(value) || (chosen && !more)) {
        last.reset();
        continue;
      }
      chosen = true;
      if (more) row.lists = 1;
    }
    counts = counts || (*role == TableRole::count && !one);
    fill(row, *role, value, "", false);
  }
  return chosen || (counted_ && counts);
}

void LogLines::read_line(const std::string& line, TableRow row) {
  if (passes_tensor(line, row)) return;
  if (line.find("}, {'") != std::string::npos) {
    throw error_in(row.file, "has several of Python's dicts in a line", "json.dumps writes JSON",
                   row.line);
  }
  const bool holds_row = fill_values(line, row);
  if (!row.layer) row.layer = layer_of_tensor(line);
  if (row.layer) layer_ = row.layer;
  if (row.step) step_ = row.step;
  if (!row.request.empty()) request_ = row.request;
  if (!holds_row) return;
  if (!row.layer) row.layer = layer_;
  if (!row.step) row.step = step_;
  if (row.request.empty()) row.request = request_;
  ++rows_;
  use_(row);
}

void LogLines::read(LineFile& lines, const TableReader::Progress& progress) {
  std::string line, more;
  while (lines.next(line)) {
    const int number = lines.line_number();
    while (!in_tensor_ && opens_print(line) && lines.next(more)) {
      if (line.size() > longest_print || more.find("tensor(") != std::string::npos) {
        throw error_in(lines.path(), "has a printed tensor without its end", "", number);
      }
      line += ' ' + more;
    }
    read_line(plain_line(line), {lines.path(), number});
    progress(lines.done());
  }
}

}  // namespace moesim
