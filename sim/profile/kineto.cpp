// SPDX-License-Identifier: Apache-2.0
#include "sim/profile/kineto.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "sim/base/error.h"
#include "sim/profile/flat_json.h"
#include "sim/profile/kineto_args.h"
#include "sim/profile/moesim_timeline.h"
#include "sim/profile/profile_builder.h"

namespace moesim {
namespace {

constexpr std::size_t most_kernels = 64U << 20;

/// One file, event by event.
class KinetoFile {
 public:
  KinetoFile(const std::string& path, const KernelTable& table, Profile& profile)
      : json_(path, "traceEvents"), names_(table, profile), profile_(profile) {}

  void read(const std::function<void(double)>& progress) {
    FlatObject event;
    for (std::int64_t i = 0; json_.next(event); ++i) {
      if (i % 65536 == 0) progress(json_.done());
      take(event);
    }
    progress(1);
    finish();
  }

 private:
  void take(const FlatObject& event);
  void take_kernel(const FlatObject& event);
  void take_op(const FlatObject& event);
  void take_step(const FlatObject& event, bool of_gpu);
  void finish();
  void check_devices() const;
  int rank_of(int device, bool first_file) const;
  std::string gpu_of(int device) const;
  RankBuilder& builder(int device);
  ProfileTicks ticks(const ProfileMoment& moment) const { return profile_ticks(moment, *base_); }

