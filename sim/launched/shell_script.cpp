// SPDX-License-Identifier: Apache-2.0
#include "sim/launched/shell_script.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "sim/base/error.h"
#include "sim/launched/batch_lines.h"
#include "sim/launched/shell_evaluation.h"
#include "sim/launched/shell_lexer.h"

namespace moesim {
namespace {

/// Whether the lines at hand run; maybe: under a condition that is not known.
enum class Runs { yes, no, maybe };

/// An `if`, a loop or a `case`.
struct Block {
  Runs outer, now;
  bool taken = false;    // some branch before runs for sure
  bool unknown = false;  // some condition before is not known
};

constexpr std::size_t most_commands = 1U << 16;
// Strings of commands that run themselves.
constexpr int deepest_string = 4;
constexpr std::size_t most_inner_bytes = 1U << 20;

class Interpreter {
 public:
  explicit Interpreter(std::string file) : file_(std::move(file)) {}

  void run(const LinedText& text, int depth) {
    for (const RawCommand& command : raw_commands(text, file_)) {
      if (script_.commands.size() > most_commands) return;
      step(command, depth);
    }
  }

  ShellScript& script() { return script_; }

 private:
  Runs runs() const {
    const Runs block = blocks_.empty() ? Runs::yes : blocks_.back().now;
    if (block == Runs::no || guard_ == Runs::no) return Runs::no;
    return block == Runs::maybe ? block : guard_;
  }

  void step(const RawCommand& command, int depth) {
    for (std::string& doubt : doubts_of(command)) script_.doubts.push_back(std::move(doubt));
    std::vector<LinedText> words = command.words;
    while (!words.empty() && take_keyword(words, command.joined)) continue;
    const bool test = !words.empty() && is_test(words.front().text);
    if (!words.empty() && !test && runs() != Runs::no) simple(std::move(words), command, depth);
    if (command.joined == 0) {
      guard_ = Runs::yes;
    } else if (test) {
      const auto holds = shell_test(plain_words(words));
      const bool all = guard_ == Runs::yes && holds.has_value();
      guard_ = !all ? Runs::maybe : *holds == (command.joined == '&') ? Runs::yes : Runs::no;
    } else if (command.joined == '|') {
      guard_ = Runs::maybe;
    }
  }

  static bool is_test(const std::string& word) {
    return word == "[" || word == "[[" || word == "test";
  }

  /// In an unquoted test an empty variable is no word; here it is one, as in [[ ]].
  std::vector<std::string> plain_words(const std::vector<LinedText>& words) const {
    std::vector<std::string> plain;
    for (const LinedText& word : words) {
      plain.push_back(expanded_text(word, script_.variables, file_).text);
    }
    return plain;
  }

  /// Takes a word of the syntax off, or what a condition of `if` holds.
  bool take_keyword(std::vector<LinedText>& words, char joined) {
    const std::string word = words.front().text;
    const auto off = [&] { words.erase(words.begin()); };
    if (word == "if" || word == "elif") {
      off();
      condition(words, word == "elif", joined);
      words.clear();
    } else if (word == "else") {
      off();
      if (!blocks_.empty()) next_branch(true);
    } else if (word == "while" || word == "until" || word == "for" || word == "case") {
      blocks_.push_back({runs(), runs() == Runs::no ? Runs::no : Runs::maybe});
      words.clear();
    } else if (word == "fi" || word == "done" || word == "esac") {
      off();
      if (!blocks_.empty()) blocks_.pop_back();
    } else if (word == "then" || word == "do" || word == "{" || word == "}" || word == "!" ||
               word == "function" || (word.ends_with("()") && !is_assignment(word))) {
      off();
    } else {
      return false;
    }
    return true;
  }

  void condition(const std::vector<LinedText>& words, bool again, char joined) {
    if (!again) blocks_.push_back({runs(), runs()});
    if (blocks_.empty()) return;
    next_branch(joined == 0 ? shell_test(plain_words(words)) : std::nullopt);
  }

  void next_branch(std::optional<bool> holds) {
    Block& block = blocks_.back();
    if (block.outer == Runs::no || block.taken || holds == false) {
      block.now = Runs::no;
      return;
    }
    block.unknown = block.unknown || !holds;
    block.now = block.unknown ? Runs::maybe : block.outer;
    block.taken = !block.unknown;
  }

  void simple(std::vector<LinedText> words, const RawCommand& command, int depth) {
    ShellCommand simple{{}, {}, command.line};
    const std::string first = words.front().text;
    const bool declares = first == "export" || first == "local" || first == "declare" ||
                          first == "readonly" || first == "typeset";
    if (first == ":") return defaults(words);
    if (declares) words.erase(words.begin());
    std::size_t at = 0;
    for (; at < words.size(); ++at) {
      if (declares && words[at].text.starts_with('-')) continue;
      if (!is_assignment(words[at].text) && !declares) break;
    }
    const bool only = at == words.size();
    for (std::size_t i = 0; i < at; ++i) assign(words[i], only ? nullptr : &simple);
    if (only) return;
    for (; at < words.size(); ++at) {
      for (LinedText& field : expanded(words[at], script_.variables, file_)) {
        simple.words.push_back(std::move(field));
      }
    }
    if (simple.words.empty()) return;
    keep_document(command, simple);
    if (!run_inner(simple, depth)) script_.commands.push_back(std::move(simple));
  }

  static bool is_assignment(const std::string& word) {
    const std::size_t length = shell_name_length(word);
    return length > 0 && (word.compare(length, 1, "=") == 0 || word.compare(length, 2, "+=") == 0);
  }

