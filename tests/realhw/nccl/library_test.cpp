// SPDX-License-Identifier: Apache-2.0
// Libraries that are loaded when they are needed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <stdexcept>
#include <string>

#include "realhw/cuda/shared_library.h"
#include "realhw/nccl/nccl_api.h"

namespace moesim {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string error_of(const SharedLibrary::Names& names) {
  try {
    const SharedLibrary library(names);
  } catch (const std::runtime_error& e) {
    return e.what();
  }
  return "";
}

TEST(SharedLibrary, TellsWhereItLooked) {
  setenv("CUDA_HOME", "/nowhere/cuda", 1);
  EXPECT_THAT(error_of({"libnone.so.7", "MOESIM_NONE", "NONE_HOME", "none"}),
              AllOf(HasSubstr("libnone.so.7 cannot be loaded"),
                    HasSubstr("/nowhere/cuda/lib64/libnone.so.7"), HasSubstr("$MOESIM_NONE")));
  unsetenv("CUDA_HOME");
}

TEST(SharedLibrary, AVariableNamesTheOnlyPlace) {
  setenv("MOESIM_NONE", "/nowhere/libm.so.6", 1);
  EXPECT_THAT(error_of({"libm.so.6", "MOESIM_NONE", "NONE_HOME", "none"}),
              HasSubstr("looked at /nowhere/libm.so.6;"));
  unsetenv("MOESIM_NONE");
  EXPECT_EQ(error_of({"libm.so.6", "MOESIM_NONE", "NONE_HOME", "none"}), "");
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

TEST(NcclLibrary, IsNewEnoughWhereThereIsOne) {
  try {
    EXPECT_THAT(version_text(nccl_library()), HasSubstr("2."));
  } catch (const std::runtime_error& e) {
    GTEST_SKIP() << e.what();
  }
}

}  // namespace
}  // namespace moesim
