// SPDX-License-Identifier: Apache-2.0
// moesim-hw run: measures the policies of a scenario.
#include <fmt/format.h>

#include <cstdio>

#include "realhw/cli/agreed.h"
#include "realhw/cli/measuring.h"
#include "sim/flags/output_file.h"

namespace moesim {
namespace {

template <class Case>
void tell_unsuitable(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    if (!c.unsuitable.empty()) fmt::print(stderr, "{}: {}", c.policy, c.unsuitable);
  }
}

class RunCommand : public Command {
 public:
  explicit RunCommand(CommandLine& app) {
    CommandLine run = app.add_subcommand("run", "Measures the policies of a scenario");
    measuring_.add_to(run, -1);
    run.add_flag("--local", local_,
                 "all ranks in this process, on the CPU: compares numbers, times nothing");
    run.add_option(
        "--json", json_,
        "writes everything printed, and more, to a file; - prints it, and the rest to standard "
        "error");
  }

  int run(Job& job) override {
    if (local_) return run_locally(job);
    const auto measured = measuring_.measure(job, [&] {
      if (!json_.empty()) output_.take(json_);
      measuring_.print_to(output_.beside());
    });
    if (!measured) return bad_input;
    if (job.rank() == 0) report(*measured);
    return code_of(wrong_elements(measured->cases), job.rank() == 0);
  }

 private:
  int run_locally(Job& job) const {
    const auto cases = measuring_.compute(job);
    if (!cases) return bad_input;
    fmt::print("# all ranks in one process on the CPU: only numbers, no times\n{}",
               numerics_table(*cases));
    tell_unsuitable(*cases);
    return code_of(wrong_elements(*cases), true);
  }

  void report(const Measurement& m) const {
    fmt::print(output_.beside(), "{}\n{}", hardware_table(m.cases), op_table(m.cases));
    tell_unsuitable(m.cases);
    write_result(output_, m.json());
  }

  Measuring measuring_;
  bool local_ = false;
  std::string json_;
  OutputFile output_;  // on rank 0
};

}  // namespace

std::unique_ptr<Command> add_run_command(CommandLine& app) {
  return std::make_unique<RunCommand>(app);
}

}  // namespace moesim
