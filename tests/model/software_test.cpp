// SPDX-License-Identifier: Apache-2.0
// Which changes a software makes to what it runs on.
#include "sim/model/software.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/files.h"
#include "sim/base/temporary_folder.h"

namespace moesim {
namespace {

using testing::ElementsAre;

/// Of a die, a kind of dispatch and a transport that are all called "it".
Software changing_software() {
  const auto to = [](const char* path, const char* value) {
    return Software::Changes{{"it", {Override{path, value, ""}}}};
  };
  Software software;
  software.kept = to("kept", "1");
  software.kept["others"] = {Override{"kept", "2", ""}};
  software.slowdown = to("slowdown", "1");
  software.product_sms = to("product", "1");
  software.dispatch = to("dispatch", "1");
  software.dispatch_with_stash = to("stash", "1");
  software.dispatch_sms = to("sms", "1");
  software.transports = to("transport", "1");
  return software;
}

std::vector<std::string> texts_of(const std::vector<Override>& changes) {
  std::vector<std::string> texts;
  for (const Override& change : changes) texts.push_back(change.path + "=" + change.value);
  return texts;
}

TEST(SoftwareChanges, OfAGpuDependOnWhatRunsNextToKernels) {
  const Software software = changing_software();
  const auto of = [&](const char* die, const ExchangesNextToKernels& exchanges) {
    return texts_of(software.changes_of_gpu(die, exchanges));
  };
  EXPECT_THAT(of("it", {}), ElementsAre("kept=1"));
  EXPECT_THAT(of("it", {.tokens = true}), ElementsAre("kept=1", "slowdown=1", "product=1"));
  EXPECT_THAT(of("it", {.parameters = true}), ElementsAre("kept=1", "product=1"));
  EXPECT_THAT(of("another", {.tokens = true}), ElementsAre("kept=2"));
}

TEST(SoftwareChanges, OfAPolicyAndOfATransportAsWell) {
  const Software software = changing_software();
  EXPECT_THAT(texts_of(software.changes_of_policy("it", {})), ElementsAre("dispatch=1"));
  EXPECT_THAT(texts_of(software.changes_of_policy("it", {}, true)),
              ElementsAre("stash=1", "dispatch=1"));
  EXPECT_THAT(texts_of(software.changes_of_policy("it", {.tokens = true})),
              ElementsAre("dispatch=1", "sms=1"));
  EXPECT_THAT(texts_of(software.changes_of_policy("it", {.parameters = true})),
              ElementsAre("dispatch=1"));
  EXPECT_THAT(texts_of(software.changes_of_transport("it", {})), ElementsAre());
  EXPECT_THAT(texts_of(software.changes_of_transport("it", {.parameters = true})),
              ElementsAre("transport=1"));
}

TEST(SoftwareChanges, AreReadFromItsFile) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/own.yaml";
  write_file(
      path,
      "name: own\nsource: a test\ngradient_bytes: 4\noptimizer_bytes: 6\nupdate_bytes: 3\n"
      "zero: 3\nzero_of_stages: 2\noverlap: {gradients: true}\ndispatch: {it: {a: 1, b: 2}}\n"
      "dispatch_with_stash: {it: {c: 3}}\n");
  const Software software = read_software(path);
  EXPECT_EQ(software.gradient_bytes, 4);
  EXPECT_EQ(software.optimizer_bytes, 6);
  EXPECT_EQ(software.update_bytes, 3);
  EXPECT_EQ(software.zero, 3);
  EXPECT_EQ(software.zero_of_stages, 2);
  EXPECT_TRUE(software.overlaps_gradients);
  EXPECT_FALSE(software.overlaps_parameters);
  EXPECT_THAT(texts_of(software.changes_of_policy("it", {}, true)),
              ElementsAre("dispatch.c=3", "dispatch.a=1", "dispatch.b=2"));
}

}  // namespace
}  // namespace moesim
