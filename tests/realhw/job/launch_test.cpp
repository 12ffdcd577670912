// SPDX-License-Identifier: Apache-2.0
#include "realhw/launch/launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

#include "realhw/launch/environment.h"
#include "realhw/tcp/meet/hmac.h"
#include "realhw/tcp/meet/secret.h"
#include "tests/error_of.h"

namespace moesim {
namespace {

using testing::HasSubstr;
using testing::Not;

/// An environment without launchers, put back afterwards.
class LaunchTest : public testing::Test {
 protected:
  LaunchTest() {
    for (char** one = environ; *one != nullptr; ++one) before_.emplace_back(*one);
    clearenv();
  }
  ~LaunchTest() override {
    clearenv();
    for (const std::string& one : before_) {
      const auto equals = one.find('=');
      set(one.substr(0, equals).c_str(), one.substr(equals + 1));
    }
  }
  static void set(const char* name, const std::string& value) { setenv(name, value.c_str(), 1); }

 private:
  std::vector<std::string> before_;
};

TEST_F(LaunchTest, FirstHostOfSlurmsLists) {
  EXPECT_EQ(first_host("login"), "login");
  EXPECT_EQ(first_host("a,b"), "a");
  EXPECT_EQ(first_host("node[07-09,11],login"), "node07");
  EXPECT_EQ(first_host("node[3,5]"), "node3");
  EXPECT_EQ(first_host("rack[1-2]n[04-05]-ib,x"), "rack1n04-ib");
  EXPECT_EQ(first_host("node[3"), "node3") << "cut short";
}

TEST_F(LaunchTest, StarterIsFoundInTheEnvironment) {
  EXPECT_EQ(starter(), Starter::nobody);
  set("SLURM_PROCID", "0");
  EXPECT_EQ(starter(), Starter::nobody) << "a batch script";
  set("SLURM_STEP_ID", "0");
  EXPECT_EQ(starter(), Starter::slurm);
  set("PMIX_RANK", "0");
  EXPECT_EQ(starter(), Starter::mpi);
  set("RANK", "0");
  EXPECT_EQ(starter(), Starter::mpi);
  set("WORLD_SIZE", "1");
  EXPECT_EQ(starter(), Starter::torchrun);
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK"}) {
    set(name, "0");
    EXPECT_EQ(starter(), Starter::mpi) << name;
    unsetenv(name);
  }
  unsetenv("PMIX_RANK");
  unsetenv("WORLD_SIZE");
  EXPECT_EQ(starter(), Starter::slurm);
  set("PMI_RANK", "0");
  EXPECT_EQ(starter(), Starter::mpi);
}

TEST_F(LaunchTest, NumbersStartFromTheirLeast) {
  EXPECT_EQ(integer_variable("RANK"), std::nullopt);
  set("RANK", "");
  EXPECT_EQ(integer_variable("RANK"), std::nullopt) << "empty";
  set("RANK", "0");
  EXPECT_EQ(integer_variable("RANK"), 0);
  EXPECT_THAT(error_of([] { integer_variable("RANK", 1); }), HasSubstr("a whole number from 1"));
  for (const char* text : {"-1", "x", "99999999999"}) {
    set("RANK", text);
    EXPECT_THAT(error_of([] { integer_variable("RANK"); }), HasSubstr("a whole number from 0"))
        << text;
  }
}

std::unique_ptr<Job> launched(std::string flag) {
  std::string program = "moesim-hw", command = "run";
  char* words[] = {program.data(), command.data(), flag.data(), nullptr};
  int count = 3;
  char** argv = words;
  return launch(count, argv);
}

TEST_F(LaunchTest, OneRankMeetsNobody) {
  set("RANK", "0");
  set("WORLD_SIZE", "1");
  EXPECT_EQ(torchrun_place().port, TcpPlace().port);
  set("SLURM_PROCID", "0");
  set("SLURM_NTASKS", "1");
  EXPECT_EQ(slurm_place().ranks, 1);
  EXPECT_EQ(slurm_place().host, TcpPlace().host);
  set("SLURM_NTASKS", "2");
  set("SLURM_STEP_NUM_TASKS", "1");
  EXPECT_EQ(slurm_place().ranks, 1);
  set("MOESIM_SECRET", "too short");  // is not asked for
  const auto job = launched("--other");
  EXPECT_EQ(job->rank(), 0);
  EXPECT_EQ(job->ranks(), 1);
  EXPECT_THAT(job->launcher(), Not(HasSubstr("MPI")));
}

TEST_F(LaunchTest, RanksMeetOverTcpIfSlurmOrAFlagSaysSo) {
  EXPECT_THAT(error_of([] { launched("--launcher=tcp"); }), HasSubstr("RANK is not set"));
  set("SLURM_PROCID", "0");
  set("SLURM_STEP_ID", "0");
  set("SLURM_NTASKS", "1");
  EXPECT_THAT(launched("--other")->launcher(), Not(HasSubstr("MPI")));
}

LaunchFlags flags_of(std::string flag, std::string value) {
  std::string program = "moesim-hw";
  char* words[] = {program.data(), flag.data(), value.data(), nullptr};
  LaunchFlags flags;
  CommandLine app("moesim-hw", "");
  flags.add_to(app);
  app.parse(3, words);
  return flags;
}

TEST_F(LaunchTest, FlagsNameALauncherAndALimit) {
  for (const char* name : {"auto", "mpi", "tcp"}) {
    EXPECT_EQ(flags_of("--launcher", name).launcher, name);
  }
  EXPECT_EQ(flags_of("--join-timeout", "7").limit, 7);
  EXPECT_THAT(error_of([] { flags_of("--launcher", "tpc"); }), HasSubstr("tpc is not known"));
  EXPECT_THAT(error_of([] { flags_of("--join-timeout", "0.05"); }), HasSubstr("--join-timeout"));
}

TEST_F(LaunchTest, TorchrunPlace) {
  EXPECT_THAT(error_of(torchrun_place), HasSubstr("RANK is not set"));
  set("RANK", "3");
  set("WORLD_SIZE", "3");
  EXPECT_THAT(error_of(torchrun_place), HasSubstr("RANK=3 of WORLD_SIZE=3"));
  set("WORLD_SIZE", "4x");
  EXPECT_THAT(error_of(torchrun_place), HasSubstr("WORLD_SIZE=4x: expected a whole number"));
  set("WORLD_SIZE", "4");
  EXPECT_THAT(error_of(torchrun_place), HasSubstr("MASTER_ADDR is not set"));
  set("MASTER_ADDR", "somewhere");
  EXPECT_THAT(error_of(torchrun_place), HasSubstr("MASTER_PORT is not set"));
  set("MASTER_PORT", "0");
  EXPECT_THAT(error_of(torchrun_place), HasSubstr("MASTER_PORT=0"));
  set("MASTER_PORT", "1");
  EXPECT_EQ(torchrun_place().str(), "somewhere:1");
  set("MASTER_PORT", "65535");
  EXPECT_EQ(torchrun_place().str(), "somewhere:65535");
  EXPECT_EQ(torchrun_place().rank, 3);
  EXPECT_EQ(torchrun_place().ranks, 4);
  set("TORCHELASTIC_USE_AGENT_STORE", "True");
  EXPECT_THAT(error_of(torchrun_place), HasSubstr("the port 65536 is above 65535"));
  set("MASTER_PORT", "29500");
  EXPECT_EQ(torchrun_place().str(), "somewhere:29501");
}

TEST_F(LaunchTest, SlurmPlace) {
  set("SLURM_PROCID", "5");
  set("SLURM_NTASKS", "16");
  EXPECT_THAT(error_of(slurm_place), HasSubstr("neither MASTER_ADDR nor SLURM_STEP_NODELIST"));
  set("SLURM_JOB_NODELIST", "n[1-4]");
  set("SLURM_STEP_NODELIST", "n[3-4]");
  set("SLURM_JOB_ID", "1000");
  const TcpPlace place = slurm_place();
  EXPECT_EQ(place.host, "n3");
  EXPECT_EQ(place.rank, 5);
  EXPECT_EQ(place.ranks, 16);
  // 16384 + (31 job + step) mod 16384
  EXPECT_EQ(place.port, 16384 + 14616);
  set("SLURM_STEP_ID", "1");
  EXPECT_EQ(slurm_place().port, 16384 + 14617);
  set("SLURM_JOB_ID", "16386");
  set("SLURM_STEP_ID", "16387");
  EXPECT_EQ(slurm_place().port, 16384 + 2 * 31 + 3);
  set("SLURM_STEP_NUM_TASKS", "8");
  EXPECT_EQ(slurm_place().ranks, 8);
  set("SLURM_STEP_NUM_NODES", "1");
  EXPECT_EQ(slurm_place().host, "127.0.0.1");
  set("MASTER_ADDR", "elsewhere");
  set("MASTER_PORT", "29500");
  EXPECT_EQ(slurm_place().str(), "elsewhere:29500");
  for (const int port : {1, 65535}) {
    set("MASTER_PORT", std::to_string(port));
    EXPECT_EQ(slurm_place().port, port);
  }
  set("MASTER_PORT", "65536");
  EXPECT_THAT(error_of(slurm_place), HasSubstr("MASTER_PORT=65536 is above 65535"));
  set("MASTER_PORT", "0");
  EXPECT_THAT(error_of(slurm_place), HasSubstr("MASTER_PORT=0"));
  set("SLURM_STEP_NUM_TASKS", "5");
  EXPECT_THAT(error_of(slurm_place), HasSubstr("SLURM_PROCID=5 of 5 tasks"));
}

TEST_F(LaunchTest, SlurmsOlderNamesOfNodes) {
  set("SLURM_PROCID", "0");
  set("SLURM_NTASKS", "2");
  set("SLURM_NODELIST", "old[1-2]");
  EXPECT_EQ(slurm_place().host, "old1");
  EXPECT_EQ(slurm_place().port, 16384) << "of no job";
  set("SLURM_JOB_NODELIST", "job[1-2]");
  EXPECT_EQ(slurm_place().host, "job1");
  set("SLURM_NNODES", "2");
  EXPECT_EQ(slurm_place().host, "job1");
  set("SLURM_NNODES", "1");
  EXPECT_EQ(slurm_place().host, "127.0.0.1");
}

TEST_F(LaunchTest, SecretIsReadAndGuarded) {
  EXPECT_EQ(secret_from_environment(), "");
  set("MOESIM_SECRET", "too short");
  EXPECT_THAT(error_of(secret_from_environment), HasSubstr("9 characters; it needs at least 16"));
  set("MOESIM_SECRET", "0123456789abcde");
  EXPECT_THAT(error_of(secret_from_environment), HasSubstr("15 characters"));
  set("MOESIM_SECRET", "0123456789abcdef");
  if (!has_hmac) {
    EXPECT_THAT(error_of(secret_from_environment), HasSubstr("without libcrypto"));
    return;
  }
  EXPECT_EQ(secret_from_environment(), "0123456789abcdef");

  const std::string path = testing::TempDir() + "moesim-secret";
  set("MOESIM_SECRET_FILE", path);
  EXPECT_THAT(error_of(secret_from_environment), HasSubstr("both set"));
  unsetenv("MOESIM_SECRET");
  std::remove(path.c_str());
  EXPECT_THAT(error_of(secret_from_environment), HasSubstr("cannot read"));
  std::ofstream(path) << "fedcba9876543210\n";
  chmod(path.c_str(), 0640);
  EXPECT_THAT(error_of(secret_from_environment), HasSubstr("(mode 0640)"));
  chmod(path.c_str(), 0601);
  EXPECT_THAT(error_of(secret_from_environment), HasSubstr("(mode 0601)"));
  chmod(path.c_str(), 0600);
  EXPECT_EQ(secret_from_environment(), "fedcba9876543210");
  std::ofstream(path) << "0123456789abcdef0\r\nmore";
  EXPECT_EQ(secret_from_environment(), "0123456789abcdef0") << "the first line";
  std::ofstream(path) << "";
  EXPECT_THAT(error_of(secret_from_environment), HasSubstr("the secret has 0 characters"));
  std::remove(path.c_str());
  set("MOESIM_SECRET_FILE", "/dev/null");
  EXPECT_THAT(error_of(secret_from_environment), HasSubstr("'/dev/null' is not a regular file"));
}

TEST_F(LaunchTest, ProofIsHmacSha256) {
  if (!has_hmac) GTEST_SKIP() << "built without libcrypto";
  // RFC 4231, test case 2
  const std::string digest = hmac_sha256("Jefe", "what do ya want for nothing?");
  std::string hex;
  for (const char byte : digest) {
    const char* digits = "0123456789abcdef";
    hex += digits[static_cast<unsigned char>(byte) >> 4];
    hex += digits[static_cast<unsigned char>(byte) & 15];
  }
  EXPECT_EQ(hex, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

TEST_F(LaunchTest, ProofsDiffer) {
  EXPECT_TRUE(same_proof("abc", "abc"));
  EXPECT_FALSE(same_proof("abc", "abd"));
  EXPECT_FALSE(same_proof("abc", "xbc"));
  EXPECT_FALSE(same_proof("abc", "ab"));
  EXPECT_NE(fresh_nonce(), fresh_nonce());
  EXPECT_EQ(fresh_nonce().size(), nonce_size);
  EXPECT_EQ(proof_of("", "text"), std::string(32, '\0')) << "without a secret";
}

}  // namespace
}  // namespace moesim
