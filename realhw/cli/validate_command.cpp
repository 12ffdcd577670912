// SPDX-License-Identifier: Apache-2.0
// moesim-hw validate: measures, and runs moesim validate on the results after the job has ended.
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <stdexcept>

#include "realhw/cli/agreed.h"
#include "realhw/cli/measuring.h"
#include "sim/base/file_claims.h"
#include "sim/base/processes.h"
#include "sim/report/tolerance.h"

namespace fs = std::filesystem;

namespace moesim {
namespace {

// Tokens per rank and layer that are compared with the reference. They are few, because computing
// the reference takes longer than a step.
constexpr int compared_tokens = 16;

/// The simulator: next to moesim-hw, in the same build, or on PATH.
std::string find_simulator() {
  const fs::path folder = fs::read_symlink("/proc/self/exe").parent_path();
  for (const fs::path& place : {folder / "moesim", folder / "../../sim/cli/moesim"}) {
    if (::access(place.c_str(), X_OK) == 0) return place.lexically_normal();
  }
  const std::string on_path = find_program("moesim");
  if (!on_path.empty()) return on_path;
  throw Error(
      "moesim is neither next to moesim-hw nor on PATH",
      "measure with moesim-hw run --json FILE, then run moesim validate FILE where moesim is "
      "installed");
}

class ValidateCommand : public Command {
 public:
  explicit ValidateCommand(CommandLine& app) {
    CommandLine command = app.add_subcommand(
        "validate", "Measures the policies of a scenario and compares them with the simulator");
    measuring_.add_to(command, compared_tokens);
    command.add_option("--tolerance", tolerance_,
                       "greatest mean absolute error of step times (default 12%)");
    command.add_option("--json", json_, "writes the comparison to a file");
    command.add_option("--measured", measured_,
                       "keeps the measurements in a file that moesim validate reads");
  }

  int run(Job& job) override {
    const auto measured = measuring_.measure(job, [&] {
      simulator_ = find_simulator();
      if (!tolerance_.empty()) parse_tolerance(tolerance_);
      for (const std::string& path : {json_, measured_}) {
        if (!path.empty()) claim_output(path);
      }
    });
    if (!measured) return bad_input;
    if (job.rank() == 0) content_ = measured->json();
    return 0;
  }

  int after_job() override {
    if (content_.empty()) return 0;  // only rank 0 has results
    const bool keep = !measured_.empty();
    fs::path file = measured_;
    if (!keep) {
      file = fs::temp_directory_path() / fmt::format("moesim-measured-{}.json", ::getpid());
    }
    write_result(OutputFile(file), content_);
    std::vector<std::string> words = {simulator_, "validate", file};
    if (!tolerance_.empty()) words.insert(words.end(), {"--tolerance", tolerance_});
    if (!json_.empty()) words.insert(words.end(), {"--json", json_});
    const int code = run_program(words);
    if (!keep) fs::remove(file);
    return code < 0 ? run_failed : code;
  }

 private:
  Measuring measuring_;
  std::string tolerance_, json_, measured_;
  std::string simulator_, content_;  // on rank 0
};

}  // namespace

std::unique_ptr<Command> add_validate_command(CommandLine& app) {
  return std::make_unique<ValidateCommand>(app);
}

}  // namespace moesim
