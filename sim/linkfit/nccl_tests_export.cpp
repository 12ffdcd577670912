// SPDX-License-Identifier: Apache-2.0
#include "sim/linkfit/nccl_tests_export.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "sim/base/error.h"
#include "sim/base/file_in_parts.h"
#include "sim/base/files.h"
#include "sim/base/json.h"
#include "sim/base/platform.h"
#include "sim/plan/phases.h"

namespace fs = std::filesystem;

namespace moesim {
namespace {

constexpr const char* format_name = "moesim-nccl-tests 1";
constexpr std::int64_t granule = 16;  // bytes that alltoallv_perf rounds down to

std::string file_word(const std::string& name) {
  std::string word = name;
  for (char& c : word) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!plain) c = '-';
  }
  return word;
}

std::string phase_name(const Op& op, std::size_t number) {
  std::string name = fmt::format("{:04}", number);
  if (op.key.layer >= 0) name += fmt::format("-layer{}", op.key.layer);
  name += fmt::format("-{}-{}", name_of(op.key.pass), name_of(op.key.stage));
  if (op.label != name_of(op.key.stage)) name += "-" + file_word(op.label);
  return name;
}

using Cells = std::map<std::pair<int, int>, std::int64_t>;  // (from, to) -> bytes

Cells off_diagonal(const Plan& plan, const std::vector<OpId>& ops) {
  Cells cells;
  for (const OpId op : ops) {
    plan[op].traffic().for_each([&](GpuId from, GpuId to, Bytes bytes) {
      if (from != to) cells[{from.value, to.value}] += bytes.value;
    });
  }
  return cells;
}

void fill(NcclTestsExchange& exchange, const Cells& cells, int gpus) {
  const auto size = static_cast<std::size_t>(gpus);
  std::vector<std::int64_t> dense(size * size), sent(size), received(size);
  for (const auto& [pair, bytes] : cells) {
    const std::int64_t rounded = (bytes + granule - 1) / granule * granule;
    const auto from = static_cast<std::size_t>(pair.first);
    const auto to = static_cast<std::size_t>(pair.second);
    dense[from * size + to] = rounded;
    sent[from] += rounded;
    received[to] += rounded;
    exchange.bytes.value += bytes;
    exchange.written.value += rounded;
  }
  if (cells.empty()) return;
  exchange.largest = Bytes(std::max(*std::max_element(sent.begin(), sent.end()),
                                    *std::max_element(received.begin(), received.end())));
  for (std::size_t from = 0; from < size; ++from) {
    const auto row = dense.begin() + static_cast<std::ptrdiff_t>(from * size);
    exchange.matrix +=
        fmt::format("{}\n", fmt::join(row, row + static_cast<std::ptrdiff_t>(size), " "));
  }
}

std::string index_text(const Plan& plan, const std::vector<NcclTestsExchange>& exchanges) {
  nlohmann::ordered_json index = {{"format", format_name},
                                  {"plan", plan.name},
                                  {"ranks", plan.gpus},
                                  {"exchanges", nlohmann::ordered_json::array()}};
  for (const NcclTestsExchange& e : exchanges) {
    nlohmann::ordered_json ops = nlohmann::ordered_json::array();
    for (const OpId op : e.ops) ops.push_back(op.value);
    nlohmann::ordered_json gpus = nlohmann::ordered_json::array();
    for (const GpuId gpu : e.participants) gpus.push_back(gpu.value);
    nlohmann::ordered_json item = {{"name", e.name}};
    item["file"] = nullptr;
    if (!e.matrix.empty()) item["file"] = e.name + ".txt";
    item["bytes"] = e.bytes.value;
    item["written_bytes"] = e.written.value;
    item["largest_bytes"] = e.largest.value;
    item["ops"] = std::move(ops);
    item["participants"] = std::move(gpus);
    index["exchanges"].push_back(std::move(item));
  }
  return index.dump(1) + "\n";
}

