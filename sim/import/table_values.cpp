// SPDX-License-Identifier: Apache-2.0
#include "sim/import/table_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "sim/base/error.h"
#include "sim/base/read_number.h"
#include "sim/import/count_limits.h"

namespace moesim {
namespace {

/// Between numbers of a list in text.
constexpr std::string_view list_marks = " \t[](),;|{}\"'";

std::optional<std::int64_t> whole(double value) {
  if (!(std::abs(value) < 9e15) || value != std::floor(value)) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

/// Adds what a JSON value holds; false if it is neither numbers nor lists of them.
bool add_json_numbers(const JsonElement& json, int depth, TableValue& value) {
  double number = 0;
  std::string_view text;
  if (json.get(number) == simdjson::SUCCESS) {
    value.numbers.push_back(number);
    return true;
  }
  if (json.get(text) == simdjson::SUCCESS) {  // ["5", "6"]
    const TableValue its = value_of_text(text);
    if (!its.numeric || its.lists > 0) return false;
    value.numbers.push_back(its.numbers.front());
    return true;
  }
  simdjson::dom::array items;
  if (json.get(items) != simdjson::SUCCESS || depth == 0) return false;
  bool nested = false;
  for (const JsonElement item : items) {
    if (!add_json_numbers(item, depth - 1, value)) return false;
    nested = nested || item.is_array();
  }
  if (!nested) ++value.lists;
  value.nested = value.nested || nested;
  return true;
}

std::string shown(const TableValue& value) {
  if (!value.numeric) return fmt::format("'{}'", value.text.substr(0, 40));
  if (value.numbers.size() == 1) return fmt::format("{}", value.numbers[0]);
  return value.numbers.empty()
             ? "an empty list"
             : fmt::format("{} numbers, first {}", value.numbers.size(), value.numbers[0]);
}

const char* due_of(TableRole role) {
  switch (role) {
    case TableRole::experts:
      return "expert ids";
    case TableRole::weights:
      return "numbers";
    case TableRole::count:
      return "whole numbers";
    default:
      return "a whole number";
  }
}

/// Refuses "1,000" next to an expert, and counts beyond whole numbers.
void check_counts(const TableRow& row, const TableValue& value, const std::string& field) {
  const bool of_one = row.experts.size() == 1 && row.lists == 0 && !row.token;
  if (of_one && value.lists > 0 && !value.text.empty() && value.text.find('[') == value.text.npos) {
    throw error_in(row.file,
                   fmt::format("field '{}' holds '{}', not one number", field, value.text),
                   "write 1000, not 1,000", row.line);
  }
  for (const double number : value.numbers) {
    if (whole(number) || !(std::abs(number) > most_count) || std::isinf(number)) continue;
    throw error_in(
        row.file,
        fmt::format("field '{}' holds a count of {}; at most {} can be", field, number, most_count),
        fewer_tokens_hint, row.line);
  }
}

std::string odd_value(TableRole role, const TableValue& value, const std::string& field) {
  return fmt::format("field '{}' holds {}, not {}", field, shown(value), due_of(role));
}

[[noreturn]] void refuse_value(const TableRow& row, TableRole role, const TableValue& value,
                               const std::string& field) {
  throw error_in(row.file, odd_value(role, value, field),
                 fmt::format("--map {}=FIELD chooses another field",
                             table_role_names()[static_cast<std::size_t>(role)]),
                 row.line);
}

bool fill_numbers(TableRow& row, TableRole role, const TableValue& value) {
  for (const double number : value.numbers) {
    if (role == TableRole::weights) {
      row.weights.push_back(static_cast<float>(number));
      continue;
    }
    const auto integer = whole(number);
    if (!integer) return false;
    if (role == TableRole::count) {
      row.counts.push_back(*integer);
    } else if (*integer < -1 || *integer > 1 << 30) {
      return false;
    } else {
      row.experts.push_back(static_cast<std::int32_t>(*integer));
    }
  }
  return true;
}

std::optional<std::int64_t>* place_of(TableRow& row, TableRole role) {
  switch (role) {
    case TableRole::step:
      return &row.step;
    case TableRole::rank:
      return &row.rank;
    case TableRole::token:
      return &row.token;
    case TableRole::layer:
      return &row.layer;
    default:
      return &row.slot;
  }
}

}  // namespace

std::optional<std::int64_t> layer_in_name(std::string_view name) {
  constexpr std::string_view digits = "0123456789";
  const auto first = name.find_first_of(digits);
  if (first == std::string_view::npos) return std::nullopt;
  std::int64_t number = 0;
  const auto [end, status] =
      std::from_chars(name.data() + first, name.data() + name.size(), number);
  const auto after = static_cast<std::size_t>(end - name.data());
  const bool one = name.find_first_of(digits, after) == std::string_view::npos;
  return status == std::errc() && one && number < 1 << 20 ? std::optional(number) : std::nullopt;
}

/// The list of "tensor([3, 4], device='cuda:0')" and "array([3, 4])"; else the whole text.
static std::string_view without_printer(std::string_view text) {
  const std::size_t first = text.find('['), last = text.rfind(']');
  const bool printed =
      text.ends_with(')') && first != text.npos && last != text.npos && last > first;
  const std::string_view printer = text.substr(0, printed ? first : 0);
  for (const char* name : {"tensor(", "torch.tensor(", "array(", "np.array("}) {
    if (printer == name) return text.substr(first, last + 1 - first);
  }
  return text;
}

TableValue value_of_text(std::string_view text) {
  TableValue value;
  value.text = text;
  text = without_printer(text);
  bool list = false;
  for (std::size_t at = 0; at < text.size();) {
    if (list_marks.find(text[at]) != std::string_view::npos) {
      list = list || text[at] == '[' || text[at] == '(';
      ++at;
      continue;
    }
    if (text[at] == '+') return value;
    double number = 0;
    const auto [end, status] = read_number(text.data() + at, text.data() + text.size(), number);
    if (status != std::errc()) return value;
    at = static_cast<std::size_t>(end - text.data());
    if (at < text.size() && list_marks.find(text[at]) == std::string_view::npos) return value;
    value.numbers.push_back(number);
  }
  value.numeric = !value.numbers.empty();
  value.lists = list || value.numbers.size() > 1 ? 1 : 0;
  return value;
}

std::optional<TableValue> value_of_json(const JsonElement& json) {
  std::string_view text;
  if (json.get(text) == simdjson::SUCCESS) return value_of_text(text);
  TableValue value;
  value.numeric = add_json_numbers(json, 2, value);
  if (!value.numeric) return std::nullopt;
  if (json.is_int64() || json.is_uint64()) value.text = simdjson::to_string(json);
  return value;
}

void fill(TableRow& row, TableRole role, const TableValue& value, const std::string& field,
          bool mapped) {
  const bool single = value.numeric && value.lists == 0;
  switch (role) {
    case TableRole::request:
      row.request =
          single && value.text.empty() ? fmt::format("{}", value.numbers.front()) : value.text;
      return;
    case TableRole::phase:
      if (!value.numeric) row.phase = value.text;
      return;
    case TableRole::experts:
      if (!value.numeric || !fill_numbers(row, role, value)) refuse_value(row, role, value, field);
      row.lists += value.lists;
      row.nested = row.nested || value.nested;
      return;
    case TableRole::weights:
    case TableRole::count:
      if (role == TableRole::count) check_counts(row, value, field);
      if (value.numeric && fill_numbers(row, role, value)) return;
      if (mapped) refuse_value(row, role, value, field);
      if (role == TableRole::weights) return;
      row.counts.clear();
      if (value.numeric) row.odd_count = odd_value(role, value, field);
      return;
    default:
      break;
  }
  auto& place = *place_of(row, role);
  if (single) place = whole(value.numbers.front());
  if (!value.numeric && role == TableRole::layer) place = layer_in_name(value.text);
  if (!place && mapped) refuse_value(row, role, value, field);
}

void fill_row(TableRow& row, const RolePlaces& places, const TableFields& fields,
              const std::vector<std::string>& names,
              const std::function<std::optional<TableValue>(std::size_t field)>& value_of) {
  for (std::size_t r = 0; r < table_roles; ++r) {
    const auto role = static_cast<TableRole>(r);
    for (const std::size_t field : places[r]) {
      const auto value = value_of(field);
      // A count next to a list of experts is not the count of one expert.
      const bool of_list = role == TableRole::count && fields.counts_an_expert(names[field]) &&
                           (row.lists > 0 || (value && value->lists > 0));
      if (value && !of_list) fill(row, role, *value, names[field], fields.mapped(role));
    }
    if (places[r].size() > 1 && role == TableRole::experts) row.lists = 1;
  }
}

void note_unused(const RolePlaces& places, const std::vector<std::string>& names, std::size_t first,
                 const std::function<std::optional<TableValue>(std::size_t field)>& value_of,
                 TableFacts& facts) {
  if (facts.unused) return;
  facts.unused.emplace();
  for (std::size_t field = first; field < names.size(); ++field) {
    const std::string name = plain_name(names[field]);
    bool used = name.empty() || name == "index" || name.starts_with("time") || name == "ts";
    for (std::size_t r = 0; r < table_roles; ++r) {
      const bool counts = r == static_cast<std::size_t>(TableRole::count);
      used = used || (!counts && std::ranges::find(places[r], field) != places[r].end());
    }
    const auto value = used ? std::nullopt : value_of(field);
    if (value && value->numeric && value->lists == 0) facts.unused->push_back(names[field]);
  }
}

void note_fact(std::string_view name, std::int64_t value, TableFacts& facts) {
  if (value < 1 || value > 1 << 20) return;
  const TableFact fact = table_fact(name);
  if (fact == TableFact::experts) facts.experts = static_cast<int>(value);
  if (fact == TableFact::top_k) facts.top_k = static_cast<int>(value);
}

}  // namespace moesim
