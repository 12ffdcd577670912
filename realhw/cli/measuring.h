// SPDX-License-Identifier: Apache-2.0
// The policies of a scenario, measured: what `run` and `validate` share.
#pragma once

#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "realhw/cli/commands.h"
#include "realhw/cli/source_flags.h"
#include "realhw/measure/local_numerics.h"
#include "realhw/measure/results.h"
#include "sim/flags/output_file.h"

namespace moesim {

/// All that a run found; times on rank 0 only.
struct Measurement {
  HardwareJob about;
  std::unique_ptr<StepSource> source;
  std::vector<Measured> cases;

  std::string json() const {
    return hardware_json(about, source->origin(), source->cluster(), cases);
  }
};

/// Flags of what is measured, and the measuring.
class Measuring {
 public:
  /// `compared`: tokens of a rank and layer that are compared unless --check says otherwise, -1:
  /// all.
  void add_to(CommandLine& command, int compared);
  /// All ranks together; nothing when the input is bad or suits no policy, which has been told
  /// then. `check` runs on rank 0 before anything is measured and may throw Error, too.
  std::optional<Measurement> measure(Job& job, const std::function<void()>& check) const;
  /// Where `measure` prints the header; standard output unless it is set otherwise.
  void print_to(std::FILE* out) { out_ = out; }
  /// Without times: all ranks in this process, on the CPU. Nothing when the input is bad.
  std::optional<std::vector<Numerics>> compute(Job& job) const;

 private:
  SourceFlags source_;
  MeasureOptions options_;
  BackendFlags backend_;
  std::string timeline_;
  std::FILE* out_ = stdout;
};

/// Wrong elements of all policies, Measured or Numerics.
template <class Case>
std::int64_t wrong_elements(const std::vector<Case>& cases) {
  Comparison sum;
  for (const Case& each : cases) sum += each.compared;
  return sum.wrong();
}

/// The exit code of a run that computed so many wrong elements; says how many if `told`.
int code_of(std::int64_t wrong, bool told);

/// Writes results on rank 0; throws std::runtime_error naming it when that fails.
void write_result(const OutputFile& file, const std::string& content);

}  // namespace moesim
