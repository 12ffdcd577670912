// SPDX-License-Identifier: Apache-2.0
#include "sim/evidence/engine_report.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "sim/base/figures.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;
using GroupOf = std::function<std::string(const EngineRow&)>;

std::string degrees_words(const EngineDegrees& d) {
  std::string text = fmt::format("tp{}", d.tp);
  if (d.dp > 1) text = d.tp > 1 ? text + fmt::format("dp{}", d.dp) : fmt::format("dp{}", d.dp);
  text += fmt::format("ep{}", d.moe_ep);
  return d.moe_tp > 1 ? text + fmt::format("etp{}", d.moe_tp) : text;
}

std::string layout_words(const EngineRow& row) {
  if (!row.decode) return degrees_words(row.prompts);
  return fmt::format("{}x{}+{}x{}", row.prompt_instances, degrees_words(row.prompts),
                     row.decode_instances, degrees_words(*row.decode));
}

std::string band_of(const EngineRow& row) {
  const double each = static_cast<double>(row.concurrency) / row.gpus();
  if (each <= 1) return "to 1 per GPU";
  if (each <= 8) return "to 8 per GPU";
  return each <= 64 ? "to 64 per GPU" : "above";
}

std::vector<std::pair<std::string, GroupOf>> groupings() {
  return {{"all", [](const EngineRow&) { return std::string("rows"); }},
          {"model", [](const EngineRow& r) { return r.model; }},
          {"machine", [](const EngineRow& r) { return r.system; }},
          {"engine", [](const EngineRow& r) { return r.backend; }},
          {"pools", [](const EngineRow& r) { return r.decode ? "apart" : "together"; }},
          {"tokens", [](const EngineRow& r) { return fmt::format("{}/{}", r.input, r.output); }},
          {"in flight", band_of}};
}

EngineSummary summary_of(const std::string& group, const std::string& name,
                         const std::vector<const JudgedEngineRow*>& rows) {
  EngineSummary sum{group, name};
  ErrorSummary with_sign;
  for (const JudgedEngineRow* row : rows) {
    ++sum.rows;
    sum.tpot.errors.push_back(std::abs(row->tpot_error()));
    sum.rate.errors.push_back(std::abs(row->rate_error()));
    if (!row->saturated()) sum.ttft.errors.push_back(std::abs(row->ttft_error()));
    with_sign.errors.push_back(row->tpot_error());
  }
  sum.signed_tpot = with_sign.median();
  return sum;
}

std::string run_errors_words(const ErrorSummary& errors) {
  if (errors.errors.empty()) return "-";
  return fmt::format("{:.1f}, {:.1f} %", 100 * errors.median(), 100 * errors.percentile_90());
}

/// "97 rows do not say how many workers there are", by reason.
std::vector<std::string> left_out_lines(const std::vector<JudgedEngineRow>& rows) {
  std::map<std::string, int> reasons;
  for (const JudgedEngineRow& row : rows) {
    if (!row.predicted.there()) ++reasons[row.predicted.why];
  }
  std::vector<std::string> lines;
  for (const auto& [why, count] : reasons) {
    lines.push_back(fmt::format("{} not predicted: {}", counted(count, "row"), why));
  }
  return lines;
}

std::vector<const JudgedEngineRow*> predicted_of(const std::vector<JudgedEngineRow>& rows) {
  std::vector<const JudgedEngineRow*> there;
  for (const JudgedEngineRow& row : rows) {
    if (row.predicted.there()) there.push_back(&row);
  }
  return there;
}

Cell run_error_cell(double error) { return {signed_percent(error), error}; }

Cell rate_cell_of(double rate) { return {fmt::format("{:.0f}", rate), rate}; }

Table rows_table(const std::vector<const JudgedEngineRow*>& rows) {
  Table table(
      "rows", 1,
      {"row", "TPOT", "simulated", "error", "TTFT", "simulated", "error", "tokens/s/GPU", "error"});
  for (const JudgedEngineRow* r : rows) {
    table.rows.push_back({r->name(), Seconds(r->row.tpot), Seconds(r->predicted.tpot),
                          run_error_cell(r->tpot_error()), Seconds(r->row.ttft),
                          Seconds(r->predicted.ttft), run_error_cell(r->ttft_error()),
                          rate_cell_of(r->rate(r->row.ttft, r->row.tpot)),
                          run_error_cell(r->rate_error())});
  }
  return table;
}

Table summary_table(const std::vector<EngineSummary>& summaries) {
  Table table("errors", 2, {"of", "rows of", "rows", "TPOT", "signed", "TTFT", "tokens/s/GPU"});
  for (const EngineSummary& s : summaries) {
    table.rows.push_back({s.group, s.name, static_cast<std::int64_t>(s.rows),
                          run_errors_words(s.tpot), run_error_cell(s.signed_tpot),
                          run_errors_words(s.ttft), run_errors_words(s.rate)});
  }
  return table;
}

