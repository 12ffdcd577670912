// SPDX-License-Identifier: Apache-2.0
// Tables and figures of publications, each with the setting that it was measured in. docs/papers.md
// says what their files hold. What sources print of whole training iterations, next to their time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/types.h"
#include "sim/base/yaml.h"
#include "sim/report/turn_times.h"

namespace moesim {

/// What turns of one kind take together, where somebody took an iteration apart.
struct PublishedTurns {
  TurnPart part = TurnPart::forward;
  Seconds time;
};

struct PublishedIteration {
  std::string model, release;  // release: of the software; empty if the source has one
  int gpus = 0;
  std::int64_t tokens = 0;  // of the global batch
  /// Model flop of a GPU, where the source prints them and no time: moesim's flop of the model then
  /// say the time.
  std::optional<FlopsPerSecond> rate = {};
  bool all_scores = false;  // the rate counts the scores that a causal mask leaves out, too
  std::optional<Bytes> peak_memory = {};  // of the fullest GPU
  std::optional<bool> fits = {};          // whether it ran, or ran out of memory
  std::vector<PublishedTurns> turns = {};
  std::optional<int> stage = {};  // of the pipeline whose turns these are; none: the mean one
  std::string recorded = {};      // name of its recorded routing; empty: as the scenario says
  bool whole = false;             // all microbatches are simulated, however many
  std::string note = {};
};

/// Two rows of a table: how much faster the second one is.
struct PublishedGain {
  std::string slower, faster;  // names of figures
};

/// What a figure is of.
enum class Measure {
  step,           // makespan of a step
  communication,  // token exchanges of a step with their waiting, mean over GPUs
  exposed,        // any exchange of a step during an idle compute stream, mean over GPUs
  load,           // rows of the busiest GPU over those of the mean one
  dispatch,       // the exchanges from tokens to experts of one forward pass, by themselves
  combine,        // those back
  exchanges,      // all exchanges of tokens of a step, one after the other, each by itself
  layer,          // a step without gates, shared experts and attention
  off_host,       // bytes that leave their node in a step
  iteration,      // time of a whole iteration, mean over the simulated ones
  bubble,         // of it the mean GPU's bubble
  activations,    // bytes of the fullest GPU of an iteration at its fullest moment
  weights         // the same of weights
};
inline const std::vector<std::string> measure_names = {
    "step",  "communication", "exposed",   "load",   "dispatch",    "combine", "exchanges",
    "layer", "off_host",      "iteration", "bubble", "activations", "weights"};

/// Whether a measure is of a part of a step that has the cluster to itself.
inline bool is_alone(Measure measure) {
  return measure >= Measure::dispatch && measure <= Measure::layer;
}
/// Whether a measure is of whole iterations.
inline bool is_of_iterations(Measure measure) { return measure >= Measure::iteration; }
/// Whether a measure is of bytes: its figures are parts of those of another policy.
inline bool is_amount(Measure measure) {
  return measure == Measure::off_host || measure >= Measure::activations;
}

/// All that is simulated, but for the policy.
struct PaperSetting {
  std::string name;
  std::string scenario;             // a file or a name; empty: flags say all
  std::vector<Override> flags;      // as read_scenario takes them, without a policy
  std::optional<Bytes> all_to_all;  // in place of a trace: equal parts, sent by every rank, its own
                                    // among them
};

/// A policy, and what is changed with it.
struct PaperVariant {
  std::string name, policy;
  std::vector<Override> flags;
};

/// What a headline says next to its figure.
struct Headline {
  std::string system, claim;
  std::string source;  // where the figure is printed
  std::string why;     // one sentence: why published and simulated differ
};

struct PaperFigure {
  std::string name;
  std::size_t setting = 0, variant = 0;  // indices
  Measure measure = Measure::step;
  std::optional<std::size_t> over = {};  // a speedup over this variant; else a figure by itself
  std::optional<double> published = {};  // seconds, speedup or load; none: not known yet
  std::optional<double> up_to = {};      // of a published range, from `published` on
  bool by_formula = false;   // published is what the schedule's formula makes of simulated turns
  std::string ordered = {};  // source of an order without a size: it beats `over`
  Headline headline = {};
  double times = 1;                   // the measure so often
  std::optional<Bytes> bytes = {};    // printed as so many bytes a second
  std::optional<double> spread = {};  // of its repeats, as a part: one standard deviation
  std::string fitted = {};            // what of the simulator was fitted to it: not counted
  std::string outside = {};           // why moesim does not claim it: counted apart
  std::optional<PublishedIteration> iteration = {};  // of a row of iterations

  /// Why it does not count: "fitted", "outside"; empty: it does.
  std::string mark() const {
    return !fitted.empty() ? "fitted" : !outside.empty() ? "outside" : "";
  }
  bool relative() const { return over || measure == Measure::load; }
  /// Whether the published figure says which is ahead: a speedup that is not 1.
  bool says_order() const;
  /// Whether the simulated value is on the same side of 1 as what is published.
  bool in_order(double simulated) const;
};

struct PaperTable {
  std::string name;  // of its file
  std::string title, source;
  std::vector<std::string> assumed;  // what the source leaves open, and what is taken
  std::vector<std::string> misses;   // why figures are off
  std::vector<Override> left_out;    // changes that take back what was fitted to the source
  std::vector<PaperSetting> settings;
  std::vector<PaperVariant> variants;
  std::vector<PaperFigure> figures;
  std::vector<PublishedGain> gains = {};
  bool headlines = false;   // each figure is one; they count in no total, as their tables do
  bool iterations = false;  // each figure is a row of one; they have their own total
  bool serving = false;     // of these rows, passes of a serving engine: another total
  bool fast = false;        // belongs to the part that takes seconds
  bool contested = true;    // variants compete; else they are values of one parameter
  std::string hash = {};    // of the file
};

/// Reads a file. Throws Error with all mistakes.
PaperTable read_paper_table(const std::string& path);
/// The same from text; `path` stands for the file.
PaperTable parse_paper_table(const std::string& text, const std::string& path);

/// Takes back in every table what was fitted to its own source, whose figures then all count.
void leave_out_own_fits(std::vector<PaperTable>& tables);

}  // namespace moesim