  void assign(const LinedText& word, ShellCommand* only_of) {
    if (!is_assignment(word.text)) return;
    const std::size_t length = shell_name_length(word.text);
    const std::string name = word.text.substr(0, length);
    const bool more = word.text[length] == '+';
    const std::size_t begin = length + (more ? 2 : 1);
    const LinedText value = word.part(begin, word.text.size());
    ShellVariable variable = value_of(value);
    if (only_of != nullptr) {
      only_of->environment[name] = variable.items.empty() ? LinedText{} : variable.items.front();
      return;
    }
    ShellVariable& now = script_.variables[name];
    // What is added under a condition is there, with a mark.
    const bool marks = more && runs() == Runs::maybe;
    for (LinedText& item : variable.items) item.maybe = item.maybe || marks;
    if (more && !variable.array) {
      if (now.items.empty()) now.items.emplace_back();
      now.items.front().add(variable.items.front());
      variable.items = now.items;
      variable.array = now.array;
    } else if (more) {
      variable.items.insert(variable.items.begin(), now.items.begin(), now.items.end());
    }
    const bool same =
        std::ranges::equal(now.items, variable.items, {}, &LinedText::text, &LinedText::text);
    if (runs() == Runs::maybe && !same && !more) {
      variable.undecided = fmt::format("line {} sets it under a condition", word.line());
    } else if (more) {
      variable.undecided = now.undecided;
    }
    check_size(variable, word.line());
    now = std::move(variable);
  }

  ShellVariable value_of(const LinedText& value) {
    ShellVariable variable;
    if (!value.text.starts_with('(')) {
      variable.items.push_back(expanded_text(value, script_.variables, file_));
      return variable;
    }
    variable.array = true;
    const LinedText inside = value.part(1, std::max<std::size_t>(value.text.size() - 1, 1));
    for (const RawCommand& line : raw_commands(inside, file_)) {
      for (const LinedText& word : line.words) {
        for (LinedText& field : expanded(word, script_.variables, file_)) {
          variable.items.push_back(std::move(field));
        }
      }
    }
    return variable;
  }

  void check_size(const ShellVariable& variable, int line) const {
    std::size_t size = 0;
    for (const LinedText& item : variable.items) size += item.text.size() + 1;
    if (size > (1U << 20)) {
      throw error_in(file_, "a variable of this line grows longer than 1 MiB", "", line);
    }
  }

  /// ": ${NAME:=value}" sets what is not set.
  void defaults(const std::vector<LinedText>& words) {
    for (const LinedText& word : words) {
      const std::size_t begin = word.text.find("${");
      if (begin == std::string::npos) continue;
      const std::size_t length = shell_name_length(std::string_view(word.text).substr(begin + 2));
      const std::size_t sign = begin + 2 + length;
      if (word.text.compare(sign, 2, ":=") != 0 && word.text.compare(sign, 1, "=") != 0) continue;
      const std::string name = word.text.substr(begin + 2, length);
      const LinedText value = expanded_text(word, script_.variables, file_);
      script_.variables[name].items = {value};
    }
  }

  /// "cat > NAME << EOF", also with "tee NAME".
  void keep_document(const RawCommand& command, const ShellCommand& simple) {
    if (command.here.text.empty()) return;
    const auto& words = simple.words;
    for (std::size_t i = 0; i < words.size(); ++i) {
      std::string name = words[i].text;
      if (name == ">" && i + 1 < words.size()) {
        name = words[i + 1].text;
      } else if (name.starts_with('>') && name.size() > 1) {
        name = name.substr(name.find_first_not_of('>'));
      } else if (i == 0 || words[0].text != "tee") {
        continue;
      }
      if (name.starts_with("./")) name.erase(0, 2);
      script_.documents[name] = command.here;
    }
  }

  /// The string of "bash -c '...'" and "eval ..." is a script of its own.
  bool run_inner(const ShellCommand& simple, int depth) {
    const auto& words = simple.words;
    LinedText inner;
    for (std::size_t i = 0; i < words.size(); ++i) {
      const std::string& word = words[i].text;
      const std::string name = word.substr(word.rfind('/') + 1);
      const bool shell = name == "bash" || name == "sh" || name == "zsh";
      const bool with_text = shell && i + 2 < words.size() && words[i + 1].text.starts_with('-') &&
                             words[i + 1].text.ends_with('c');
      if (with_text) inner = words[i + 2];
      if (i == 0 && name == "eval") {
        for (std::size_t k = 1; k < words.size(); ++k) {
          if (k > 1) inner.add(' ', words[k].line());
          inner.add(words[k]);
        }
      }
      if (!inner.text.empty()) break;
    }
    inner_bytes_ += inner.text.size();
    if (inner.text.empty() || depth > deepest_string || inner_bytes_ > most_inner_bytes)
      return false;
    // What srun and mpirun say before it is of the launch, too.
    if (words[0].text != "eval") script_.commands.push_back({words, {}, simple.line});
    run(inner, depth + 1);
    return true;
  }

  std::string file_;
  ShellScript script_;
  std::vector<Block> blocks_;
  std::size_t inner_bytes_ = 0;  // of all strings of commands
  Runs guard_ = Runs::yes;       // by a test before && or ||
};

}  // namespace

ShellScript read_shell_script(const std::string& text, const std::string& file) {
  Interpreter interpreter(file);
  take_batch_lines(text, file, interpreter.script());
  interpreter.run(LinedText::of(text, 1), 0);
  return std::move(interpreter.script());
}

}  // namespace moesim
