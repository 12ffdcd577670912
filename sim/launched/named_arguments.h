// SPDX-License-Identifier: Apache-2.0
// Arguments by name, whatever they were written in: a command, a log, YAML.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/error.h"
#include "sim/launched/lined_text.h"

namespace moesim {

/// How many values a flag takes.
enum class Takes { none, one, list };

struct NamedArgument {
  std::string name;                 // without dashes in front, '-' for '_': "tensor-parallel-size"
  std::vector<std::string> values;  // empty: only named, as a switch is
  int line = 0;
  std::string written;    // how the file has it: "--tp 8"
  std::string file = {};  // that has it; empty: the one of all others
  bool maybe = false;     // only there under a condition that is not known

  std::string text() const;  // the values, joined with blanks
};

class NamedArguments {
 public:
  NamedArguments() = default;
  NamedArguments(std::string file, std::string source)
      : file_(std::move(file)), source_(std::move(source)) {}

  /// A name that is there already gets the later value.
  void add(NamedArgument argument);
  const NamedArgument* find(const std::string& name) const;
  bool has(const std::string& name) const { return find(name) != nullptr; }
  const std::vector<NamedArgument>& all() const { return arguments_; }
  const std::string& file() const { return file_; }

  /// An error at the line of an argument, with the line.
  Error error(const NamedArgument& argument, const std::string& message,
              const std::string& hint) const;

 private:
  std::string file_, source_;
  std::vector<NamedArgument> arguments_;  // in the order of the file
};

/// "tensor_model_parallel_size", "--tp" -> "tensor-model-parallel-size", "tp".
std::string argument_name(std::string_view written);

/// Reads the words behind a program. `takes` says what a flag takes by its name; what belongs to no
/// flag goes to `others`.
template <class TakesOf>
void read_flags(const std::vector<LinedText>& words, const TakesOf& takes, NamedArguments& into,
                std::vector<LinedText>& others) {
  const auto is_flag = [](const std::string& word) {
    return word.size() > 1 && word[0] == '-' && (word[1] < '0' || word[1] > '9') && word[1] != '.';
  };
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i].text;
    if (!is_flag(word)) {
      others.push_back(words[i]);
      continue;
    }
    const std::size_t sign = word.find('=');
    NamedArgument argument{argument_name(word.substr(0, sign)), {}, words[i].line(), word};
    argument.maybe = words[i].maybe;
    const Takes kind = takes(argument.name);
    if (sign != word.npos) argument.values.push_back(word.substr(sign + 1));
    const std::size_t most = kind == Takes::none ? 0 : kind == Takes::one ? 1 : words.size();
    while (argument.values.size() < most && i + 1 < words.size() && !is_flag(words[i + 1].text) &&
           (sign == word.npos || kind == Takes::list)) {
      argument.values.push_back(words[++i].text);
      argument.written += " " + words[i].text;
    }
    into.add(std::move(argument));
  }
}

}  // namespace moesim
