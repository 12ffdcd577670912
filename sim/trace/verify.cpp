// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <span>

#include "sim/trace/native_step.h"
#include "sim/trace/trace_json.h"

namespace moesim {
namespace {

namespace fs = std::filesystem;

template <class Id>
IdProblems check_rows(const Id* ids, const IdRows& rows, int experts) {
  IdProblems found;
  std::vector<std::int64_t> last_token(experts, -1);
  for (std::int64_t t = 0; t < rows.tokens(); ++t, ids += rows.top_k()) {
    bool in_range = true;
    for (int k = 0; k < rows.top_k(); ++k) in_range = in_range && ids[k] < experts;
    if (!in_range) {
      const auto bad = [&](Id id) { return id >= experts; };
      if (found.out_of_range == 0) {
        found.out_of_range_token = t;
        found.out_of_range_id = *std::find_if(ids, ids + rows.top_k(), bad);
      }
      found.out_of_range += std::count_if(ids, ids + rows.top_k(), bad);
      continue;
    }
    int twice = -1;
    for (int k = 0; k < rows.top_k(); ++k) {
      auto& last = last_token[ids[k]];
      if (last == t) twice = ids[k];
      last = t;
    }
    if (twice >= 0 && found.repeated++ == 0) found.repeated_token = t, found.repeated_id = twice;
  }
  return found;
}

/// Two rows, as words and as bytes.
using TwoRows [[gnu::vector_size(16)]] = std::uint64_t;
using RowBytes [[gnu::vector_size(16)]] = std::uint8_t;

/// Whether the `k` <= 8 bytes of every row differ: a row is a word, compared with itself turned by
/// up to half of its bytes.
template <int k>
bool are_distinct(const std::uint8_t* ids, std::int64_t rows) {
  constexpr std::uint64_t lanes = k == 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << 8 * k) - 1;
  TwoRows equal{};
  const auto compare = [&](const std::uint8_t* row, const std::uint8_t* other) {
    std::array<std::uint64_t, 2> words{};
    std::memcpy(&words[0], row, k);
    std::memcpy(&words[1], other, k);
    const TwoRows both = {words[0], words[1]};
#pragma GCC unroll 4
    for (int turn = 1; turn <= k / 2; ++turn) {
      const TwoRows turned = (both >> 8 * turn | both << 8 * (k - turn)) & lanes;
      equal |= (TwoRows)((RowBytes)both == (RowBytes)turned);
    }
  };
  for (; rows > 1; rows -= 2, ids += 2 * k) compare(ids, ids + k);
  if (rows > 0) compare(ids, ids);
  return ((equal[0] | equal[1]) & lanes) == 0;
}

std::uint8_t largest(std::span<const std::uint8_t> ids) {
  std::array<std::uint8_t, 64> most{};  // by place: so compilers take many at a time
  std::size_t i = 0;
  for (; i + most.size() <= ids.size(); i += most.size()) {
    for (std::size_t j = 0; j < most.size(); ++j) most[j] = std::max(most[j], ids[i + j]);
  }
  for (; i < ids.size(); ++i) most[0] = std::max(most[0], ids[i]);
  return *std::max_element(most.begin(), most.end());
}

/// Whether rows of the usual lengths are sound, which is found without looking for the place of a
/// mistake; false if it takes a closer look.
bool surely_sound(const std::uint8_t* ids, const IdRows& rows, int experts) {
  const auto count = static_cast<std::size_t>(rows.tokens() * rows.top_k());
  if (experts < 256 && count > 0 && largest({ids, count}) >= experts) return false;
  switch (rows.top_k()) {
    case 1:
      return true;
    case 2:
      return are_distinct<2>(ids, rows.tokens());
    case 4:
      return are_distinct<4>(ids, rows.tokens());
    case 6:
      return are_distinct<6>(ids, rows.tokens());
    case 8:
      return are_distinct<8>(ids, rows.tokens());
    default:
      return false;
  }
}

/// Reports on the files of one step.
class StepVerifier {
 public:
  StepVerifier(const TraceStep& step, const TraceInfo& info, const std::string& folder,
               std::vector<Diagnostic>& problems)
      : step_(step), info_(info), folder_(folder), problems_(problems) {}

