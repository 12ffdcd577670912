// SPDX-License-Identifier: Apache-2.0
#include "realhw/measure/saved_source.h"

#include "sim/base/unsuitable.h"

namespace moesim {
namespace {

/// Steps from a file, one policy after the other.
class SavedSource : public StepSource {
 public:
  explicit SavedSource(const std::string& path) : saved_(read_steps(path)) {}

  const StepsOrigin& origin() const override { return saved_.origin; }
  const Topology& cluster() const override { return saved_.cluster; }
  std::vector<std::string> policies() const override {
    std::vector<std::string> names;
    for (const SavedPolicy& policy : saved_.policies) names.push_back(policy.name);
    return names;
  }
  void begin(std::size_t policy) override {
    policy_ = policy;
    next_ = 0;
    const std::string& reason = saved_.policies[policy].unsuitable;
    if (!reason.empty()) throw Unsuitable(reason);
  }
  std::optional<ExecutableStep> next() override {
    const auto& steps = saved_.policies[policy_].steps;
    if (next_ == steps.size()) return std::nullopt;
    return steps[next_++];
  }

 private:
  SavedSteps saved_;
  std::size_t policy_ = 0, next_ = 0;
};

}  // namespace

std::unique_ptr<StepSource> saved_source(const std::string& path) {
  return std::make_unique<SavedSource>(path);
}

}  // namespace moesim
