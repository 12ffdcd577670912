// SPDX-License-Identifier: Apache-2.0
// The form that files of plans share: gzip of lines of JSON. The first line says what the file
// holds and lists the hashes of the others; the last is the hash of all before it, so that a file
// which was cut short or altered on its way is refused.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "sim/base/error.h"
#include "sim/base/json.h"

namespace moesim {

/// The names of a kind of file, for its first line and for messages.
struct SavedFormat {
  const char* name;  // "moesim-steps"
  int version;
  const char* content;  // "saved steps"
  const char* item;     // what a line holds: "step"
  const char* writer;   // "moesim plan --save"
};

/// The file's content: the first line is `header` with format and version in front. The same lines
/// give the same bytes.
std::string pack_lines(const SavedFormat& format, const nlohmann::ordered_json& header,
                       const std::vector<std::string>& lines);

/// A file's lines, read one after another. Whatever fails throws Error with file and line.
class SavedLines {
 public:
  /// Refuses what is cut short, altered, or of another format or version.
  SavedLines(const SavedFormat& format, std::string file);
  SavedLines(const SavedLines&) = delete;
  SavedLines& operator=(const SavedLines&) = delete;

  /// What `read(json)` makes of the first line.
  template <class Read>
  auto header(Read read) const {
    return at_line(0, [&] { return read(header_); });
  }
  /// What `read(json, place)` makes of the next line, which must have this hash; `place` is "FILE
  /// line 7".
  template <class Read>
  auto next(const std::string& hash, Read read) {
    const std::size_t line = check_next(hash);
    return at_line(line, [&] {
      return read(parse_json(lines_[line], {file_, static_cast<int>(line) + 1}),
                  fmt::format("{} line {}", file_, line + 1));
    });
  }
  /// Refuses lines that nobody read.
  void end() const;

 private:
  template <class Read>
  std::invoke_result_t<Read> at_line(std::size_t line, Read read) const {
    try {
      return read();
    } catch (const Error& e) {
      const Diagnostic& first = e.diagnostics().front();
      if (!first.file.empty()) throw;
      fail(line, first.message);
    } catch (const std::exception& e) {  // of nlohmann, or a value that cannot be
      fail(line, e.what());
    }
  }
  [[noreturn]] void fail(std::size_t line, const std::string& what, std::string hint = "") const;
  void read_header();
  void check_hash() const;
  void check_listed(std::size_t line) const;
  std::size_t check_next(const std::string& hash);

  SavedFormat format_;
  std::string file_, text_;
  std::vector<std::string_view> lines_;
  nlohmann::ordered_json header_;
  std::size_t next_ = 1;
};

}  // namespace moesim
