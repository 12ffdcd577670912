// SPDX-License-Identifier: Apache-2.0
// Files of a scenario, with what it changes in them. Figures of a GPU model that are twice its data
// sheet's are slips, such as rates with sparsity.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "sim/base/error.h"
#include "sim/model/gpu_model.h"
#include "sim/scenario/inputs.h"

namespace moesim {

/// The shipped model with the figures of the data sheet of a GPU, which is found by its name up to
/// the first dash; empty if there is none.
std::string data_sheet_of(const std::string& gpu);

/// Warnings about rates of `gpu`, read from `file`, that are twice those of its data sheet.
std::vector<Diagnostic> doubled_figures(const std::string& file, const GpuModel& gpu,
                                        const GpuModel& sheet);

/// What a file is in the cache: its path, with what the scenario changes in it.
std::string changed_file(const std::string& path, const std::vector<Override>& overrides);

InputFile input_file(const std::string& name, const std::string& path,
                     const std::vector<Override>& overrides, InputCache& cache);

/// The same with the content of files that it names.
InputFile whole_input(InputFile file, const std::vector<std::string>& named, InputCache& cache);

/// data_file, with the scenario's own word for what is looked up in the message.
std::string find_file(const std::string& key, const std::string& kind, const std::string& name);

/// A cluster of the scenario with its GPU models; warnings of its file are added.
ClusterInput open_cluster(const Scenario& scenario, const std::string& name,
                          std::vector<Diagnostic>& warnings, InputCache& cache);

/// The names of GPUs that multiply fp8 in place of the mxfp8 that is asked for: tensor cores with
/// fp4 multiply blocks of 32 with one scale, older ones do not.
std::vector<std::string> gpus_without_mxfp8(const ClusterInput& cluster, const IterationSpec& spec);

/// What `read` returns. A change that is meant for one of several inputs and fails at another gets
/// a hint.
template <class Read>
auto read_changed(const std::string& input, std::size_t inputs,
                  const std::vector<Override>& changes, const Read& read) {
  try {
    return read();
  } catch (const Error& e) {
    std::vector<Diagnostic> diagnostics = e.diagnostics();
    for (Diagnostic& d : diagnostics) {
      const bool by_change = std::ranges::any_of(
          changes, [&](const Override& change) { return d.file.ends_with(change.str()); });
      if (inputs < 2 || !by_change || !d.hint.empty()) continue;
      d.hint = fmt::format("{}:NAME.path=value changes only one of several", input);
    }
    throw Error(diagnostics);
  }
}

}  // namespace moesim
