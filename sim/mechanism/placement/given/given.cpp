// SPDX-License-Identifier: Apache-2.0
// Placements that are read from files, such as an engine's own.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <utility>

#include "sim/base/data_files.h"
#include "sim/mechanism/mechanisms.h"
#include "sim/mechanism/placement/given/placement_file.h"
#include "sim/mechanism/placement/serving/replica_rule.h"
#include "sim/mechanism/placement/serving/serving.h"

namespace moesim {
namespace {

/// The slots of all replayed layers from some step on: [layer].
using Epochs = std::map<int, std::vector<SlotTable>>;

class Given final : public Serving {
 public:
  Given(const PlacementContext& c, const PlanningOptions& when, ReplicaRule rule, Epochs epochs,
        std::vector<std::string> notes)
      : Serving(c, when, epochs.begin()->second.front()),
        rule_(rule),
        epochs_(std::move(epochs)),
        notes_(std::move(notes)) {
    const int before = c.warmed ? c.first_step - 1 : c.first_step;
    const auto& first = std::prev(epochs_.upper_bound(before))->second;
    for (int layer = 0; layer < c.layers; ++layer) {
      start_with(layer, first[static_cast<std::size_t>(layer)]);
    }
  }
  bool looks() const override { return false; }
  std::vector<std::string> notes() const override { return notes_; }

 protected:
  bool needs_loads() const override { return false; }
  bool due(const GroupLayer& at) const override {
    return epochs_.contains(at.step) && (at.steps > 0 || context().warmed);
  }
  std::optional<SlotTable> plan(const GroupLayer& at) override {
    const auto epoch = epochs_.find(at.step);
    return epoch->second[static_cast<std::size_t>(at.layer)];
  }
  Assignment assign(const GroupStep& at, Placement slots) override {
    return rule_.assign(at, slots);
  }

 private:
  ReplicaRule rule_;
  Epochs epochs_;
  std::vector<std::string> notes_;
};

/// What a file leaves out.
std::string left_out_note(const std::string& path, const std::vector<int>& layers) {
  return fmt::format("has MTP layer{} {} where 'contiguous' has it: {} places the other layers",
                     layers.size() == 1 ? "" : "s", fmt::join(layers, ", "), path);
}

/// Whether an expert has several slots in some layer; every expert has one.
bool have_copies(const Epochs& epochs, int experts) {
  for (const auto& [step, layers] : epochs) {
    for (const SlotTable& table : layers) {
      std::size_t slots = 0;
      for (const auto& rank : table) slots += rank.size();
      if (slots > static_cast<std::size_t>(experts)) return true;
    }
  }
  return false;
}

/// The file where it is, or next to the policy that names it.
std::string found(const std::string& name, const std::string& from) {
  const bool plain = name.find('/') == std::string::npos;
  return as_named_in(from, "placements", plain ? "./" + name : name);
}

/// Reads the file that a value names; its mistakes are those of the policy.
void add_file(const YamlValue& value, int step, PolicySources& sources,
              std::map<int, PlacementFile>& files) {
  const std::string path = found(value.string(), sources.from);
  try {
    files.emplace(step, read_placement_file(path));
    sources.files.push_back(path);
  } catch (const Error& e) {
    const Diagnostic& d = e.diagnostics().front();
    if (d.line > 0) throw;
    value.error(fmt::format("'{}': {}: {}", value.path(), path, d.message), d.hint);
  }
}

/// `file: F`, or `file: {0: F, 100: G}` by the step that each counts from.
std::map<int, PlacementFile> read_files(const YamlMap& params, PolicySources& sources) {
  std::map<int, PlacementFile> files;
  const auto value = params.get("file");
  if (!value) return files;
  if (!value->is_map()) {
    add_file(*value, 0, sources, files);
    return files;
  }
  const YamlMap by_step = value->map();
  for (const std::string& key : by_step.keys()) {
    const YamlValue file = *by_step.find(key);
    const bool number =
        !key.empty() && key.size() < 9 && key.find_first_not_of("0123456789") == std::string::npos;
    if (!number) {
      file.error(fmt::format("'{}' is not the number of a step", key),
                 "such as {0: a.json, 100: b.json}");
      continue;
    }
    add_file(file, std::stoi(key), sources, files);
  }
  if (by_step.keys().empty()) {
    value->error("'" + value->path() + "' holds no placement",
                 "such as {0: a.json, 100: b.json}, each from that step on");
  }
  if (!files.empty() && files.begin()->first > 0) {
    value->error(fmt::format("no placement before step {}", files.begin()->first),
                 "one from step 0 on");
  }
  return files;
}

}  // namespace

// file: a placement file, or {STEP: FILE, ...}: each from that step on, and what changes moves
// then. replicas: who uses which (ReplicaRule; default any). payload: state (default if no expert
// has copies: it is where its weights are) or weights (default if one has: each expert's state is
// where `contiguous` has it); migration: blocks (default) or overlapped; planning_time (0 us, of a
// change of slots) and planning: hidden (default) or blocks.
PlacementMaker read_given(const YamlMap& params, PolicySources& sources) {
  const PlanningOptions when = read_transfer_options(params, weights_only());
  const ReplicaRule rule = read_replica_rule(params);
  const bool says_payload = params.find("payload").has_value();
  const auto files = read_files(params, sources);
  return [when, says_payload, rule, files](const PlacementContext& context) {
    Epochs epochs;
    std::vector<std::string> notes;
    for (const auto& [step, file] : files) {
      GivenLayers found = slots_in(file, context.model, context.numbers, context.groups.size());
      if (!found.left_out.empty()) notes.push_back(left_out_note(file.path, found.left_out));
      epochs[step] = std::move(found.tables);
    }
    PlanningOptions options = when;
    if (!says_payload) options.moves_optimizer = !have_copies(epochs, context.experts);
    return std::make_unique<Given>(context, options, rule, std::move(epochs), std::move(notes));
  };
}

}  // namespace moesim
