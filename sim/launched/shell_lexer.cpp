// SPDX-License-Identifier: Apache-2.0
#include "sim/launched/shell_lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "sim/base/error.h"
#include "sim/base/text.h"

namespace moesim {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

std::size_t end_at_depth(const std::string& text, std::size_t begin, int depth);

/// Behind the closing quote. Single quotes have no escapes.
std::size_t end_of_quote(const std::string& text, std::size_t begin, int depth) {
  const char quote = text[begin];
  for (std::size_t at = begin + 1; at < text.size(); ++at) {
    if (text[at] == quote) return at + 1;
    if (quote == '\'') continue;
    if (text[at] == '\\') ++at;
    if (quote == '"' && text[at] == '$' && at + 1 < text.size() &&
        (text[at + 1] == '(' || text[at + 1] == '{')) {
      const std::size_t end = end_at_depth(text, at, depth + 1);
      if (end == text.npos) return end;
      at = end - 1;
    }
  }
  return text.npos;
}

std::size_t end_at_depth(const std::string& text, std::size_t begin, int depth) {
  if (depth > max_nesting) return text.npos;
  if (text[begin] != '$' && text[begin] != '(') return end_of_quote(text, begin, depth);
  std::vector<char> closers;
  for (std::size_t at = begin; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '\\') {
      ++at;
    } else if (c == '\'' || c == '`' || c == '"') {
      at = end_of_quote(text, at, depth + 1);
      if (at == text.npos) return at;
      --at;
    } else if (c == '#' &&  // a comment: its apostrophes are not quotes
               (text[at - 1] == ' ' || text[at - 1] == '\n' || text[at - 1] == '\t')) {
      at = std::min(text.find('\n', at), text.size()) - 1;
    } else if (c == '(' || c == '{') {
      if (std::ssize(closers) >= max_nesting) return text.npos;
      closers.push_back(c == '(' ? ')' : '}');
    } else if (!closers.empty() && c == closers.back()) {
      closers.pop_back();
      if (closers.empty()) return at + 1;
    }
  }
  return text.npos;
}

bool opens(const std::string& text, std::size_t at, std::string_view first, char second) {
  return first.find(text[at]) != first.npos && at + 1 < text.size() && text[at + 1] == second;
}

class Lexer {
 public:
  Lexer(const LinedText& script, std::string file) : script_(script), file_(std::move(file)) {}

  std::vector<RawCommand> all() {
    while (at_ < text().size()) step();
    end_command();
    return std::move(commands_);
  }

 private:
  const std::string& text() const { return script_.text; }
  char next(std::size_t ahead = 1) const {
    return at_ + ahead < text().size() ? text()[at_ + ahead] : '\0';
  }

  /// Where the next line begins if a backslash is the last sign of this one, or only blanks are
  /// behind it; else 0.
  std::size_t next_line() const {
    if (text()[at_] != '\\') return 0;
    const std::size_t end = text().find_first_not_of(" \t\r", at_ + 1);
    return end != std::string::npos && text()[end] == '\n' ? end + 1 : 0;
  }

  /// Steps over what joins two lines.
  void join_lines(std::size_t next_line) {
    const bool blanks = next() != '\n' && next() != '\r';
    if (blanks) command_.blank_ends.push_back(script_.line(at_));
    at_ = next_line;
  }

  void step() {
    const char c = text()[at_];
    if (const std::size_t line = next_line(); line > 0) {
      join_lines(line);
    } else if (is_blank(c)) {
      ++at_;
    } else if (c == '#') {
      at_ = std::min(text().find('\n', at_), text().size());
    } else if ((c == '&' || c == '|') && next() == c) {
      end_command(c);
      at_ += 2;
    } else if (c == '\n' || c == ';' || c == '|') {
      end_command();
      ++at_;
      if (c == '\n' && !marks_.empty()) take_documents();
    } else if (c == '&' && next() != '>') {
      end_command();
      ++at_;
    } else if ((c == '(' || c == ')') && !(c == '(' && next() == ')')) {
      end_command();  // of a subshell
      ++at_;
    } else if (text().compare(at_, 2, "<<") == 0 && next(2) != '<') {
      take_mark();
    } else {
      take_word();
    }
  }

