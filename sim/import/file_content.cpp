// SPDX-License-Identifier: Apache-2.0
#include "sim/import/file_content.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "sim/base/delimited.h"
#include "sim/base/error.h"
#include "sim/base/line_file.h"
#include "sim/base/text.h"
#include "sim/import/input_hash.h"
#include "sim/import/json_items.h"
#include "sim/import/torch_file.h"

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

constexpr std::size_t most_names = 12, longest_name = 40;

std::string shortened(const std::string& name) {
  return name.size() <= longest_name ? name : name.substr(0, longest_name) + "...";
}

FileForm form_of_text(std::string_view start) {
  while (const std::size_t headers = length_of_headers(start)) start.remove_prefix(headers);
  const auto first = start.find_first_not_of(" \t\r\n\xef\xbb\xbf");
  if (first == std::string_view::npos) return FileForm::empty;
  if (start[first] == '{') {
    const auto key = start.find_first_not_of(" \t\r\n", first + 1);
    const bool python = key != std::string_view::npos && start[key] == '\'';
    return python ? FileForm::text : FileForm::json;
  }
  auto data = first;  // of the first event of a streamed response
  while (data != std::string_view::npos && is_event_field(start.substr(data))) {
    data = start.find_first_not_of("\r\n", start.find('\n', data));
  }
  if (data != std::string_view::npos && data > first && start[data] == '{') return FileForm::json;
  if (data != std::string_view::npos && start.substr(data).starts_with("data:")) {
    const auto event = start.find_first_not_of(" \t", data + 5);
    if (event != std::string_view::npos && start[event] == '{') return FileForm::json;
  }
  if (start[first] == '[') {  // a list; a line of a log may begin so, too
    const auto next = start.find_first_not_of(" \t\r\n", first + 1);
    const bool tagged = length_of_tags(start.substr(first, start.find('\n', first) - first)) > 0;
    if (tagged) return FileForm::text;
    const bool value =
        next == std::string_view::npos ||
        std::string_view("[{]\"-0123456789").find(start[next]) != std::string_view::npos;
    if (value) return FileForm::json;
  }
  const auto binary = [](char c) { return static_cast<unsigned char>(c) < 9; };
  return std::ranges::any_of(start, binary) ? FileForm::other : FileForm::text;
}

std::string json_content(const std::string& path) {
  JsonItems items(path);
  if (!items.next()) return "is JSON without a value";
  const auto keys = json_keys(items.item());
  if (!keys.empty()) return fmt::format("is JSON with the keys {}", some_of(keys));
  return items.item().is_object() ? "is JSON, an object without keys" : "is JSON without keys";
}

std::string text_content(const std::string& path) {
  LineFile lines(path);
  std::string line;
  while (lines.next(line)) {
    const char separator = separator_of(line);
    if (line.front() == '#' || separator == '\0') continue;
    return fmt::format("is text with the columns {}", some_of(cells_of(line, separator)));
  }
  return "is text";
}

std::string binary_content(const std::string& path) {
  TextBlocks blocks(path);
  return is_utf16(blocks.next()) ? "is UTF-16 text (save it as UTF-8)"
                                 : "is binary, of no form that is known";
}

std::string zip_content(const std::string& path) {
  const ZipArchive archive(path);
  std::vector<std::string> names;
  for (const auto& member : archive.members()) {
    if (member.name.ends_with("/data.pkl")) {
      return fmt::format("is a file of torch.save with {}", TorchFile(path).names());
    }
    names.push_back(member.name);
  }
  return fmt::format("is a zip archive with {}", some_of(names));
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

FileForm form_of(const std::string& path) {
  TextBlocks blocks(path);
  const std::string_view start = blocks.next().substr(0, 4096);
  if (start.starts_with("PK\x03\x04") || start.starts_with("PK\x05\x06")) return FileForm::zip;
  if (start.starts_with("\x93NUMPY")) return FileForm::npy;
  if (start.starts_with("PAR1")) return FileForm::parquet;
  if (start.size() > 1 && start[0] == '\x80' && start[1] >= 2 && start[1] <= 5) {
    return FileForm::pickle;
  }
  return form_of_text(start);
}

std::string content_of(const std::string& path) {
  switch (form_of(path)) {
    case FileForm::zip:
      return zip_content(path);
    case FileForm::npy:
      return fmt::format("is an array {}", NpyArray::open(path).describe());
    case FileForm::parquet:
      return "is a Parquet file";
    case FileForm::pickle:
      return "is a bare pickle, or of a torch.save before its zip form";
    case FileForm::json:
      return json_content(path);
    case FileForm::text:
      return text_content(path);
    case FileForm::empty:
      return "is empty";
    default:
      return binary_content(path);
  }
}

std::string some_of(const std::vector<std::string>& names) {
  std::vector<std::string> some;
  for (const std::string& name : names) {
    if (some.size() < most_names) some.push_back(shortened(name));
  }
  const std::string text = fmt::format("{}", fmt::join(some, ", "));
  const std::size_t more = names.size() - some.size();
  return more == 0 ? text : fmt::format("{} and {} more", text, more);
}

std::string files_text(const std::vector<std::string>& inputs) {
  std::vector<std::string> names;
  for (const std::string& path : input_files(inputs)) {
    names.push_back(std::filesystem::path(path).filename().string());
  }
  for (const std::string& input : inputs) {
    std::error_code unreadable;
    for (const auto& entry : std::filesystem::directory_iterator(input, unreadable)) {
      if (entry.is_directory(unreadable)) names.push_back(entry.path().filename().string() + "/");
    }
  }
  std::ranges::sort(names);
  return names.empty() ? "it holds no files" : "it holds " + some_of(names);
}

}  // namespace moesim
