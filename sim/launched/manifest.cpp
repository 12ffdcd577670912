// SPDX-License-Identifier: Apache-2.0
#include "sim/launched/manifest.h"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/yaml.h"

namespace moesim {
namespace {

/// A word that the shell reads as it is, but for $(NAME), which Kubernetes replaces.
std::string shell_quoted(std::string_view word) {
  std::string text = "'";
  for (std::size_t i = 0; i < word.size(); ++i) {
    const std::size_t end = word.substr(i, 2) == "$(" ? word.find(')', i) : word.npos;
    const std::string_view name = end == word.npos ? "" : word.substr(i + 2, end - i - 2);
    const bool is_name = !name.empty() && std::ranges::all_of(name, [](unsigned char c) {
      return std::isalnum(c) != 0 || c == '_';
    });
    if (is_name) {
      text += "'\"${" + std::string(name) + "}\"'";
      i = end;
    } else {
      text += word[i] == '\'' ? std::string("'\\''") : std::string(1, word[i]);
    }
  }
  return text + "'";
}

std::vector<std::string> words_of(const YamlMap& container, const char* key) {
  std::vector<std::string> words;
  const auto value = container.find(key);
  if (!value || !value->is_list()) return words;
  for (const YamlValue& item : value->list()) {
    if (item.is_scalar()) words.push_back(item.string());
  }
  return words;
}

class Script {
 public:
  /// Looks for containers in all that a document has.
  void add(const YamlValue& value, int lines_before) {
    if (value.is_list()) {
      for (const YamlValue& item : value.list()) add(item, lines_before);
    }
    if (!value.is_map()) return;
    const YamlMap map = value.map();
    // A LeaderWorkerSet says how many pods a group has.
    const auto size = map.find("size");
    if (size && size->is_scalar() && map.find("workerTemplate")) {
      size_ = "export LWS_GROUP_SIZE=" + shell_quoted(size->string()) + "; ";
    }
    for (const std::string& key : map.keys()) {
      const auto member = map.find(key);
      if (!member) continue;
      if (key == "containers" && member->is_list()) {
        for (const YamlValue& item : member->list()) add_container(item, lines_before);
      } else {
        add(*member, lines_before);
      }
    }
  }

  std::string text() const { return text_; }

 private:
  void add_container(const YamlValue& value, int lines_before) {
    if (!value.is_map()) return;
    const YamlMap map = value.map();
    std::vector<std::string> words = words_of(map, "command");
    const auto image = map.find("image");
    if (words.empty() && image && image->is_scalar()) words.push_back(image->string());
    const auto from = map.find("command") ? map.find("command") : map.find("args");
    for (std::string& word : words_of(map, "args")) words.push_back(std::move(word));
    std::string line = size_ + variables_of(map);
    for (const std::string& word : words) line += shell_quoted(word) + " ";
    const int at = lines_before + (from ? from->line() : value.line());
    const auto here = 1 + std::count(text_.begin(), text_.end(), '\n');
    if (at > here) text_.append(static_cast<std::size_t>(at - here), '\n');
    text_ += line + "\n";
  }

  static std::string variables_of(const YamlMap& container) {
    std::string text;
    const auto list = container.find("env");
    if (!list || !list->is_list()) return text;
    for (const YamlValue& item : list->list()) {
      if (!item.is_map()) continue;
      const auto name = item.map().find("name"), value = item.map().find("value");
      if (!name || !value || !name->is_scalar() || !value->is_scalar()) continue;
      text += "export " + name->string() + "=" + shell_quoted(value->string()) + "; ";
    }
    return text;
  }

  std::string text_, size_;
};

/// Documents of a file, each with the lines before it.
std::vector<std::pair<std::string, int>> documents_of(const std::string& text) {
  std::vector<std::pair<std::string, int>> documents = {{"", 0}};
  int number = 0;
  for (std::size_t at = 0; at < text.size(); ++number) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    if (line.starts_with("---")) {
      documents.emplace_back("", number + 1);
    } else {
      documents.back().first += line + "\n";
    }
  }
  return documents;
}

}  // namespace

std::optional<std::string> script_of_manifest(const std::string& text, const std::string& file) {
  if (text.find("apiVersion") == text.npos || text.find("containers") == text.npos) return {};
  Script script;
  bool any = false;
  for (const auto& [document, before] : documents_of(text)) {
    if (document.find_first_not_of(" \t\n") == document.npos) continue;
    const auto read = YamlDocument::from_text(document, file);
    const YamlValue root = read->root();
    if (!root.is_map()) continue;
    const bool manifest = root.map().find("apiVersion") && root.map().find("kind");
    if (manifest) script.add(root, before);
    any = any || manifest;
  }
  if (!any) return {};
  return script.text();
}

}  // namespace moesim