  FlatJson json_;
  KernelNames names_;
  Profile& profile_;
  std::vector<RankBuilder> builders_;
  RankBuilder::Launches launches_;
  std::vector<RankBuilder::Op> ops_;
  std::vector<WorkShape> shapes_;
  std::map<std::string, std::int32_t, std::less<>> shape_numbers_;
  std::vector<std::pair<KernelKind, ExchangeFacts>> exchanges_;
  std::vector<std::pair<ProfileTicks, ProfileTicks>> host_steps_, gpu_steps_;
  std::set<std::string, std::less<>> others_;  // categories that are not read
  std::optional<std::int64_t> base_;           // microseconds
  std::optional<MoesimTimeline> own_;
  UntimedKernels untimed_;
  std::size_t kernels_ = 0;
};

bool is_gpu_work(std::string_view category) {
  return category == "kernel" || category == "gpu_memcpy" || category == "gpu_memset" ||
         category == "Kernel" || category == "Memcpy" || category == "Memset";
}

void KinetoFile::take(const FlatObject& event) {
  const std::string_view phase = event("ph");
  if (!own_ && json_.others().contains("otherData")) {
    own_ = MoesimTimeline::of(json_.others().find("otherData")->second);
  }
  if (own_) return own_->take(event, names_, json_.path());
  if (phase != "X") return;
  const bool timed = has_times(event("ts"), event("dur"));
  if (!base_ && timed) base_ = profile_moment(event("ts")).microseconds;
  const std::string_view category = event("cat");
  if (is_gpu_work(category)) {
    timed ? take_kernel(event) : untimed_.add(event("name"));
  } else if (category == "cuda_runtime" || category == "cuda_driver" || category == "Runtime" ||
             category == "hip_runtime") {
    const std::int64_t number = flat_whole(event.in("args", "correlation"));
    if (timed && number > 0 && launches_.size() < most_kernels) {
      launches_.emplace_back(number,
                             ticks(profile_moment(event("ts"))) + profile_length(event("dur")));
    }
  } else if (category == "cpu_op" || category == "Operator") {
    take_op(event);
  } else if (category == "user_annotation" || category == "gpu_user_annotation") {
    if (timed) take_step(event, category.starts_with("gpu"));
  } else if (others_.size() < 100 && !others_.contains(category)) {
    others_.emplace(category);
  }
}

RankBuilder& KinetoFile::builder(int device) {
  for (RankBuilder& b : builders_) {
    if (b.device() == device) return b;
  }
  if (builders_.size() >= 1024) throw error_in(json_.path(), "has over 1024 GPUs");
  return builders_.emplace_back(device);
}

void KinetoFile::take_kernel(const FlatObject& event) {
  std::string_view device = event.in("args", "device");
  if (device.empty()) device = event("pid");
  std::string_view stream = event.in("args", "stream");
  if (stream.empty()) stream = event("tid");
  RankBuilder& rank = builder(static_cast<int>(std::max<std::int64_t>(0, flat_whole(device))));
  if (++kernels_ > most_kernels) {
    throw error_in(json_.path(), "has over 67 million kernels", "profile fewer steps");
  }
  ProfiledKernel kernel;
  kernel.start = ticks(profile_moment(event("ts")));
  kernel.length = profile_length(event("dur"));
  kernel.name = names_.number(event("name"), json_.path());
  kernel.kind = names_.kind(kernel.name);
  kernel.stream = rank.stream(stream, json_.path());
  const bool copies = event("cat") != "kernel" && event("cat") != "Kernel";
  if (copies) kernel.kind = KernelKind::copy;
  const std::string_view collective = event.in("args", "Collective name");
  if (!collective.empty() && !copies) {
    const auto [kind, facts] = exchange_facts(event, profile_);
    if (kind != KernelKind::unknown) kernel.kind = kind;
    kernel.exchange = rank.exchange(facts);
  }
  rank.add(kernel, flat_whole(event.in("args", "correlation")),
           flat_whole(event.in("args", "External id")));
}

void KinetoFile::take_op(const FlatObject& event) {
  const std::string_view name = event("name");
  const std::int64_t number = flat_whole(event.in("args", "External id"));
  if (number <= 0) return;
  if (name == "record_param_comms") {
    const auto found = exchange_facts(event, profile_);
    if (found.first == KernelKind::unknown) return;
    ops_.push_back({number, -1, static_cast<std::int32_t>(exchanges_.size())});
    exchanges_.push_back(found);
    return;
  }
  const std::string_view dims = event.in("args", "Input Dims");
  if (dims.empty()) return;
  const std::string_view types = event.in("args", "Input type");
  const std::string key = fmt::format("{} {} {}", name, dims, types);
  auto at = shape_numbers_.find(key);
  if (at == shape_numbers_.end()) {
    const auto shape = product_shape(name, dims, types);
    if (!shape) return;
    at = shape_numbers_.emplace(key, static_cast<std::int32_t>(shapes_.size())).first;
    shapes_.push_back(*shape);
  }
  ops_.push_back({number, at->second, -1});
}

void KinetoFile::take_step(const FlatObject& event, bool of_gpu) {
  if (!event("name").starts_with("ProfilerStep#")) return;
  auto& steps = of_gpu ? gpu_steps_ : host_steps_;
  const ProfileTicks begin = ticks(profile_moment(event("ts")));
  if (steps.size() < 1U << 20) steps.emplace_back(begin, begin + profile_length(event("dur")));
}

void KinetoFile::check_devices() const {
  for (const RankBuilder& b : builders_) {
    if (!b.empty()) return;
  }
  for (const std::string& category : others_) {
    if (category.starts_with("mtia")) {
      throw error_in(json_.path(), "is a trace of MTIA devices, which are not read",
                     "traces of NVIDIA and AMD GPUs are");
    }
    if (category.starts_with("xpu") || category.starts_with("hpu") ||
        category.starts_with("privateuse1")) {
      throw error_in(json_.path(),
                     fmt::format("is a trace of other devices ({}), which are not read",
                                 category.substr(0, category.find('_'))),
                     "traces of NVIDIA and AMD GPUs are");
    }
  }
  if (!untimed_.empty()) throw UntimedKernels::error(json_.path());
  throw error_in(json_.path(), "holds no kernels of GPUs",
                 "profile with ProfilerActivity.CUDA, which records AMD's GPUs, too");
}

int KinetoFile::rank_of(int device, bool first_file) const {
  const auto info = json_.others().find("distributedInfo");
  std::int64_t rank = -1;
  if (info != json_.others().end()) rank = flat_whole(flat_object(info->second)("rank"));
  if (rank >= 0 && rank < 1 << 24 && builders_.size() == 1) return static_cast<int>(rank);
  if (builders_.size() > 1 && first_file) return device;
  return profile_.ranks.empty() ? 0 : profile_.ranks.back().rank + 1;
}

std::string KinetoFile::gpu_of(int device) const {
  const auto all = json_.others().find("deviceProperties");
  if (all == json_.others().end()) return "";
  for (const std::string_view item : flat_items(all->second)) {
    const FlatObject gpu = flat_object(item);
    if (flat_whole(gpu("id")) == device) return text_of_profile(flat_string(gpu("name")));
  }
  return "";
}

void KinetoFile::finish() {
  profile_.bytes += json_.bytes();
  if (json_.ended_early()) {
    profile_.notes.emplace_back("a trace ends without its last bracket: it may lack events");
  }
  if (own_) return own_->finish(json_.path(), profile_);
  profile_.producer = "PyTorch profiler";
  check_devices();
  untimed_.note(profile_);
  std::ranges::sort(launches_);
  std::ranges::stable_sort(ops_, {}, &RankBuilder::Op::number);
  const auto epoch = json_.others().find("baseTimeNanoseconds");
  const std::int64_t since =
      *base_ + (epoch == json_.others().end()
                    ? 0
                    : std::max<std::int64_t>(0, flat_whole(epoch->second)) / 1000);
  if (profile_.ranks.empty()) profile_.origin_microseconds = since;
  const std::int64_t apart = since - profile_.origin_microseconds;
  constexpr std::int64_t month = 2'600'000'000'000;
  const bool near = apart > -month && apart < month;
  if (!near) profile_.notes.emplace_back("traces were made months apart");
  const bool first_file = profile_.ranks.empty();
  for (RankBuilder& builder : builders_) {
    if (builder.empty()) continue;
    builder.join_launches(launches_);
    builder.join_ops(ops_, shapes_, exchanges_);
    builder.rank().rank = rank_of(builder.device(), first_file);
    builder.rank().gpu = gpu_of(builder.device());
    builder.rank().steps = host_steps_.empty() ? gpu_steps_ : host_steps_;
    add_rank(builder.finish(near ? apart * 1'000'000 : 0), json_.path(), profile_);
  }
}

}  // namespace

void read_kineto(const std::string& path, const KernelTable& table,
                 const std::function<void(double)>& progress, Profile& profile) {
  KinetoFile(path, table, profile).read(progress);
}

}  // namespace moesim
