// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/slurm.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <optional>

#include "sim/base/error.h"
#include "sim/base/platform.h"
#include "sim/run/worker_count.h"
#include "sim/sweep/sweep.h"
#include "tests/trace/scratch.h"

namespace moesim {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

TEST(SlurmJobs, ShardsAreTheTasksOfTheArray) {
  const SlurmJobs jobs =
      slurm_jobs({"/bin/moesim", "sweep", "it's.yaml"}, "f", "--partition=a --array=0-3%2");
  EXPECT_THAT(jobs.array, Contains("--array=0-3%2"));
  EXPECT_THAT(jobs.array, Contains("--requeue"));
  EXPECT_THAT(
      jobs.array.back(),
      HasSubstr(R"(exec '/bin/moesim' 'sweep' 'it'\''s.yaml' --shard "$SLURM_ARRAY_TASK_ID/4")"));
  EXPECT_THAT(jobs.merge, Contains("--partition=a"));
  EXPECT_THAT(jobs.merge, Not(Contains(HasSubstr("--array"))));
  EXPECT_THAT(jobs.merge.back(), HasSubstr("--merge"));
}

TEST(SlurmJobs, EveryJobHasItsNameAndLog) {
  const SlurmJobs jobs = slurm_jobs({"m", "a b"}, "out", "-p x");
  EXPECT_THAT(
      jobs.array,
      testing::ElementsAre("sbatch", "--parsable", "--requeue", "--open-mode=append",
                           "--job-name=moesim-sweep", "--output=out.slurm-%a.log", "--array=0-15",
                           "-p", "x", "--wrap=exec 'm' 'a b' --shard \"$SLURM_ARRAY_TASK_ID/16\""));
  EXPECT_THAT(jobs.merge,
              testing::ElementsAre("sbatch", "--parsable", "--requeue", "--open-mode=append",
                                   "--job-name=moesim-sweep", "--output=out.slurm-merge.log", "-p",
                                   "x", "--wrap=exec 'm' 'a b' --merge"));
  EXPECT_THAT(slurm_jobs({"m"}, "f", "--array=0-0").array.back(), HasSubstr("TASK_ID/1\""));
}

TEST(SlurmJobs, ArraysCountFromZero) {
  EXPECT_THAT(slurm_jobs({"m"}, "f", "").array, Contains("--array=0-15"));
  for (const char* array :
       {"--array=1-4", "--array=0,2", "--array=0-7:2", "--array=0--1", "--array="}) {
    EXPECT_THROW(slurm_jobs({"m"}, "f", array), Error) << array;
  }
}

TEST(SlurmJobs, AreCallsWithoutSlurm) {
  EXPECT_THAT(without_slurm({"m", "sweep", "--slurm", "-p x", "g.yaml", "--slurm=-p y", "-q"}),
              testing::ElementsAre(own_program().string(), "sweep", "g.yaml", "-q"));
  EXPECT_THAT(without_slurm({"m", "sweep", "--slurms", "a"}),
              testing::ElementsAre(own_program().string(), "sweep", "--slurms", "a"));
}

/// Variables of the environment that are as they were in the end.
class Environment {
 public:
  void set(const std::string& name, const std::string& value) {
    const char* old = std::getenv(name.c_str());
    before_.try_emplace(name, old != nullptr ? std::optional<std::string>(old) : std::nullopt);
    ::setenv(name.c_str(), value.c_str(), 1);
  }
  ~Environment() {
    for (const auto& [name, old] : before_) {
      old ? ::setenv(name.c_str(), old->c_str(), 1) : ::unsetenv(name.c_str());
    }
  }

 private:
  std::map<std::string, std::optional<std::string>> before_;
};

TEST(SlurmJobs, TheOneThatMergesWaitsForTheArray) {
  const ScratchFolder scratch;
  Environment environment;
  environment.set("PATH", scratch.path());
  const SlurmJobs jobs{{"sbatch", "--array=0-3"}, {"sbatch", "--parsable", "merge"}};
  EXPECT_THROW(submit(jobs), std::runtime_error) << "no such program";
  const auto sbatch = [&](const std::string& ending) {
    write_bytes(scratch / "sbatch",
                "#!/bin/sh\necho \"$*\" >> " + scratch.path() + "/calls\n" + ending);
    std::filesystem::permissions(scratch / "sbatch", std::filesystem::perms::owner_all);
    return submit(jobs);
  };
  EXPECT_EQ(sbatch("echo \"$#7;cluster\"\n"), (std::pair<std::string, std::string>("17", "37")));
  EXPECT_EQ(read_bytes(scratch / "calls"),
            "--array=0-3\n--dependency=afterok:17 --parsable merge\n");
  EXPECT_EQ(sbatch("echo 5\necho\n").second, "5");
  EXPECT_THROW(sbatch("echo 5\nexit 1\n"), std::runtime_error);
  EXPECT_THROW(sbatch("kill -9 $$\n"), std::runtime_error);
}

TEST(Launch, GivesEachOfItsProcessesOneWorker) {
  const Launch one{"a", 0, 2};
  EXPECT_EQ(workers_of(one, 0), 1);
  EXPECT_EQ(workers_of(one, 3), 3);
  EXPECT_EQ(workers_of(std::nullopt, 3), 3);
  EXPECT_EQ(workers_of(std::nullopt, 0), worker_count(0));
}

TEST(Launch, IsWhatALauncherSays) {
  Environment environment;
  const auto launch = [&](const std::vector<std::string>& values) {
    const char* names[] = {"PMIX_NAMESPACE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                           "SLURM_JOB_ID",   "SLURM_STEP_ID",        "SLURM_RESTART_COUNT",
                           "SLURM_PROCID",   "SLURM_STEP_NUM_TASKS"};
    for (std::size_t i = 0; i < std::size(names); ++i) {
      environment.set(names[i], i < values.size() ? values[i] : "");
    }
    const auto found = launch_of_environment();
    return found ? fmt::format("{}: {} of {}", found->id, found->rank, found->size) : "none";
  };
  EXPECT_EQ(launch({}), "none");
  EXPECT_EQ(launch({"a/b c", "0", "2"}), "a_b_c: 0 of 2");
  EXPECT_EQ(launch({"a", "1", "2", "7", "8", "9", "3", "4"}), "a: 1 of 2") << "srun of an mpirun";
  EXPECT_EQ(launch({"", "", "", "7", "8", "9", "3", "4"}), "slurm-7.8.9: 3 of 4");
  EXPECT_EQ(launch({"a", "1", "", "7", "8", "", "3", "4"}), "slurm-7.8.: 3 of 4");
  for (const std::vector<std::string>& none :
       std::vector<std::vector<std::string>>{{"", "0", "2"},
                                             {"a", "", "2"},
                                             {"a", "0", ""},
                                             {"a", "0", "1"},
                                             {"a", "2", "2"},
                                             {"a", "-1", "2"},
                                             {"", "", "", "", "8", "9", "3", "4"},
                                             {"", "", "", "7", "", "9", "3", "4"}}) {
    EXPECT_EQ(launch(none), "none");
  }
}

}  // namespace
}  // namespace moesim
