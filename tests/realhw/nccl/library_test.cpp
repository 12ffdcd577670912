// SPDX-License-Identifier: Apache-2.0
// Libraries that are loaded when they are needed.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include "realhw/cuda/cuda_device.h"
#include "realhw/cuda/shared_library.h"
#include "realhw/nccl/nccl_api.h"

namespace moesim {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string library_error(const SharedLibrary::Names& names) {
  try {
    const SharedLibrary library(names);
  } catch (const std::runtime_error& e) {
    return e.what();
  }
  return "";
}

TEST(SharedLibrary, TellsWhereItLooked) {
  setenv("CUDA_HOME", "/nowhere/cuda", 1);
  EXPECT_THAT(library_error({"libnone.so.7", "MOESIM_NONE", "NONE_HOME", "none"}),
              AllOf(HasSubstr("libnone.so.7 cannot be loaded"),
                    HasSubstr("/nowhere/cuda/lib64/libnone.so.7"), HasSubstr("$MOESIM_NONE")));
  unsetenv("CUDA_HOME");
}

TEST(SharedLibrary, AVariableNamesTheOnlyPlace) {
  setenv("MOESIM_NONE", "/nowhere/libm.so.6", 1);
  EXPECT_THAT(library_error({"libm.so.6", "MOESIM_NONE", "NONE_HOME", "none"}),
              HasSubstr("looked at /nowhere/libm.so.6;"));
  unsetenv("MOESIM_NONE");
  EXPECT_EQ(library_error({"libm.so.6", "MOESIM_NONE", "NONE_HOME", "none"}), "");
}

/// Below a folder of its own, links to a library that exists under a name that no loader knows.
class PlacedLibrary : public testing::Test {
 protected:
  PlacedLibrary() { std::filesystem::create_directory(folder_); }
  ~PlacedLibrary() override {
    for (const char* variable : {"CUDA_HOME", "PLACED_HOME", "VIRTUAL_ENV", "CONDA_PREFIX"}) {
      unsetenv(variable);
    }
    std::filesystem::remove_all(folder_);
  }
  std::string place(const std::filesystem::path& below) const {
    const auto path = folder_ / below / "libplaced.so.7";
    std::filesystem::create_directories(path.parent_path());
    std::filesystem::create_symlink(libm_, path);
    return path;
  }
  void set(const char* variable, const char* below) const {
    setenv(variable, (folder_ / below).c_str(), 1);
  }
  static std::string found() { return SharedLibrary(names).path(); }

  inline static const SharedLibrary::Names names{"libplaced.so.7", "MOESIM_PLACED", "PLACED_HOME",
                                                 "placed"};

 private:
  static std::filesystem::path path_of_libm() {
    const SharedLibrary library({"libm.so.6", "MOESIM_NONE", "NONE_HOME", "none"});
    double (*cosine)(double) = nullptr;
    library.find("cos", cosine);
    Dl_info info;
    if (dladdr(reinterpret_cast<void*>(cosine), &info) == 0) throw std::runtime_error("no libm");
    return info.dli_fname;
  }

  std::filesystem::path libm_ = path_of_libm();
  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("moesim-library-" + std::to_string(getpid()));
};

TEST_F(PlacedLibrary, LiesInPackagesOfActivePythonEnvironments) {
  set("VIRTUAL_ENV", "venv");
  set("CONDA_PREFIX", "conda");
  EXPECT_THROW(found(), std::runtime_error);
  const std::string conda = place("conda/lib/python3.9/site-packages/nvidia/placed/lib");
  EXPECT_EQ(found(), conda);
  const std::string venv = place("venv/lib/python3.11/site-packages/nvidia/placed/lib");
  EXPECT_EQ(found(), venv);
}

TEST_F(PlacedLibrary, HomesComeFirst) {
  set("VIRTUAL_ENV", "venv");
  place("venv/lib/python3.11/site-packages/nvidia/placed/lib");
  set("CUDA_HOME", "cuda");
  const std::string cuda = place("cuda/lib64");
  EXPECT_EQ(found(), cuda);
  set("PLACED_HOME", "home");
  const std::string home = place("home/lib");
  EXPECT_EQ(found(), home);
}

TEST_F(PlacedLibrary, ThatIsNoneIsSkippedAndTold) {
  set("CUDA_HOME", "cuda");
  set("PLACED_HOME", "home");
  const std::string broken = place("home/lib64");
  std::filesystem::remove(broken);
  std::ofstream(broken) << "no library\n";
  EXPECT_THAT(library_error(names),
              AllOf(HasSubstr("home/lib64/libplaced.so.7: "), HasSubstr("looked at " + broken)));
  const std::string cuda = place("cuda/lib64");
  EXPECT_EQ(found(), cuda);
}

TEST(SharedLibrary, AMissingFunctionIsAnError) {
  const SharedLibrary library({"libm.so.6", "MOESIM_NONE", "NONE_HOME", "none"});
  double (*cosine)(double) = nullptr;
  library.find("cos", cosine);
  EXPECT_EQ(cosine(0), 1);
  library.find_optional("no_such_function", cosine);
  EXPECT_EQ(cosine, nullptr);
  EXPECT_THROW(library.find("no_such_function", cosine), std::runtime_error);
}

TEST(Gpus, AreMissedForAReason) {
  const FoundGpus gpus = find_gpus();
  EXPECT_EQ(gpus.why_none.empty(), gpus.count > 0);
}

/// NCCL reads its environment when it is loaded.
TEST(NcclLibrary, IsToldTheOrderOfLaunchesAndThatGraphsRunAlone) {
  unsetenv("NCCL_LAUNCH_ORDER_IMPLICIT");
  unsetenv("NCCL_GRAPH_MIXING_SUPPORT");
  try {
    nccl_library();
  } catch (const std::runtime_error&) {  // there is none
  }
  EXPECT_STREQ(std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT"), "1");
  EXPECT_STREQ(std::getenv("NCCL_GRAPH_MIXING_SUPPORT"), "0");
}

TEST(NcclLibrary, IsNewEnoughWhereThereIsOne) {
  try {
    EXPECT_THAT(version_text(nccl_library()), HasSubstr("2."));
  } catch (const std::runtime_error& e) {
    GTEST_SKIP() << e.what();
  }
}

}  // namespace
}  // namespace moesim
