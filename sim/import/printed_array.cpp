// SPDX-License-Identifier: Apache-2.0
#include "sim/import/printed_array.h"

#include <algorithm>
#include <string_view>

#include "sim/base/error.h"
#include "sim/base/line_file.h"

namespace moesim {
namespace {

constexpr std::string_view printed_blanks = " \t\r\n";
constexpr std::size_t most_printed = std::size_t{1} << 26;  // characters of a text

/// Passes blanks and, if there is one, the name before a printed array; returns whether there was.
bool pass_name(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(printed_blanks), text.size()));
  for (const std::string_view name : {"tensor(", "array(", "np.array(", "torch.tensor("}) {
    if (!text.starts_with(name)) continue;
    text.remove_prefix(name.size());
    return true;
  }
  return false;
}

/// The length of the list that a text begins with; 0 if it does not.
std::size_t length_of_list(std::string_view text) {
  std::int64_t open = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    open += text[at] == '[' ? 1 : text[at] == ']' ? -1 : 0;
    if (open == 0) return text[0] == '[' ? at + 1 : 0;
  }
  return 0;
}

/// The JSON of a printed list; nothing unless it holds only numbers.
std::optional<std::string> json_of_list(std::string_view list) {
  std::string json;
  for (std::size_t at = 0; at < list.size();) {
    const char c = list[at];
    if (printed_blanks.find(c) != std::string_view::npos || c == ',') {
      ++at;
      continue;
    }
    if (!json.empty() && json.back() != '[' && c != ']') json += ',';
    const bool bracket = c == '[' || c == ']';
    const std::size_t end = bracket ? at + 1 : list.find_first_of(" \t\r\n[],", at);
    const std::string_view item = list.substr(at, end - at);
    if (!bracket && item.find_first_not_of("0123456789.-+e") != std::string_view::npos) {
      return std::nullopt;
    }
    json += item;
    if (json.ends_with('.')) json.pop_back();  // NumPy prints 7.0 as "7."
    at = end;
  }
  return json;
}

/// The text of a file that may be printed arrays; else empty. Lists with commas are JSON, for
/// another reader.
std::string printed_text_of(const std::string& path) {
  LineFile lines(path);
  std::string text, line;
  while (lines.next(line)) {
    text += line + '\n';
    const char first = text[std::min(text.find_first_not_of(printed_blanks), text.size() - 1)];
    const bool named = first == 't' || first == 'a' || first == 'n';
    const bool json = first == '[' && line.find(',') != std::string::npos;
    if ((!named && first != '[') || json || text.size() > most_printed) return "";
  }
  return text;
}

}  // namespace

std::optional<std::string> printed_lists_in(const std::string& path) {
  const std::string text = printed_text_of(path);
  std::string_view rest = text;
  std::string lists;
  std::int64_t arrays = 0;
  for (bool named = pass_name(rest); !rest.empty(); named = pass_name(rest), ++arrays) {
    const std::size_t length = length_of_list(rest);
    if (length == 0) return std::nullopt;
    const std::string_view list = rest.substr(0, length);
    if (list.find("...") != std::string_view::npos) {
      throw error_in(path, "is a printed array that leaves values out ('...')",
                     "save it with np.save, or print all of it: set_printoptions(threshold="
                     "sys.maxsize) of NumPy or PyTorch");
    }
    const auto json = json_of_list(list);
    if (!json) return std::nullopt;
    lists += (lists.empty() ? "" : ",") + *json;
    rest.remove_prefix(length);
    if (!named) continue;
    const std::size_t end = rest.find(')');  // ", device='cuda:0')"
    if (end == std::string_view::npos) return std::nullopt;
    rest.remove_prefix(end + 1);
  }
  if (arrays == 0) return std::nullopt;
  return arrays == 1 ? lists : '[' + lists + ']';
}

}  // namespace moesim
