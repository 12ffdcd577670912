// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/seeds.h"

#include <sqlite3.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <stdexcept>

#include "sim/base/files.h"
#include "sim/base/gzip.h"
#include "sim/base/temporary_folder.h"
#include "sim/import/importer.h"
#include "sim/sweep/statement.h"
#include "sim/sweep/store.h"
#include "tests/fuzz/bundle.h"
#include "tests/fuzz/planned_seeds.h"

namespace moesim::fuzz {
namespace {

namespace fs = std::filesystem;
using Seeds = std::vector<std::string>;

const std::string root = MOESIM_ROOT;

/// The files of a folder with that ending, by their names.
std::vector<Finding> named_files(const std::string& folder, const std::string& ending) {
  std::vector<Finding> files;
  for (const auto& entry : fs::directory_iterator(root + "/" + folder)) {
    const std::string path = entry.path().string();
    const bool is_seed = path.ends_with(ending) && !path.ends_with(".calib.yaml");
    if (!entry.is_regular_file() || !is_seed) continue;
    files.push_back({entry.path().filename().string(), read_file(path)});
  }
  std::ranges::sort(files, {}, &Finding::name);
  return files;
}

Seeds files_in(const std::string& folder, const std::string& ending) {
  Seeds files;
  for (Finding& file : named_files(folder, ending)) files.push_back(std::move(file.input));
  return files;
}

/// Models of a kind, which their first lines tell.
Seeds models_in(const std::string& kind) {
  Seeds files = files_in("models/" + kind, ".yaml");
  for (std::string& file : files) file.insert(0, "# " + kind + "\n");
  return files;
}

/// Models as Hugging Face describes them.
Seeds hf_configs() {
  Seeds files = files_in("tests/fixtures/hf", ".json");
  for (std::string& file : files) file.insert(0, "# hf\n");
  return files;
}

/// YAML of arguments, which its first line tells.
Seeds launch_options() {
  Seeds files = files_in("tests/fixtures/launch", ".yaml");
  for (std::string& file : files) file.insert(0, "# yaml\n");
  return files;
}

Seeds joined(std::initializer_list<Seeds> lists) {
  Seeds all;
  for (const Seeds& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

/// One routing in every format, as the tests of importers write it.
Seeds import_bundles() {
  const TemporaryFolder folder;
  for (const char* writer : {"formats.py ", "count_formats.py ", "log_formats.py "}) {
    const std::string command = "python3 " + root + "/tests/import/" + writer + folder.path();
    if (std::system(command.c_str()) != 0) throw std::runtime_error(command + " failed");
  }
  Seeds seeds;
  for (const Importer& importer : importers()) {
    const std::string kind = importer.kind;
    const std::string own = folder.path() + "/" + kind;
    if (kind != "table") {
      seeds.push_back(bundle_of(kind + " 8 2", own));
      continue;
    }
    std::set<std::string> forms;  // which are many
    for (const auto& form : fs::directory_iterator(own)) forms.insert(form.path().string());
    for (const std::string& form : forms) {
      const bool mapped = form.ends_with("/renamed") || form.ends_with("/columns");
      if (!mapped) seeds.push_back(bundle_of("table 8 2", form));
    }
  }
  for (const auto& [form, kind] :
       std::map<std::string, std::string>{{"sglang-counts-json", "sglang-counts"},
                                          {"sglang-counts-passes-json", "sglang-counts"},
                                          {"sglang-counts-csv", "sglang-counts"},
                                          {"sglang-routes-nvext", "sglang-routes"},
                                          {"vllm-routes-nvext", "vllm-routes"},
                                          {"vllm-routes-coded", "vllm-routes"},
                                          {"table-counts", "table"},
                                          {"replay-three", "router-lists"},
                                          {"replay-mtp", "router-lists"},
                                          {"flame-captures/1080", "flame"}}) {
    seeds.push_back(bundle_of(kind + " 8 2", folder.path() + "/" + form));
  }
  return seeds;
}

Seeds sweep_files() {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/s.sqlite";
  SweepRow row{0, sweep_ok};
  row.figures = {{"policy", text_value("dedup")},
                 {"topology.nodes", integer_value(2)},
                 {"step_s", real_value(0.25)}};
  SweepRow other{1, sweep_unsuitable, "does not fit"};
  other.figures = {{"policy", text_value("laer")}, {"topology.nodes", integer_value(4)}};
  SweepStore(path, {"hash", "grid.yaml", 2, {"policy", "topology.nodes"}}).add({row, other});
  // Pages of an eighth of the bytes: fuzzers reach what is in them.
  sqlite3* db = open_database(path, SQLITE_OPEN_READWRITE);
  execute(db, "PRAGMA page_size = 512");
  execute(db, "VACUUM");
  sqlite3_close(db);
  return {read_file(path)};
}

constexpr const char* measured_result = R"({"format": "moesim-hw-result", "format_version": 2,
 "moesim": "0.1.0", "date": "2026-01-01", "description": "Open MPI", "ranks": 2, "hosts": 1,
 "warmup": 1, "repeats": 2, "scenario": {"topology": "a", "model": "b", "set": ["topology.nodes=2"]},
 "cases": [{"policy": "dedup", "wrong": 0, "measured_steps": [{"plan_xxh3": "0f", "waiting_s": 1e-3,
 "repeats_s": [0.25, 0.5], "ops": [{"name": "permute", "stage": "dispatch", "stream": "compute",
 "time_s": 1e-5}]}]}, {"policy": "laer", "unsuitable": "too few GPUs"}]}
)";

const std::map<std::string, std::function<Seeds()>>& makers() {
  static const std::map<std::string, std::function<Seeds()>> table = {
      {"grid",
       [] {
         return joined({files_in("scenarios/grids", ".yaml"), grid_texts()});
       }},
      {"cluster", [] { return files_in("tests/fixtures/clusters", ""); }},
      {"imports", import_bundles},
      {"json",
       [] {
         return Seeds{measured_result, read_file(root + "/traces/tiny-moe-train/trace.json")};
       }},
      {"launch",
       [] {
         return joined({files_in("tests/fixtures/launch", ".sh"),
                        files_in("tests/fixtures/launch", ".log"), launch_options()});
       }},
      {"log",
       [] {
         return joined(
             {files_in("tests/fixtures/logs", ".log"), files_in("tests/fixtures/logs", ".json")});
       }},
      {"model",
       [] {
         return joined({models_in("moe"), models_in("dense"), models_in("gpu"), hf_configs()});
       }},
      {"npy", [] { return files_in("tests/fixtures/npz", ".npy"); }},
      {"papers", [] { return files_in("papers", ".yaml"); }},
      {"parquet",
       [] {  // the others are of encodings that are not read
         return joined({files_in("tests/fixtures/parquet", "gzip.parquet"),
                        files_in("tests/fixtures/parquet", "dictionary.parquet"),
                        files_in("tests/fixtures/parquet", "plain-columns.parquet"),
                        files_in("tests/fixtures/flame", ".parquet")});
       }},
      {"placement", [] { return files_in("tests/fixtures/placements", ""); }},
      {"plan", plan_texts},
      {"profile",
       [] {
         return joined({files_in("tests/fixtures/profiles", ".json"),
                        files_in("tests/fixtures/profiles", ".log"),
                        files_in("tests/fixtures/profiles", ".sqlite")});
       }},
      {"result", [] { return Seeds{measured_result}; }},
      {"saved", saved_texts},
      {"scenario", [] { return files_in("scenarios", ".yaml"); }},
      {"sweep-file", sweep_files},
      {"system", [] { return files_in("models/system", ".yaml"); }},
      {"topology", [] { return files_in("topologies", ".yaml"); }},
      {"trace", [] { return Seeds{bundle_of("", root + "/tests/fixtures/traces/hand")}; }},
      {"transport", [] { return files_in("transports", ".yaml"); }},
      {"yaml",
       [] {
         return joined({files_in("topologies", ".yaml"), {"a: &x {b: [1, 2.5 GB/s]}\nc: *x\n"}});
       }},
  };
  return table;
}

}  // namespace

std::vector<std::string> seeds_of(const std::string& target) { return makers().at(target)(); }

std::vector<std::string> corpus_of(const std::string& target) {
  const std::string path = root + "/tests/fuzz/corpus/" + target + ".gz";
  std::vector<std::string> inputs;
  if (!fs::exists(path)) return inputs;
  const std::string text = read_gzip(path);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = text.find('\n', at) + 1;
    inputs.push_back(text.substr(begin, std::stoul(text.substr(at, begin - at))));
    at = begin + inputs.back().size();
  }
  return inputs;
}

std::vector<Finding> findings_of(const std::string& target) {
  const std::string folder = "tests/fuzz/findings/" + target;
  return fs::is_directory(root + "/" + folder) ? named_files(folder, "") : std::vector<Finding>{};
}

}  // namespace moesim::fuzz
