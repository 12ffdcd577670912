// SPDX-License-Identifier: Apache-2.0
#include "sim/launched/launched_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/figures.h"
#include "sim/base/text.h"

namespace moesim {
namespace {

/// A key with its value, or with keys of its own.
struct KeyTree {
  std::string key, value;
  std::vector<std::string> comments;
  std::vector<KeyTree> members;
};

void add_key(KeyTree& tree, std::string_view path, const LaunchedKey& key) {
  if (!key.comment.empty()) tree.comments.push_back(key.comment);
  if (path.empty()) {
    tree.value = key.value;
    return;
  }
  const std::size_t end = std::min(path.find('.'), path.size());
  const std::string name(path.substr(0, end));
  auto member = std::ranges::find(tree.members, name, &KeyTree::key);
  if (member == tree.members.end()) member = tree.members.insert(member, KeyTree{name, "", {}, {}});
  add_key(*member, path.substr(std::min(end + 1, path.size())), key);
}

std::string flow_of(const KeyTree& tree) {
  if (tree.members.empty()) return tree.value;
  std::vector<std::string> members;
  for (const KeyTree& member : tree.members) {
    members.push_back(fmt::format("{}: {}", member.key, flow_of(member)));
  }
  return fmt::format("{{{}}}", fmt::join(members, ", "));
}

std::string line_of(const KeyTree& tree, std::string_view indent) {
  const std::string comment =
      tree.comments.empty() ? "" : fmt::format("   # {}", fmt::join(tree.comments, "; "));
  return fmt::format("{}{}: {}{}\n", indent, tree.key, flow_of(tree), comment);
}

/// One line for each key; those of `serving` have one each.
std::string lines_of(const KeyTree& tree) {
  if (tree.key != "serving") return line_of(tree, "");
  std::string text = "serving:\n";
  for (const KeyTree& member : tree.members) text += line_of(member, "  ");
  return text;
}

KeyTree tree_of(const Launched& launched, bool experts) {
  constexpr std::array order = {"software", "policy", "parallel", "pipeline", "batch"};
  KeyTree tree;
  for (const char* first : order) {
    for (const LaunchedKey& key : launched.keys) {
      if (key.path.substr(0, key.path.find('.')) == first) add_key(tree, key.path, key);
    }
  }
  for (const LaunchedKey& key : launched.keys) {
    const std::string top = key.path.substr(0, key.path.find('.'));
    if (std::ranges::find(order, top) == order.end() && top != "routing") {
      add_key(tree, key.path, key);
    }
  }
  if (experts) return tree;
  std::erase_if(tree.members, [](const KeyTree& member) { return member.key == "policy"; });
  for (KeyTree& member : tree.members) {
    if (member.key != "parallel") continue;
    std::erase_if(member.members,
                  [](const KeyTree& degree) { return degree.key == "ep" || degree.key == "etp"; });
  }
  return tree;
}

/// A comment of one line, whatever the launch has in it.
std::string comment_line(std::string_view kind, const std::string& what) {
  constexpr std::size_t longest = 200;
  std::string text = printable(what);
  std::ranges::replace(text, '\n', ' ');
  if (text.size() > longest) text = text.substr(0, longest) + "...";
  return fmt::format("# {}: {}\n", kind, text);
}

std::string changes_of(const Launched& launched, bool experts) {
  const LaunchedKey* policy = launched.find("policy");
  std::string text;
  for (const LaunchedKey& change : launched.changes) {
    const bool of_policy = change.path.starts_with("policy.");
    if (of_policy && (!experts || policy == nullptr)) continue;
    const std::string path =
        of_policy ? fmt::format("policy:{}{}", policy->value, change.path.substr(6)) : change.path;
    text += fmt::format("  - '{}={}'\n", path, change.value);
  }
  return text.empty() ? "# set: [topology.nodes=8]   # changes an input\n" : "set:\n" + text;
}

}  // namespace

bool needs_routing(const Launched& launched, int experts) {
  return experts > 0 && launched.find("routing") == nullptr;
}

std::string text_of_launch(const Launched& launched, const LaunchedInputs& inputs, int experts) {
  std::string text = fmt::format(
      "# {} on {} of {}, as {} launches {}. moesim compare {} runs it.\n# Every key: "
      "docs/scenarios.md; flags win over this file.\n",
      launched.serving ? "An engine" : "A training iteration", counted(launched.gpus, "GPU"),
      inputs.topology, printable(launched.file), launched.software, inputs.scenario);
  for (const std::string& what : launched.assumed) text += comment_line("assumed", what);
  for (const std::string& what : launched.not_simulated) {
    text += comment_line("not simulated", what);
  }
  text += fmt::format(
      "topology: {}   # moesim list topologies; several: [a, b]\nmodel: {}   # "
      "moesim list models\n",
      inputs.topology, inputs.model);
  const bool routed = needs_routing(launched, experts);
  if (routed) text += inputs.routing_lines;
  for (const KeyTree& key : tree_of(launched, experts > 0).members) text += lines_of(key);
  if (routed) {
    text += "routing: [balanced, recorded]   # balanced: what benchmarks have\nsteps: 0\n";
  } else if (experts > 0) {
    text += "routing: balanced   # forced by the launch\n";
  }
  return text + changes_of(launched, experts > 0);
}

}  // namespace moesim
