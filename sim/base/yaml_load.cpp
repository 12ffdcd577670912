// SPDX-License-Identifier: Apache-2.0
#include "sim/base/yaml_load.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <unordered_map>
#include <vector>

#include "sim/base/json.h"
#include "sim/base/text.h"
#include "sim/base/yaml_state.h"

namespace moesim {
namespace {

std::string_view line_of(std::string_view text, int number) {
  for (; number > 0; --number) {
    const auto end = text.find('\n');
    if (end == std::string_view::npos) return "";
    text.remove_prefix(end + 1);
  }
  text = text.substr(0, text.find('\n'));
  if (text.ends_with('\r')) text.remove_suffix(1);
  return text;
}

/// How to mend the commonest syntax errors, by the words of yaml-cpp.
std::string syntax_hint(const std::string& message) {
  const std::pair<const char*, const char*> hints[] = {
      {"end of sequence flow", "is a ']' or ',' missing above?"},
      {"end of map flow", "is a '}' or ',' missing above?"},
      {"end of map not found", "keys of one mapping must start in the same column"},
      {"end of sequence not found", "the '-' of one list must start in the same column"},
      {"illegal map value",
       "keys of one mapping must start in the same column; text that holds ': ' needs quotes"},
  };
  for (const auto& [part, hint] : hints) {
    if (message.find(part) != std::string::npos) return hint;
  }
  return "";
}

Error error_at_mark(const std::string& text, const std::string& file, const YAML::Mark& mark,
                    std::string message, std::string hint) {
  const std::string line(line_of(text, mark.line));
  return Error({{Severity::error, file, mark.line + 1, mark.column + 1, std::move(message), line,
                 std::move(hint)}});
}

Error syntax_error(const std::string& text, const std::string& file, const YAML::Exception& e) {
  if (file.ends_with(".json")) parse_json(text, {file});  // says what is not JSON
  if (e.mark.is_null()) return error_in(file, "not YAML: " + e.msg);
  const std::string_view line = line_of(text, e.mark.line);
  const auto indent = line.substr(0, line.find_first_not_of(" \t"));
  const bool tabs = indent.find('\t') != std::string_view::npos;
  return error_at_mark(text, file, e.mark, "not YAML: " + e.msg,
                       tabs ? "indent with spaces, never with tabs" : syntax_hint(e.msg));
}

/// Follows the parser before any node is made. yaml-cpp reads documents for ever if it finds a
/// comma after one, and follows aliases into themselves.
class Census : public YAML::EventHandler {
 public:
  Census(const std::string& text, const std::string& file) : text_(text), file_(file) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) refuse_more(mark);
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { add_plain(mark, anchor); }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                const std::string& value) override {
    // yaml-cpp 0.7 makes single bytes of the escapes \N and \_.
    if (!is_text(value)) {
      fail(mark, "an escape in this text stands for no character", "write it out");
    }
    add_plain(mark, anchor);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, anchor);
  }
  void OnMapEnd() override { close(); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto target = anchors_.find(anchor);
    if (target == anchors_.end()) {
      fail(mark, "an alias of the value that it is inside of", "write out what is meant");
    }
    aliased_ += target->second.values;
    if (aliased_ > max_aliased_values) {
      fail(mark,
           fmt::format("the aliases up to here stand for more than {} values", max_aliased_values),
           "write fewer copies");
    }
    check_depth(mark, target->second.height);
    add(target->second, 0);
  }

 private:
  /// All that a value holds, itself included, and how many containers are inside each other.
  struct Extent {
    std::int64_t values = 0;
    int height = 0;
  };
  struct Container {
    YAML::anchor_t anchor;
    Extent extent;
  };

  [[noreturn]] void fail(const YAML::Mark& mark, std::string message, std::string hint) const {
    throw error_at_mark(text_, file_, mark, std::move(message), std::move(hint));
  }
  [[noreturn]] void refuse_more(const YAML::Mark& mark) const {
    const std::string_view line = line_of(text_, mark.line);
    const auto rest = line.substr(std::min(static_cast<std::size_t>(mark.column), line.size()));
    if (rest.starts_with("---")) {
      fail(mark, "a second YAML document begins here, only one is read",
           "take the line '---' away");
    }
    if (rest.starts_with(',')) fail(mark, "not YAML: a comma outside of [...] and {...}", "");
    fail(mark, "not YAML: text after the end of the document", "");
  }
  void check_depth(const YAML::Mark& mark, int height) const {
    if (static_cast<int>(open_.size()) + height <= max_nesting) return;
    fail(mark, fmt::format("more than {} lists and mappings inside each other", max_nesting), "");
  }

  void count(const YAML::Mark& mark) {
    if (++values_ > max_values) fail(mark, fmt::format("more than {} values", max_values), "");
  }
  void add_plain(const YAML::Mark& mark, YAML::anchor_t anchor) {
    count(mark);
    add({1, 0}, anchor);
  }
  void open(const YAML::Mark& mark, YAML::anchor_t anchor) {
    count(mark);
    check_depth(mark, 1);
    open_.push_back({anchor, {1, 1}});
  }
  void close() {
    const Container container = open_.back();
    open_.pop_back();
    add(container.extent, container.anchor);
  }
  void add(const Extent& value, YAML::anchor_t anchor) {
    if (anchor != 0) anchors_[anchor] = value;
    if (open_.empty()) return;
    Extent& outer = open_.back().extent;
    outer.values += value.values;
    outer.height = std::max(outer.height, value.height + 1);
  }

  const std::string& text_;
  const std::string& file_;
  int documents_ = 0, values_ = 0;
  std::vector<Container> open_;
  std::map<YAML::anchor_t, Extent> anchors_;  // of values that are complete
  std::int64_t aliased_ = 0;
};

