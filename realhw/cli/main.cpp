// SPDX-License-Identifier: Apache-2.0
// moesim-hw: runs the plans that moesim simulates on hardware, one process a GPU.
#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <memory>

#include "realhw/cli/agreed.h"
#include "realhw/cli/program.h"
#include "realhw/launch/launch.h"
#include "sim/base/bad_path.h"
#include "sim/base/error.h"

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // a file beyond ulimit -f fails as on a full disk
  std::unique_ptr<moesim::Job> job;
  int code = moesim::run_failed;
  try {
    job = moesim::launch(argc, argv);
    return moesim::run_moesim_hw(argc, argv, *job, [&] { job.reset(); });
  } catch (const moesim::Error& e) {
    fmt::print(stderr, "{}", e.what());
    code = moesim::bad_input;
  } catch (const std::filesystem::filesystem_error& e) {
    fmt::print(stderr, "{}", moesim::bad_path(e).what());
    code = moesim::bad_input;
  } catch (const std::exception& e) {
    fmt::print(stderr, "moesim-hw: the run failed: {}\n", moesim::cause_of(e));
  }
  if (job) job->abort(code);
  return code;
}