  /// "<<EOF", "<<-'EOF'": the document begins on the next line.
  void take_mark() {
    at_ += 2;
    if (at_ < text().size() && text()[at_] == '-') ++at_;
    while (at_ < text().size() && is_blank(text()[at_])) ++at_;
    std::string mark;
    while (at_ < text().size() && !is_blank(text()[at_]) &&
           std::string_view("\n;|&<>").find(text()[at_]) == std::string_view::npos) {
      if (std::string_view("'\"\\").find(text()[at_]) == std::string_view::npos)
        mark += text()[at_];
      ++at_;
    }
    // The command that has the document is the one in which its mark is.
    marks_.emplace_back(mark, commands_.size());
  }

  void take_documents() {
    for (const auto& [mark, command] : std::exchange(marks_, {})) {
      const std::size_t begin = at_;
      std::size_t end = text().size();
      while (at_ < text().size()) {
        const std::size_t line = at_;
        const std::size_t stop = std::min(text().find('\n', at_), text().size());
        at_ = std::min(stop + 1, text().size());
        std::string_view said = std::string_view(text()).substr(line, stop - line);
        said.remove_prefix(std::min(said.find_first_not_of('\t'), said.size()));
        if (said.ends_with('\r')) said.remove_suffix(1);
        if (said != mark) continue;
        end = line;
        break;
      }
      if (command < commands_.size()) commands_[command].here = script_.part(begin, end);
    }
  }

  void take_word() {
    LinedText word;
    while (at_ < text().size()) {
      const char c = text()[at_];
      if (is_blank(c) || c == '\n' || c == ';' || c == '|') break;
      if (c == '&' && next() != '>' && !word.text.ends_with('>')) break;
      if (c == '<' && next() == '<') break;
      if (c == ')') break;
      if (const std::size_t line = next_line(); line > 0) {
        join_lines(line);
      } else if (c == '\\') {
        copy(word, std::min(at_ + 2, text().size()));
      } else if (c == '\'' || c == '"' || c == '`' || opens(text(), at_, "$<>", '(') ||
                 opens(text(), at_, "$", '{')) {
        copy(word, closing(opens(text(), at_, "<>", '(') ? at_ + 1 : at_));
      } else if (c == '(') {
        const bool array = word.text.ends_with('=');
        if (!array && next() != ')') break;
        copy(word, array ? closing(at_) : at_ + 2);
      } else {
        copy(word, at_ + 1);
      }
    }
    if (!word.text.empty()) command_.words.push_back(std::move(word));
  }

  std::size_t closing(std::size_t begin) const {
    const std::size_t end = end_of_nested(text(), begin);
    if (end != std::string::npos) return end;
    throw error_in(file_, fmt::format("nothing closes this {}", text()[begin]),
                   "is the script complete?", script_.line(begin));
  }

  void copy(LinedText& word, std::size_t end) {
    word.add(script_.part(at_, end));
    at_ = end;
  }

  void end_command(char joined = 0) {
    if (command_.words.empty()) return;
    command_.joined = joined;
    command_.line = command_.words.front().line();
    commands_.push_back(std::move(command_));
    command_ = {};
  }

  const LinedText& script_;
  std::string file_;
  std::size_t at_ = 0;
  RawCommand command_;
  std::vector<RawCommand> commands_;
  std::vector<std::pair<std::string, std::size_t>> marks_;
};

}  // namespace

std::vector<RawCommand> raw_commands(const LinedText& script, const std::string& file) {
  return Lexer(script, file).all();
}

std::vector<std::string> doubts_of(const RawCommand& command) {
  std::vector<std::string> doubts;
  for (const int line : command.blank_ends) {
    doubts.push_back(
        fmt::format("line {} continues in the next one, though blanks are behind its backslash: a "
                    "shell ends the command there",
                    line));
  }
  if (command.words.empty() || !command.words.front().text.starts_with("--")) return doubts;
  doubts.push_back(
      fmt::format("line {} begins with {}, which belongs to no command: is the line before a "
                  "comment, or without a backslash?",
                  command.line, command.words.front().text));
  return doubts;
}

std::size_t end_of_nested(const std::string& text, std::size_t begin) {
  return end_at_depth(text, begin, 0);
}

}  // namespace moesim