using Marks = std::unordered_map<const std::string*, YAML::Mark>;

/// Whether two keys of a mapping read the same.
bool is_same_key(const YAML::Node& a, const YAML::Node& b) {
  return a.Type() == b.Type() && (!a.IsScalar() || a.Scalar() == b.Scalar());
}

void add_marks(const YAML::Node& copy, const YAML::Node& parsed, Marks& marks);

/// Keys of the copy are in the order of the text; some are gone, others were added.
void add_marks_of_map(const YAML::Node& copy, const YAML::Node& parsed, Marks& marks) {
  auto next = parsed.begin();
  for (const auto& item : copy) {
    auto at = next;
    while (at != parsed.end() && !is_same_key(at->first, item.first)) ++at;
    if (at == parsed.end()) continue;
    marks.emplace(&item.first.Tag(), at->first.Mark());
    add_marks(item.second, at->second, marks);
    next = ++at;
  }
}

/// What an override put in a value's place gets the place of that value.
void add_marks(const YAML::Node& copy, const YAML::Node& parsed, Marks& marks) {
  if (parsed.IsScalar() && !copy.IsScalar()) return;  // made of the scalar, and nowhere in the text
  marks.emplace(&copy.Tag(), parsed.Mark());
  if (copy.IsMap() && parsed.IsMap()) {
    add_marks_of_map(copy, parsed, marks);
  } else if (copy.IsSequence() && parsed.IsSequence()) {
    for (std::size_t i = 0; i < std::min(copy.size(), parsed.size()); ++i) {
      add_marks(copy[i], parsed[i], marks);
    }
  }
}

}  // namespace

YAML::Node load_yaml(const std::string& text, const std::string& file) {
  check_text(text, file);
  try {
    std::istringstream in(text);
    YAML::Parser parser(in);
    Census census(text, file);
    while (parser.HandleNextDocument(census)) continue;
    return YAML::Load(text);
  } catch (const YAML::Exception& e) {
    throw syntax_error(text, file, e);
  }
}

YAML::Node load_shared_yaml(const std::string& text, const std::string& file) {
  constexpr std::size_t most_bytes = 1 << 20;  // of texts, whose nodes take many times that
  static std::unordered_map<std::string, YAML::Node> known;
  static std::size_t bytes = 0;
  const auto found = known.find(text);
  if (found != known.end()) return found->second;
  YAML::Node node = load_yaml(text, file);
  if (bytes + text.size() <= most_bytes) {
    known.emplace(text, node);
    bytes += text.size();
  }
  return node;
}

YAML::Mark YamlDocument::State::mark_of(const YAML::Node& node) {
  if (root.is(parsed)) return node.Mark();
  if (!marks_of_copy_) add_marks(root, parsed, marks_of_copy_.emplace());
  const auto found = marks_of_copy_->find(&node.Tag());
  return found == marks_of_copy_->end() ? node.Mark() : found->second;
}

}  // namespace moesim