std::string script_text(int ranks, const std::vector<NcclTestsExchange>& exchanges) {
  std::string text = fmt::format(
      "#!/usr/bin/env bash\n"
      "# Times every exchange with alltoallv_perf of nccl-tests (2.19 or later, built with "
      "MPI=1).\n"
      "# usage: [NCCL_TESTS=build] [LAUNCH=\"mpirun ...\"] [REPEATS=\"-w 5 -n 20\"] bash run.sh "
      "RESULTS\n"
      "# Needs exactly {0} ranks, in the order of the plan's GPUs. Without MPI, on one node:\n"
      "# LAUNCH= GPUS={0}.\n"
      "set -euo pipefail\n"
      "here=$(cd \"$(dirname \"${{BASH_SOURCE[0]}}\")\" && pwd)\n"
      "results=${{1:?usage: bash run.sh RESULTS}}\n"
      "mkdir -p \"$results\"\n"
      "launch=${{LAUNCH-mpirun -np {0} -x NCCL_TESTS_ALLTOALLV_MATRIX_FILE}}\n"
      "run() {{\n"
      "  NCCL_TESTS_ALLTOALLV_MATRIX_FILE=\"$here/$1.txt\" $launch "
      "\"${{NCCL_TESTS:-build}}/alltoallv_perf\" -b \"$2\" -e \"$2\" \\\n"
      "    -d uint8 -a 3 -g \"${{GPUS:-1}}\" ${{REPEATS:--w 5 -n 20}} > \"$results/$1.log\"\n"
      "}}\n",
      ranks);
  for (const NcclTestsExchange& e : exchanges) {
    text += e.matrix.empty() ? fmt::format("# {} moves nothing between GPUs\n", e.name)
                             : fmt::format("run {} {}\n", e.name, e.largest.value);
  }
  return text;
}

constexpr const char* other_folder = "name a new or empty folder, or that of an earlier export";

[[noreturn]] void refuse(const fs::path& folder, const std::string& what) {
  throw error_in(folder.string(), what, other_folder);
}

/// The files that an export wrote there; throws unless the folder's index.json says so.
std::set<std::string> files_of_export(const fs::path& folder) {
  std::set<std::string> files = {"index.json", "run.sh"};
  if (!is_there((folder / "index.json").string()))
    refuse(folder, "is not empty and holds no export");
  const std::string index_file = (folder / "index.json").string();
  const auto index = parse_json(read_file(index_file), {index_file, 1, other_folder});
  if (!index.is_object() || index.value("format", nlohmann::ordered_json()) != format_name) {
    refuse(folder, "holds an index.json that is not of this kind of export");
  }
  for (const auto& exchange : index.value("exchanges", nlohmann::ordered_json::array())) {
    const auto file = exchange.find("file");
    if (file != exchange.end() && file->is_string()) files.insert(file->get<std::string>());
  }
  return files;
}

/// Whether something of ours is to be replaced; throws when it is not ours.
bool holds_export(const fs::path& folder) {
  if (!fs::exists(folder)) return false;
  if (!is_folder(folder.string())) refuse(folder, "is not a folder");
  if (fs::is_empty(folder)) return true;
  const std::set<std::string> ours = files_of_export(folder);
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!ours.contains(name))
      refuse(folder, fmt::format("holds '{}', which no export wrote", name));
  }
  return true;
}

void replace(const fs::path& fresh, const fs::path& folder, bool exists) {
  if (!exists) return fs::rename(fresh, folder);
  // Both change places in one go; file systems that cannot do it move one after the other.
  if (swap_names(fresh, folder)) {
    fs::remove_all(fresh);
    return;
  }
  const fs::path old = fresh_name_beside(folder.string());
  fs::rename(folder, old);
  fs::rename(fresh, folder);
  fs::remove_all(old);
}

}  // namespace

std::vector<NcclTestsExchange> nccl_tests_exchanges(const Plan& plan) {
  std::vector<NcclTestsExchange> exchanges;
  for (std::vector<OpId>& ops : exchange_phases(plan)) {
    NcclTestsExchange exchange;
    exchange.name = phase_name(plan[ops.front()], exchanges.size() + 1);
    std::set<GpuId> members;
    for (const OpId op : ops) {
      members.insert(plan[op].group.begin(), plan[op].group.end());
    }
    exchange.participants.assign(members.begin(), members.end());
    fill(exchange, off_diagonal(plan, ops), plan.gpus);
    exchange.ops = std::move(ops);
    exchanges.push_back(std::move(exchange));
  }
  return exchanges;
}

int write_nccl_tests(const Plan& plan, const std::string& folder) {
  fs::path target = fs::weakly_canonical(folder);
  if (!target.has_filename()) target = target.parent_path();
  const bool exists = holds_export(target);
  const std::vector<NcclTestsExchange> exchanges = nccl_tests_exchanges(plan);
  const fs::path fresh = fresh_name_beside(target.string());
  int files = 0;
  try {
    fs::create_directory(fresh);
    for (const NcclTestsExchange& e : exchanges) {
      if (e.matrix.empty()) continue;
      write_file((fresh / (e.name + ".txt")).string(), e.matrix);
      ++files;
    }
    write_file((fresh / "index.json").string(), index_text(plan, exchanges));
    write_file((fresh / "run.sh").string(), script_text(plan.gpus, exchanges));
    replace(fresh, target, exists);
  } catch (const fs::filesystem_error& e) {
    std::error_code ignored;
    fs::remove_all(fresh, ignored);
    throw error_in(folder, fmt::format("cannot be written: {}", e.code().message()));
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(fresh, ignored);
    throw;
  }
  return files;
}

}  // namespace moesim
