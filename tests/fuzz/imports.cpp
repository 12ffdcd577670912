// SPDX-License-Identifier: Apache-2.0
// Every importer: a bundle's first line is "KIND EXPERTS TOP_K", its files the inputs. What was
// imported is a sound trace, and nothing is left next to it.
#include <unistd.h>

#include <filesystem>
#include <sstream>

#include "sim/base/error.h"
#include "sim/import/importer.h"
#include "sim/trace/verify.h"
#include "tests/fuzz/bundle.h"
#include "tests/fuzz/scratch_file.h"
#include "tests/fuzz/target.h"

namespace moesim::fuzz {
namespace {

namespace fs = std::filesystem;

void import_bundle(std::string_view bytes) {
  const Bundle bundle = unbundled(bytes);
  std::istringstream words{std::string(bundle.first_line)};
  std::string kind;
  ImportOptions options;
  words >> kind >> options.experts >> options.top_k;
  options.moe_layers = {1, 2};
  options.model_layers = 3;
  options.inputs = {scratch_bundle(bundle)};
  options.output = scratch_folder() + "/out";
  try {
    import_trace(kind, options);
  } catch (const Error&) {
    require(!fs::exists(scratch_folder() + "/.out.part"), "an import left its folder behind");
    throw;
  }
  const auto problems = verify_trace(options.output);
  require(problems.empty(), "an import made a trace that is not sound: " +
                                (problems.empty() ? "" : problems.front().message));
  fs::remove_all(options.output);
}

}  // namespace

const Target imports_target{"imports", import_bundle};

}  // namespace moesim::fuzz
