// SPDX-License-Identifier: Apache-2.0
// Errors a user can mend: what is wrong, where, and a hint.
#pragma once

#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace moesim {

/// what() of an exception, but for memory that ran out, which says so only to people who know C++.
inline std::string cause_of(const std::exception& e) {
  if (dynamic_cast<const std::bad_alloc*>(&e) != nullptr) {
    return "out of memory; a smaller case, fewer --workers or a higher limit (ulimit -v) may do";
  }
  return e.what();
}

enum class Severity { error, warning };

/// One message about one place of an input; line and column count from 1, 0 if there is none.
struct Diagnostic {
  Severity severity = Severity::error;
  std::string file;
  int line = 0;
  int column = 0;
  std::string message;
  std::string source_line;  // the text of that line, empty when unknown
  std::string hint;         // how to mend it, empty when there is nothing to say

  /// `file:line:col: error: message`, the source line with a caret, then `hint: ...`; ends in a
  /// newline.
  std::string str() const;
};

/// Bad input (exit code 2): one or more diagnostics, in the order of the input.
class Error : public std::runtime_error {
 public:
  explicit Error(std::vector<Diagnostic> diagnostics);
  /// An error without a place in a file, such as a bad flag.
  explicit Error(std::string message, std::string hint = "");

  const std::vector<Diagnostic>& diagnostics() const { return diagnostics_; }

 private:
  std::vector<Diagnostic> diagnostics_;
};

/// An error at a place of a file that is not YAML (a trace, an array); line 0 when the file has no
/// lines.
Error error_in(const std::string& file, std::string message, std::string hint = "", int line = 0);

/// The candidate nearest to `word` by edit distance, or "" when none is close enough to suggest.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

/// `nearest` as a hint: "did you mean 'x'?", else "known: a, b, c".
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

class NoSuchKey : public Error {
 public:
  using Error::Error;
};

class Unreadable : public Error {
 public:
  using Error::Error;
};

/// What `read` returns; its errors become Unreadable.
template <class Read>
decltype(auto) unless_unreadable(const Read& read) {
  try {
    return read();
  } catch (const Error& e) {
    throw Unreadable(e.diagnostics());
  }
}

}  // namespace moesim
