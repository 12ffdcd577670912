// SPDX-License-Identifier: Apache-2.0
#include "sim/saved/saved_lines.h"

#include <algorithm>

#include "sim/base/files.h"
#include "sim/base/gzip.h"
#include "sim/base/json.h"
#include "sim/saved/json_numbers.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1);
    lines.push_back(text.substr(0, end + 1));  // with its end
    text.remove_prefix(end + 1);
  }
  return lines;
}

std::string hint_of(const SavedFormat& format) {
  return fmt::format("give a file that {} wrote", format.writer);
}

}  // namespace

std::string pack_lines(const SavedFormat& format, const Json& header,
                       const std::vector<std::string>& lines) {
  Json first = {{"format", format.name}, {"format_version", format.version}};
  first.update(header);
  std::string text = first.dump() + "\n";
  for (const std::string& line : lines) text += line;
  return gzipped(text + Json{{"xxh3", hash_of(text)}}.dump() + "\n");
}

SavedLines::SavedLines(const SavedFormat& format, std::string file)
    : format_(format),
      file_(std::move(file)),
      text_(read_gzip(file_, hint_of(format))),
      lines_(lines_of(text_)) {
  at_line(0, [this] { read_header(); });
  check_hash();
}

void SavedLines::end() const {
  if (next_ + 1 == lines_.size()) return;
  fail(next_, fmt::format("has {}s that line 1 does not list", format_.item));
}

void SavedLines::fail(std::size_t line, const std::string& what, std::string hint) const {
  if (hint.empty()) {
    hint = fmt::format("write it again with {}, or copy it again", format_.writer);
  }
  throw error_in(file_, what, std::move(hint), static_cast<int>(line) + 1);
}

void SavedLines::read_header() {
  try {
    if (!lines_.empty()) header_ = parse_json(lines_[0], {file_});
  } catch (const Error&) {  // another kind of file: told below
  }
  if (!header_.is_object() || header_.value("format", "") != format_.name) {
    fail(0, fmt::format("holds no {}", format_.content), hint_of(format_));
  }
  if (const int found = whole_number<int>(header_.at("format_version")); found != format_.version) {
    fail(0, fmt::format("is of version {}; this program reads version {}", found, format_.version),
         fmt::format("write it again with the {} of this program's release", format_.writer));
  }
}

/// The last line is the hash of those before it.
void SavedLines::check_hash() const {
  const std::size_t last = lines_.size() - 1;
  const Json end = json_if(lines_[last]);
  if (!end.contains("xxh3")) fail(last, "ends too early: the last line is not a hash");
  const std::string_view before =
      std::string_view(text_).substr(0, text_.size() - lines_[last].size());
  if (end["xxh3"] == hash_of(before)) return;
  for (std::size_t line = 1; line < last; ++line) check_listed(line);
  fail(last, "the file is not as it was written: its hash differs");
}

/// Whether line 1 lists the hash of a line, to tell which one was altered.
void SavedLines::check_listed(std::size_t line) const {
  if (lines_[0].find(hash_of(lines_[line])) != std::string_view::npos) return;
  fail(line, fmt::format("the {} is not as it was written: its hash differs", format_.item));
}

std::size_t SavedLines::check_next(const std::string& hash) {
  if (next_ + 1 >= lines_.size()) {
    fail(0, fmt::format("lists more {}s than there are", format_.item));
  }
  if (hash != hash_of(lines_[next_])) {
    fail(next_, fmt::format("the {} is not as it was written: its hash differs", format_.item));
  }
  return next_++;
}

}  // namespace moesim
