// SPDX-License-Identifier: Apache-2.0
#include "sim/import/log_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "sim/base/error.h"
#include "sim/base/plain_line.h"
#include "sim/base/read_number.h"
#include "sim/import/file_content.h"
#include "sim/import/table_values.h"

namespace moesim {
namespace {

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

/// Negative ones are not passed over: they are refused, or padding.
bool are_ids(const TableValue& value) {
  return std::ranges::all_of(value.numbers, [](double n) {
    return std::abs(n) < 1 << 20 && n == static_cast<double>(static_cast<int>(n));
  });
}

/// The name in a heading of llama.cpp's eval-callback, "ggml_debug: ffn_moe_topk-3 = (i32) ...".
std::optional<std::string_view> tensor_named_by(std::string_view line) {
  const std::size_t type = line.find(" = (");
  if (type == std::string_view::npos || line.find('{', type) == std::string_view::npos) return {};
  const std::string_view of = line.substr(type + 4, line.find(')', type) - type - 4);
  const auto plain = [](char c) { return is_word_letter(c) || is_digit(c); };  // "i32", "q4_K"
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

/// Whether a line has no rows: a heading of a tensor, or a line of one without chosen experts. A
/// print that leaves values out is refused.
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
/// counts follow them, unless they say the layer.
std::vector<NamedValue> LogLines::values_behind_tags(std::string_view line) const {
  const std::size_t tags = length_of_tags(line);
  const auto tells = [&](const NamedValue& value) {
    const auto role = role_of(value);
    return role == TableRole::experts || role == TableRole::count ||
           (value.names.empty() && is_list(value));
  };
  const TakesWord takes_word = [&](const std::string& name) {
    return fields_.role_of(name) == TableRole::request;
  };
  auto values = values_of_line(line.substr(tags), takes_word);
  if (tags == 0) return values;
  if (!std::ranges::any_of(values, tells)) return values_of_line(line, takes_word);
  std::string tag_words(line.substr(0, tags));
  std::ranges::replace_if(
      tag_words, [](char c) { return c == '[' || c == ']'; }, ' ');
  for (NamedValue& value : values_of_line(tag_words)) {
    if (role_of(value) == TableRole::layer) values.insert(values.begin(), std::move(value));
  }
  return values;
}

/// What is read of a line before all of it is known.
struct LogLines::LineParts {
  bool chosen = false, counts = false;
  std::optional<TableRole> last = {};        // of the value before, if it is one number
  std::optional<NamedValue> of_expert = {};  // its count, unless the line is of a token
  std::optional<std::int64_t> module_layer = {};
  std::vector<std::string> unused = {};  // names of numbers
};

bool LogLines::counts_expert(const NamedValue& named) const {
  const auto counts = [&](const std::string& name) { return fields_.counts_an_expert(name); };
  if (std::ranges::any_of(named.names, counts)) return true;
  return !named.follows && !named.assigned && counts(named.after);  // "received 4 tokens"
}

/// Uses a value that is not a number or list: "model.layers.3.mlp" or "20%".
void LogLines::fill_text(const NamedValue& named, LineParts& parts, TableRow& row) const {
  const auto role = role_of(named);
  if (role == TableRole::experts && named.text.find("...") != std::string::npos) {
    refuse_elision(row);
  }
  if (named.assigned && named.text.back() == '%') parts.unused.push_back(named.names.front());
  if (!is_module(named)) return;
  const auto layer = layer_in_name(named.text);
  if (role == TableRole::layer) {
    row.layer = layer;
  } else if (!fields_.mapped(TableRole::layer) && named.text.find("layers.") != std::string::npos) {
    parts.module_layer = layer;
  }
}

void LogLines::fill_value(const NamedValue& named, LineParts& parts, TableRow& row) {
  const TableValue value = value_in_line(named.text);
  std::optional<TableRole> role = role_of(named);
  if (role) found_[static_cast<std::size_t>(*role)] = true;
  if (named.is_word) {
    const bool none = named.text == "None" || named.text == "null";
    if (!none) row.request = named.text;
    parts.last.reset();
    return;
  }
  if (!value.numeric) return fill_text(named, parts, row);
  const bool one = !is_list(named);
  const bool more = one && named.follows &&
                    (parts.last == TableRole::experts || parts.last == TableRole::weights);
  if (more) role = parts.last;  // "experts 2,4"
  if (named.names.empty() && !one && !parts.chosen) role = TableRole::experts;
  parts.last = one ? role : std::nullopt;
  if (!role) {
    if (one && counts_expert(named) && !parts.of_expert) {
      parts.of_expert = named;
    } else if (named.assigned) {
      parts.unused.push_back(named.names.front());
    }
    return;
  }
  if (*role == TableRole::experts) {
    if (!are_ids(value) || (parts.chosen && !more)) {
      parts.last.reset();
      return;
    }
    parts.chosen = true;
    if (more) row.lists = 1;
  }
  if (*role == TableRole::count && one && !row.counts.empty()) return;
  parts.counts = parts.counts || (*role == TableRole::count && !one);
  fill(row, *role, value, named.names.empty() ? "" : named.names.front(), false);
}

/// Fills a row with what a line names; returns whether it holds choices, or counts that are wanted.
bool LogLines::fill_values(const std::string& line, TableRow& row) {
  LineParts parts;
  for (const NamedValue& named : values_behind_tags(line)) fill_value(named, parts, row);
  const bool holds_row = parts.chosen || (counted_ && parts.counts);
  if (!holds_row) return false;
  if (!row.layer) row.layer = parts.module_layer;
  const bool alone = row.experts.size() == 1 && row.lists == 0 && !row.token && !row.slot;
  if (parts.of_expert && alone && row.counts.empty()) {
    const auto& its = *parts.of_expert;
    fill(row, TableRole::count, value_in_line(its.text),
         its.names.empty() ? its.after : its.names.front(), false);
  }
  note_unused(
      {}, parts.unused, 0, [](std::size_t) { return std::optional(value_of_text("0")); }, facts_);
  return true;
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
  for (std::size_t r = 0; r < table_roles && rows_ > 0; ++r) {
    const auto role = static_cast<TableRole>(r);
    if (found_[r] || !fields_.mapped(role)) continue;
    throw error_in(lines.path(),
                   fmt::format("has no value of '{}', which --map names", fields_.name_of(role)),
                   "a name as the lines have it before '=' or ':'");
  }
}

}  // namespace moesim