/// Groups that a page has; the text has machines, engines and requests in flight, too.
bool on_page(const EngineSummary& sum) { return sum.group == "all" || sum.group == "model"; }

}  // namespace

std::string JudgedEngineRow::name() const {
  return fmt::format("{} {} {} {} {}/{} c{} {}", row.model.substr(row.model.find('/') + 1),
                     row.system, row.backend, row.precision, row.input, row.output, row.concurrency,
                     layout_words(row));
}

bool JudgedEngineRow::saturated() const {
  const double all = row.ttft + row.tpot * static_cast<double>(row.output - 1);
  return row.ttft > saturated_share * all;
}

double JudgedEngineRow::rate(double ttft, double tpot) const {
  const auto output = static_cast<double>(row.output);
  return static_cast<double>(row.concurrency) * output / (ttft + tpot * (output - 1)) / row.gpus();
}

double JudgedEngineRow::rate_error() const {
  return rate(predicted.ttft, predicted.tpot) / rate(row.ttft, row.tpot) - 1;
}

std::vector<JudgedEngineRow> judged_engines(const std::vector<EngineRow>& rows,
                                            const std::vector<EnginePrediction>& predictions) {
  std::vector<JudgedEngineRow> judged;
  for (std::size_t i = 0; i < rows.size(); ++i) judged.push_back({rows[i], predictions[i]});
  return judged;
}

std::vector<EngineSummary> engine_summaries(const std::vector<JudgedEngineRow>& rows) {
  std::vector<EngineSummary> summaries;
  for (const auto& [group, of] : groupings()) {
    std::map<std::string, std::vector<const JudgedEngineRow*>> members;
    for (const JudgedEngineRow* row : predicted_of(rows)) members[of(row->row)].push_back(row);
    for (const auto& [name, list] : members) summaries.push_back(summary_of(group, name, list));
  }
  return summaries;
}

Printout engines_text(const EngineTable& table, const std::vector<JudgedEngineRow>& rows,
                      const std::string& version) {
  Printout printout;
  printout.add(fmt::format("# moesim {}: {} ({})\n", version, table.title, table.source));
  printout.add(rows_table(predicted_of(rows)));
  std::string text;
  for (const std::string& line : left_out_lines(rows)) text += "# " + line + "\n";
  text += fmt::format(
      "# errors are absolute: median, 90 %; TTFT of rows in which it is at most {:.0f} % of a "
      "request\n",
      100 * saturated_share);
  return printout.add(text).add(summary_table(engine_summaries(rows)));
}

std::string engines_json(const EngineTable& table, const std::vector<JudgedEngineRow>& rows,
                         const std::string& version) {
  Json list = Json::array();
  for (const JudgedEngineRow& r : rows) {
    Json row = {{"id", r.row.id}, {"ttft_s", r.row.ttft}, {"tpot_s", r.row.tpot}};
    if (r.predicted.there()) {
      row["simulated_ttft_s"] = r.predicted.ttft;
      row["simulated_tpot_s"] = r.predicted.tpot;
      row["saturated"] = r.saturated();
      row["waiting"] = r.predicted.waiting;
      row["prompt_passes"] = r.predicted.prompt_share;
    } else {
      row["not_predicted"] = r.predicted.why;
    }
    list.push_back(std::move(row));
  }
  const Json document = {
      {"format", "moesim-engine-rows"}, {"format_version", 1},    {"moesim", version},
      {"title", table.title},           {"source", table.source}, {"rows", std::move(list)}};
  return document.dump(1) + "\n";
}

std::string engines_page(const EngineTable& table, const std::vector<JudgedEngineRow>& rows) {
  const auto predicted = predicted_of(rows);
  std::string text = fmt::format("{} of {} runs are predicted. Cells: median, 90 %.\n\n",
                                 predicted.size(), rows.size());
  text += "| of | rows | TPOT | TTFT | tokens/s/GPU |\n|---|---|---|---|---|\n";
  for (const EngineSummary& s : engine_summaries(rows)) {
    if (!on_page(s)) continue;
    text += fmt::format("| {} | {} | {} | {} | {} |\n", s.name, s.rows, run_errors_words(s.tpot),
                        run_errors_words(s.ttft), run_errors_words(s.rate));
  }
  text += "\n";
  for (const std::string& line : left_out_lines(rows)) text += "- " + line + ".\n";
  for (const std::string& line : table.misses) text += "- " + line + "\n";
  return text;
}

}  // namespace moesim