  void layer(int layer) {
    const IdProblems ids = check_ids(step_.ids(layer), info_.experts);
    if (ids.out_of_range > 0) {
      report("ids.npy", fmt::format("{}, token {}: expert {} of a trace with {} experts ({})",
                                    name(layer), ids.out_of_range_token, ids.out_of_range_id,
                                    info_.experts, times(ids.out_of_range, "id")));
    }
    if (ids.repeated > 0) {
      report("ids.npy",
             fmt::format("{}, token {}: expert {} is chosen twice ({})", name(layer),
                         ids.repeated_token, ids.repeated_id, times(ids.repeated, "token")));
    }
    if (step_.has_weights()) weights(layer);
  }

  void source_ranks() {
    if (!step_.has_source_ranks()) return;
    for (std::int64_t t = 0; t < step_.tokens(); ++t) {
      if (const int rank = step_.source_rank(t); rank < 0 || rank > max_source_rank) {
        return report("source_ranks.npy", fmt::format("token {}: rank {} is not from 0 to {}", t,
                                                      rank, max_source_rank));
      }
    }
  }

 private:
  std::string name(int layer) const { return fmt::format("layer {}", info_.layers[layer]); }
  static std::string times(std::int64_t n, const std::string& what) {
    return fmt::format("{} such {}{} in this layer", n, what, n == 1 ? "" : "s");
  }
  void report(const std::string& file, std::string message) {
    problems_.push_back({Severity::error, folder_ + "/" + file, 0, 0, std::move(message), "", ""});
  }

  void weights(int layer) {
    std::int64_t bad = 0, first = 0;
    float value = 0;
    for (std::int64_t t = 0; t < step_.tokens(); ++t) {
      for (int k = 0; k < info_.top_k; ++k) {
        const float w = step_.weight(layer, t, k);
        if (is_weight(w)) continue;
        if (bad++ == 0) first = t, value = w;
      }
    }
    if (bad > 0) {
      report("gate_weights.npy",
             fmt::format("{}, token {}: weight {} is not a finite number from 0 up ({})",
                         name(layer), first, value, times(bad, "weight")));
    }
  }

  const TraceStep& step_;
  const TraceInfo& info_;
  const std::string& folder_;
  std::vector<Diagnostic>& problems_;
};

void warn_of_leftovers(const std::string& directory, std::vector<Diagnostic>& problems) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(".step-")) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  for (const auto& name : names) {
    problems.push_back({Severity::warning, directory + "/" + name, 0, 0,
                        "is a step whose recording was interrupted; it is ignored", "",
                        "remove it once nothing records here"});
  }
}

void add(std::vector<Diagnostic>& problems, const Error& error) {
  problems.insert(problems.end(), error.diagnostics().begin(), error.diagnostics().end());
}

}  // namespace

IdProblems check_ids(const IdRows& rows, int experts) {
  if (rows.width() == 1) {
    const auto* const ids = static_cast<const std::uint8_t*>(rows.data());
    return surely_sound(ids, rows, experts) ? IdProblems() : check_rows(ids, rows, experts);
  }
  return check_rows(static_cast<const std::uint16_t*>(rows.data()), rows, experts);
}

bool is_weight(float value) { return std::isfinite(value) && value >= 0; }

std::vector<Diagnostic> verify_trace(const std::string& directory, const TraceProgress& progress) {
  std::vector<Diagnostic> problems;
  TraceInfo info;
  try {
    if (!fs::is_directory(directory)) throw error_in(directory, "there is no such trace");
    info = read_trace_json(directory);
  } catch (const Error& error) {
    add(problems, error);
    return problems;
  }
  const auto folders = find_step_folders(directory, problems);
  double done = 0;
  for (const auto& folder : folders) {
    if (const auto step = open_step(folder, info, problems)) {
      StepVerifier verifier(*step, info, folder.path, problems);
      for (int layer = 0; layer < static_cast<int>(info.layers.size()); ++layer) {
        verifier.layer(layer);
        if (progress) {
          progress((done + layer / static_cast<double>(info.layers.size())) /
                   static_cast<double>(folders.size()));
        }
      }
      verifier.source_ranks();
    }
    done += 1;
  }
  warn_of_leftovers(directory, problems);
  return problems;
}

}  // namespace moesim
