// SPDX-License-Identifier: Apache-2.0
// Published tables of exchange times (CSV), by the names of their columns.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>

#include "sim/base/delimited.h"
#include "sim/base/error.h"
#include "sim/linkfit/logs/csv.h"
#include "sim/linkfit/logs/formats.h"

namespace moesim {
namespace {

int hosts_of(int ranks, int per_host) { return (ranks + per_host - 1) / per_host; }

/// github.com/microsoft/vidur: sizes in bytes, times in ms; one launch's median of several.
Log read_vidur(const Csv& csv, const LogChoice& choice) {
  Log log;
  log.kind = "vidur network profile";
  take_rows(
      csv, choice,
      [&](const Csv::Row& row) -> std::optional<TimedExchange> {
        const std::string name = csv.text(row, "collective");
        const auto collective = collective_of(name);
        if (!collective)
          throw error_in(csv.file(), "unknown collective '" + name + "'", "", row.line);
        const auto ranks = static_cast<int>(csv.number(row, "num_workers", 1));
        const auto per_host = static_cast<int>(csv.number(row, "devices_per_node", 1));
        return TimedExchange{{*collective, ranks, hosts_of(ranks, per_host)},
                             csv.number(row, "size", 1),
                             Seconds(csv.number(row, "time_stats." + name + ".median") * 1e-3)};
      },
      log);
  return log;
}

/// github.com/ai-dynamo/aiconfigurator: sizes in elements, times in ms, one node.
Log read_aiconfigurator(const Csv& csv, const LogChoice& choice) {
  const std::map<std::string, int> widths = {
      {"half", 2}, {"bfloat16", 2}, {"int8", 1}, {"float", 4}};
  Log log;
  log.kind = "aiconfigurator NCCL table";
  take_rows(
      csv, choice,
      [&](const Csv::Row& row) -> std::optional<TimedExchange> {
        const auto collective = collective_of(csv.text(row, "op_name"));
        const auto width = widths.find(csv.text(row, "nccl_dtype"));
        if (!collective || width == widths.end()) {
          throw error_in(csv.file(),
                         fmt::format("unknown collective '{}' or type '{}'",
                                     csv.text(row, "op_name"), csv.text(row, "nccl_dtype")),
                         "", row.line);
        }
        log.gpu = csv.text(row, "device");
        const std::string version = csv.text(row, "version");
        if (!version.empty()) log.library = "NCCL " + version;
        return TimedExchange{{*collective, static_cast<int>(csv.number(row, "num_gpus", 2)), 1},
                             csv.number(row, "message_size", 1) * width->second,
                             Seconds(csv.number(row, "latency") * 1e-3)};
      },
      log);
  return log;
}

/// github.com/perplexityai/pplx-kernels: PyTorch all-to-alls of 256 experts x tokens x 7392 bytes
/// per rank, 8 GPUs a node, in us; a column per number of ranks.
Log read_pplx(const Csv& csv, const LogChoice& choice) {
  Log log;
  log.kind = "pplx-kernels table";
  log.gpu = "NVIDIA H100";
  if (!choice.ranks) {
    throw error_in(csv.file(), "has a column per number of ranks", "choose with --ranks 8 ... 128");
  }
  const std::string column = fmt::format("EP{}", *choice.ranks);
  if (!csv.has(column)) {
    throw error_in(csv.file(), fmt::format("has no column {}", column),
                   fmt::format("columns: {}", fmt::join(csv.names(), ", ")));
  }
  take_rows(
      csv, choice,
      [&](const Csv::Row& row) -> std::optional<TimedExchange> {
        if (csv.text(row, "op") != "Torch AlltoAll") return std::nullopt;
        return TimedExchange{{Collective::alltoall, *choice.ranks, hosts_of(*choice.ranks, 8)},
                             csv.number(row, "tokens_per_gpu", 1) * 256 * 7392,
                             Seconds(csv.number(row, column) * 1e-6)};
      },
      log);
  return log;
}

/// Tables without times of exchanges, by a column that only they have.
const std::map<std::string, std::pair<const char*, const char*>> not_links = {
    {"mfu", {"holds times of GEMMs, not of exchanges", "GPU models are in models/gpu"}},
    {"up_mfu", {"holds times of GEMMs, not of exchanges", "GPU models are in models/gpu"}},
    {"TFLOPS", {"holds times of GEMMs, not of exchanges", "GPU models are in models/gpu"}},
    {"gemm_dtype", {"holds times of GEMMs, not of exchanges", "GPU models are in models/gpu"}},
    {"moe_dtype",
     {"holds times of expert layers, not of exchanges", "GPU models are in models/gpu"}},
    {"alpha_us",
     {"holds lines that were fitted, not times", "take the table that they were fitted to"}},
    {"dispatch_GBs",
     {"holds bandwidths of DeepEP, whose bytes per link depend on the routing",
      "docs/results/papers.md compares them with simulations"}},
    {"dispatch_avg_t_us",
     {"holds times of DeepEP, whose bytes per link depend on the routing",
      "docs/results/papers.md compares them with simulations"}},
    {"dispatch_transmit_us",
     {"holds times of DeepEP, whose bytes per link depend on the routing",
      "docs/results/papers.md compares them with simulations"}},
};

/// Columns of tables with times, each of a table that no other has.
constexpr std::array<std::string_view, 3> of_links = {"num_workers", "nccl_dtype",
                                                      "tokens_per_gpu"};

}  // namespace

bool is_table(const std::string& text) {
  const std::string names = lines_of(text).front();
  if (names.find('#') != std::string::npos) return false;
  if (separator_of(names) != '\0') return true;
  return std::ranges::any_of(cells_of(names, ' '), [](const std::string& name) {
    return std::ranges::count(of_links, name) > 0 || not_links.contains(name);
  });
}

Log parse_table(const std::string& text, const std::string& file, const LogChoice& choice) {
  const Csv csv(text, file);
  for (const auto& [column, reason] : not_links) {
    if (csv.has(column)) throw error_in(file, reason.first, reason.second, 1);
  }
  const bool vidur = csv.has("num_workers") && csv.has("devices_per_node") && csv.has("size") &&
                     csv.has("collective");
  if (vidur) return read_vidur(csv, choice);
  const bool aiconfigurator = csv.has("message_size") && csv.has("nccl_dtype") &&
                              csv.has("num_gpus") && csv.has("op_name") && csv.has("latency");
  if (aiconfigurator) return read_aiconfigurator(csv, choice);
  if (csv.has("tokens_per_gpu") && csv.has("op")) return read_pplx(csv, choice);
  if (names_exchange_times(lines_of(text)[static_cast<std::size_t>(csv.first()) - 1])) {
    return read_exchange_times(csv, choice);
  }
  constexpr std::size_t shown = 30;
  const auto& names = csv.names();
  const bool many = names.size() > shown;
  throw error_in(
      file,
      fmt::format("its columns are those of no known table: {}{}",
                  fmt::join(names.begin(), names.begin() + (many ? shown : names.size()), ", "),
                  many ? ", ..." : ""),
      "known: nccl-tests (text, JSON; CSV with columns size and time), vidur, aiconfigurator nccl, "
      "pplx-kernels",
      1);
}

}  // namespace moesim
