// SPDX-License-Identifier: Apache-2.0
#include "sim/evidence/iteration_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/base/figures.h"
#include "sim/evidence/papers_report.h"
#include "sim/report/case_report.h"
#include "sim/report/metrics.h"

namespace moesim {
namespace {

std::string words_of(IterationPart part) {
  std::string name = name_of(part);
  std::ranges::replace(name, ' ', '-');
  return name;
}

/// The time of the stage whose figures are published, else the mean over stages.
Seconds simulated_turns(const SimulatedIteration& simulated, const PublishedIteration& published,
                        TurnPart part) {
  const auto& stages = simulated.stage_turns;
  if (stages.empty()) return Seconds(0);
  return published.stage ? stages.at(static_cast<std::size_t>(*published.stage)).of(part)
                         : mean_of(stages).of(part);
}

const char* fits_words(bool fits) { return fits ? "fits" : "out of memory"; }

std::vector<Cell> iteration_row(const JudgedTable& t, std::size_t f) {
  const PaperFigure& figure = t.table.figures[f];
  const PredictedFigure& predicted = t.predicted[f];
  const auto error = t.error(f);
  const std::string peak = predicted.there() ? peak_words(t, f) : "";
  return {t.table.name,
          figure.name,
          predicted.there() ? Cell(Seconds(predicted.value)) : no_value("s"),
          figure.published ? Cell(Seconds(*figure.published)) : no_value("s"),
          error ? Cell(signed_percent(*error), *error) : Cell("-"),
          figure.mark(),
          predicted.there() ? parts_words(t, f) : "-",
          peak.empty() ? "-" : peak};
}

Table rows_table(const std::vector<JudgedTable>& tables) {
  using Kind = TableColumn::Kind;
  Table table("iterations", {{"table", Kind::key},
                             {"row", Kind::key},
                             {"simulated"},
                             {"published"},
                             {"error"},
                             {"note", Kind::words},
                             {"most of it", Kind::words},
                             {"peak memory", Kind::words}});
  for (const JudgedTable& t : tables) {
    for (std::size_t f = 0; f < t.table.figures.size(); ++f)
      table.rows.push_back(iteration_row(t, f));
  }
  return table;
}

Table iteration_summary_table(const std::vector<JudgedTable>& tables) {
  Table table("iterations summary", 1,
              {"table", "rows", "median", "90 %", "in order", "gains", "peak memory"});
  for (const JudgedTable& t : tables) {
    const IterationSummary of = iteration_summary(t);
    const bool timed = of.timed && !of.errors.errors.empty();
    table.rows.push_back({t.table.name, fmt::format("{} of {}", of.predicted, of.rows),
                          timed ? percent_cell(of.errors.median(), 1) : Cell("-"),
                          timed ? percent_cell(of.errors.percentile_90(), 1) : Cell("-"),
                          of.timed ? order_words(of.order, "-") : "-", gain_words(of),
                          memory_words(of)});
  }
  return table;
}

using Json = nlohmann::ordered_json;

Json parts_json(const IterationTimes& times) {
  Json parts = Json::object();
  for (int p = 0; p < iteration_part_count; ++p) {
    const auto part = static_cast<IterationPart>(p);
    parts[name_of(part)] = times.of(part).value;
  }
  return parts;
}

void add_published(const PublishedIteration& published, Json& json) {
  if (!published.release.empty()) json["release"] = published.release;
  if (!published.note.empty()) json["note"] = published.note;
  if (published.peak_memory) json["published_peak_bytes"] = published.peak_memory->value;
  if (published.fits) json["published_fits"] = *published.fits;
  for (const PublishedTurns& turns : published.turns) {
    json["published_turns_s"][turn_part_names[static_cast<std::size_t>(turns.part)]] =
        turns.time.value;
  }
}

void add_simulated(const SimulatedIteration& simulated, const PublishedIteration& published,
                   Json& json) {
  json["parts_s"] = parts_json(simulated.times);
  json["overlapped_s"] = simulated.times.overlapped.value;
  if (const auto& stages = simulated.stage_turns; !stages.empty()) {
    json["turns_s"] = turns_json(
        published.stage ? stages.at(static_cast<std::size_t>(*published.stage)) : mean_of(stages));
  }
  json["flop_per_token"] = simulated.flop_per_token;
  json["peak_bytes"] = simulated.peak.value;
  json["fits"] = simulated.fits();
  if (simulated.lacks_routing) json["lacks_routing"] = true;
}

}  // namespace

std::string parts_words(const JudgedTable& table, std::size_t row) {
  const auto& simulated = table.predicted[row].iteration;
  if (!simulated) return "-";
  const IterationTimes& times = simulated->times;
  const auto most = std::ranges::max_element(times.parts);
  const auto part = static_cast<IterationPart>(most - times.parts.begin());
  std::string text = fmt::format("{} {:.0f} %", words_of(part), 100 * (*most / times.iteration));
  const PublishedIteration& published = *table.table.figures[row].iteration;
  for (const PublishedTurns& turns : published.turns) {
    const Seconds is = simulated_turns(*simulated, published, turns.part);
    text += fmt::format("; {} {:.2f} of {:.2f} s ({:+.0f} %)",
                        turn_part_names[static_cast<std::size_t>(turns.part)], is.value,
                        turns.time.value, 100 * (is / turns.time - 1));
  }
  return text;
}

std::string peak_words(const JudgedTable& table, std::size_t row) {
  const PublishedIteration& published = *table.table.figures[row].iteration;
  const auto& simulated = table.predicted[row].iteration;
  if (!simulated || (!published.peak_memory && !published.fits)) return "";
  constexpr double gib = 1 << 30;
  std::string text = fmt::format("{:.2f}", static_cast<double>(simulated->peak.value) / gib);
  if (const auto error = memory_error(table, row)) {
    text += fmt::format("/{:.2f} GiB, {}", static_cast<double>(published.peak_memory->value) / gib,
                        signed_percent(*error));
  } else {
    text += " GiB";
  }
  if (!published.fits) return text;
  text += fmt::format("; {}", fits_words(simulated->fits()));
  if (*published.fits == simulated->fits()) return text;
  return text + fmt::format(", published {}", fits_words(*published.fits));
}

std::string rows_words(bool serving) {
  return serving ? "published passes of serving" : "published iterations";
}

Printout iterations_text(const std::vector<JudgedTable>& all) {
  Printout printout;
  std::vector<JudgedTable> tables = all;
  std::erase_if(tables, [](const JudgedTable& t) { return !t.table.iterations; });
  if (tables.empty()) return printout;
  printout.add("# published iterations\n").add(rows_table(tables)).add(not_predicted_lines(tables));
  printout.add(
      fmt::format("\n# errors are absolute values; in order: pairs of a table that differ by more "
                  "than {:.0f} % "
                  "as published, as simulated too\n# gains: simulated / published\n",
                  100 * paper_order_margin));
  printout.add(iteration_summary_table(tables));
  for (const bool serving : {false, true}) {
    const IterationSummary sum = total_of_iterations(tables, serving);
    const std::string total = total_words(sum, rows_words(serving));
    printout.add(total.empty() ? "" : total + "\n");
  }
  return printout;
}

Json row_json(const JudgedTable& table, std::size_t row) {
  const PublishedIteration& published = *table.table.figures[row].iteration;
  Json json = {{"model", published.model}, {"gpus", published.gpus}, {"tokens", published.tokens}};
  add_published(published, json);
  const PredictedFigure& predicted = table.predicted[row];
  if (predicted.there() && predicted.iteration) {
    add_simulated(*predicted.iteration, published, json);
  }
  if (const auto error = memory_error(table, row)) json["peak_error"] = *error;
  return json;
}

Json iteration_summary_json(const IterationSummary& sum) {
  Json json = {{"rows", sum.rows},
               {"predicted", sum.predicted},
               {"timed", sum.timed},
               {"order", {{"pairs", sum.order.pairs}, {"right", sum.order.right}}}};
  if (sum.timed && !sum.errors.errors.empty()) {
    json["median"] = sum.errors.median();
    json["percentile_90"] = sum.errors.percentile_90();
  }
  for (const JudgedGain& gain : sum.gains) {
    json["gains"].push_back({{"slower", gain.slower},
                             {"faster", gain.faster},
                             {"simulated", gain.simulated},
                             {"published", gain.published}});
  }
  if (!sum.memory.empty()) json["peak_memory_errors"] = sum.memory;
  if (sum.fits.pairs > 0) {
    json["fits"] = {{"rows", sum.fits.pairs}, {"right", sum.fits.right}};
  }
  if (!sum.lack_routing.empty()) json["lack_routing"] = sum.lack_routing;
  return json;
}

}  // namespace moesim
