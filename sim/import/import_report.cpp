// SPDX-License-Identifier: Apache-2.0
// What an import says of itself: its report, its provenance, what it took for granted.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "sim/base/figures.h"
#include "sim/base/files.h"
#include "sim/base/json.h"
#include "sim/import/file_content.h"
#include "sim/import/import_sink.h"
#include "sim/import/microbatch.h"
#include "sim/trace/mapped_file.h"
#include "sim/trace/trace_json.h"

namespace moesim {

void ImportSink::leave_out_mtp(const RoutedPass& pass) {
  if (layers_.mtp == 0) return;
  if (!dropped_.contains(mtp_rows)) {
    warn({Severity::warning, pass.where, 0, 0,
          fmt::format(
              "has {} {} but the model has {} {}layers: {} left out, as of multi-token prediction",
              pass.ids.layers(), pass.of_routers ? "routers" : "layers",
              layers_.numbers.size() + layers_.dense.size(), layers_.dense.empty() ? "MoE " : "",
              layers_.mtp == 1 ? "the last is" : fmt::format("the last {} are", layers_.mtp)),
          "", "--layers FIRST:COUNT names all of them if they are layers of another model"});
  }
  drop(mtp_rows, layers_.mtp * pass.ids.tokens());
}

void ImportSink::find_micro_batch(const RoutedPass& pass) {
  constexpr int guesses = 64;  // a guess takes a while: if so many are alike, those after are, too
  const int before = micro_batch_;
  if (options_.micro_batch > 0) micro_batch_ = options_.micro_batch;
  if (options_.micro_batch > 0 || alike_ >= guesses) return;
  int found = alternating_sequences(pass.ids, before == 0 ? many_tokens : few_tokens);
  if (found == 1 && before > 1 && !are_neighbours_nearer(pass.ids, before)) found = before;
  if (found == 1 && before == 0 && may_alternate(pass.ids)) {
    may_alternate_ = true;
    warn({Severity::warning, pass.where, 0, 0,
          "neighbours choose alike, as samples of one prompt do: it cannot be told whether tokens "
          "of several sequences alternate, and they are taken as one sequence",
          "", "--micro-batch N: a microbatch has N sequences"});
  }
  micro_batch_ = found;
  alike_ = found == before || before == 0 ? alike_ + 1 : std::numeric_limits<int>::min();
  if (found == before || (found == 1 && before == 0)) return;
  const std::string told =
      found == 1
          ? "tokens of one sequence, as their choices show, though microbatches before have several"
          : fmt::format(
                "tokens of {} sequences alternate, as their choices show: they are taken apart",
                found);
  alternate_ = true;
  if (std::ranges::any_of(warnings_, [&](const auto& w) { return w.message == told; })) return;
  warn({Severity::warning, pass.where, 0, 0, told, "",
        "--micro-batch 1 if each microbatch is one sequence"});
}

void ImportSink::add_microbatch(const RoutedPass& pass) {
  if (pass.ids.tokens() > 0) find_micro_batch(pass);
  for (RoutedPass& sequence : without_alternation(pass, micro_batch_)) {
    sequence.warm_up_first = false;  // of serving; in training equal tokens are text
    add(sequence);
  }
}

std::string ImportSink::report() const {
  std::string out;
  if (steps_ > 1) out += fmt::format("steps      {}\n", steps_);
  out += fmt::format(
      "tokens     {}\nsequences  {}\nlayers     {}\nexperts    {}\n"
      "top-k      {}\nphase      {}\nids        logical\nweights    {}\n",
      tokens_, sequences_, layers_text(info_.layers), info_.experts, info_.top_k,
      to_string(writer_.info().phase), weighted_ ? "yes" : "no");
  if (only_counts_) out += "rows       of counts: only loads are recorded\n";
  if (micro_batch_ == 1 && options_.micro_batch == 0 && !alternate_ && !may_alternate_) {
    out += "microbatch one sequence each: no tokens alternate (--micro-batch says otherwise)\n";
  }
  if (dropped_.empty()) out += "dropped    nothing\n";
  for (const auto& [reason, rows] : dropped_) {
    out += fmt::format("dropped    {}: {}\n", counted(rows, "row"), reason);
  }
  return out;
}

Imported ImportSink::finish(const std::string& kind, const std::string& input_hashes) {
  flush();
  if (steps_ == 0) {
    const std::string& input = options_.inputs.front();
    const bool folder = is_folder(input);
    throw error_in(input, begun_ ? "holds padding only" : "holds no tokens",
                   begun_ || !folder ? "" : files_text(options_.inputs));
  }
  nlohmann::ordered_json provenance = {{"imported_from", kind}, {"inputs", own_json(input_hashes)}};
  if (!dropped_.empty()) provenance["dropped_rows"] = dropped_;
  TraceInfo info = info_;
  std::filesystem::path output(options_.output);
  if (!output.has_filename()) output = output.parent_path();
  info.name = options_.name.empty() ? output.filename().string() : options_.name;
  info.model = options_.model.empty() ? "unknown" : options_.model;
  info.phase = options_.phase.value_or(phase_.value_or(Phase::mixed));
  info.provenance = provenance.dump();
  info.counts_alone = only_counts_;
  writer_.set_info(std::move(info));
  check_unchanged_files();
  writer_.finish();
  return {report(), std::move(warnings_)};
}

}  // namespace moesim
