// SPDX-License-Identifier: Apache-2.0
// HybridEP (arXiv 2510.19470): experts are gathered inside domains, tokens travel between domains.
#include "sim/mechanism/placement/hybrid/hybridep.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "sim/base/unsuitable.h"
#include "sim/mechanism/mechanisms.h"

namespace moesim {
namespace {

class HybridEpPlacer final : public Placer {
 public:
  HybridEpPlacer(const PlacementContext& context, HybridEpOptions options)
      : context_(context),
        options_(std::move(options)),
        workers_(domain_workers(context.groups.ranks(0), options_.levels)),
        codec_(expert_codec(context.model, options_)),
        home_(contiguous_placement(context.experts, context.groups.size(), context.groups.size())
                  .table()) {
    if (!options_.domains.empty()) check_domains();
  }

  /// Domains are settled by the first batch's size, which the real system is configured with.
  LayerDecision decide(const LayerRoutingNow& now) override {
    if (!decision_) decide_domains(now.batch, now.ids.top_k());
    return *decision_;
  }
  bool looks() const override { return false; }
  /// Experts that nobody gathers are as they were.
  double compression() const override { return gathers_none() ? 1 : options_.compression; }
  std::string forced() const override {
    if (!gathers_none()) return "";
    return options_.domains.empty()
               ? "gathers no experts, because its model finds tokens cheaper to move: it runs as "
                 "plain expert parallelism"
               : "gathers no experts, because each of its domains is one rank";
  }

 private:
  bool gathers_none() const { return decision_ && decision_->gather.empty(); }

  void check_domains() const {
    const auto& sizes = options_.domains;
    bool fit = sizes.size() == workers_.size();
    for (std::size_t l = 0; fit && l < sizes.size(); ++l) fit = workers_[l] % sizes[l] == 0;
    if (fit) return;
    throw Unsuitable(fmt::format("'placement.domains' [{}] does not divide the levels [{}] of {} "
                                 "ranks on '{}'",
                                 fmt::join(sizes, ", "), fmt::join(workers_, ", "), groups().size(),
                                 groups().cluster()),
                     "one size per level, coarsest first, or domains: auto");
  }

  std::vector<int> best_sizes(const Batch& batch, int top_k) const {
    if (!options_.domains.empty()) return options_.domains;
    const std::int64_t tokens = batch.tokens() / std::ssize(batch.ranks);
    return automatic_domains(context_, options_, workers_, tokens, top_k);
  }

  void decide_domains(const Batch& batch, int top_k) {
    const std::vector<int> sizes = best_sizes(batch, top_k);
    std::vector<DomainLevel> levels;
    for (std::size_t l = 0; l < sizes.size(); ++l) levels.push_back({workers_[l], sizes[l]});
    const ExpertDomains domains(levels, options_.match);
    const SlotTable held = domains.gathered(home_);
    decision_.emplace(assignment(domains, held));
    add_gathers(domains, held);
    if (context_.backward) add_reduces(domains);
    decision_->memory = groups().in_every_group(memory(held));
    decision_->gradient_homes = groups().in_every_group(
        contiguous_homes(context_.experts, groups().size(), groups().size()));
  }

  /// Every EP group holds the same; a rank uses the copy of its serving rank.
  Assignment assignment(const ExpertDomains& domains, const SlotTable& held) const {
    Placement placement(context_.experts, held);
    std::vector<GpuId> home_of(static_cast<std::size_t>(context_.experts));
    for (std::size_t r = 0; r < home_.size(); ++r) {
      for (const ExpertId e : home_[r]) home_of[e.index()] = GpuId(static_cast<std::int64_t>(r));
    }
    const auto slot_on = slots_by_expert(placement);
    std::vector<std::vector<SlotId>> slot_of(held.size());
    for (std::size_t r = 0; r < held.size(); ++r) {
      for (std::size_t e = 0; e < home_of.size(); ++e) {
        const GpuId serving = domains.serving(GpuId(static_cast<std::int64_t>(r)), home_of[e]);
        slot_of[r].push_back(slot_on[serving.index()][e]);
      }
    }
    return groups().in_every_group(Assignment(std::move(placement), std::move(slot_of)));
  }

  /// [rank][expert]; -1 if a rank does not hold it.
  static std::vector<std::vector<SlotId>> slots_by_expert(const Placement& placement) {
    std::vector<std::vector<SlotId>> slots(
        static_cast<std::size_t>(placement.gpus()),
        std::vector<SlotId>(static_cast<std::size_t>(placement.experts()), SlotId(-1)));
    for (int s = 0; s < placement.slots(); ++s) {
      const SlotId slot(s);
      slots[placement.gpu_of(slot).index()][placement.expert_in(slot).index()] = slot;
    }
    return slots;
  }

  const EpGroups& groups() const { return context_.groups; }

  std::vector<ParamExchange> exchanges(const LevelExchanges& levels, const char* name) const {
    std::vector<ParamExchange> result;
    for (const ByteMatrix& level : levels) {
      if (level.entries() > 0) result.push_back({name, groups().in_every_group(level), {}, {}});
    }
    return result;
  }

  /// Owners encode their experts once; every GPU decodes what it got after the last level, because
  /// levels forward experts as they came.
  void add_gathers(const ExpertDomains& domains, const SlotTable& held) {
    auto gather = exchanges(domains.gather_exchanges(home_, codec_.message()), "gather-experts");
    if (!gather.empty() && codec_.compresses()) {
      const KernelTraffic in = encode_traffic(codec_), out = decode_traffic(codec_);
      std::vector<MemoryBound> encode, decode;
      for (std::size_t r = 0; r < home_.size(); ++r) {
        const std::int64_t own = std::ssize(home_[r]), got = std::ssize(held[r]) - own;
        encode.push_back({in.read * own, in.written * own});
        decode.push_back({out.read * got, out.written * got});
      }
      gather.front().encode = groups().in_every_group(encode);
      gather.back().decode = groups().in_every_group(decode);
    }
    if (options_.regather) decision_->regather = gather;
    decision_->gather = std::move(gather);
  }

  void add_reduces(const ExpertDomains& domains) {
    const Bytes gradient = gradient_message(codec_, context_.state, options_);
    decision_->reduce = exchanges(domains.reduce_exchanges(home_, gradient), "reduce-gradients");
    if (codec_.compresses() && !decision_->reduce.empty()) {
      const ByteMatrix ring = shared_expert_ring(codec_, groups().size());
      decision_->reduce.push_back({"shared-expert", groups().in_every_group(ring), {}, {}});
    }
  }

  /// For one EP group. Gathered weights are kept from forward to backward unless they are gathered
  /// again; gathered gradients are gone after the layer. A codec keeps the shared expert too.
  std::vector<ExpertMemory> memory(const SlotTable& held) const {
    const TrainingState& state = context_.state;
    const bool keeps = context_.backward && !options_.regather;
    std::vector<ExpertMemory> result;
    for (std::size_t r = 0; r < home_.size(); ++r) {
      const std::int64_t own = std::ssize(home_[r]) * codec_.parameters;
      const std::int64_t got = std::ssize(held[r]) * codec_.parameters - own;
      const std::int64_t shared = codec_.compresses() && got > 0 ? codec_.parameters : 0;
      result.push_back({bytes_of(own + shared + (keeps ? got : 0), codec_.values),
                        Bytes(own * state.gradient), Bytes(own * state.optimizer),
                        bytes_of(keeps ? 0 : got, codec_.values) + Bytes(got * state.gradient)});
    }
    return result;
  }

  PlacementContext context_;
  HybridEpOptions options_;
  std::vector<int> workers_;
  ExpertCodec codec_;
  SlotTable home_;  // of one EP group
  std::optional<LayerDecision> decision_;
};

std::vector<int> read_sizes(const YamlMap& params) {
  constexpr Range size{1, 1 << 20};
  const auto value = params.find("domains");
  std::vector<int> sizes;
  if (!value || (value->is_scalar() && value->string() == "auto")) return sizes;
  if (!value->is_list()) return {static_cast<int>(value->integer(size))};
  for (const YamlValue& item : value->list()) {
    sizes.push_back(static_cast<int>(item.integer(size)));
  }
  if (sizes.empty()) value->error("'placement.domains' is empty", "say auto, or one per level");
  return sizes;
}

}  // namespace

// domains: auto or S per level, coarsest first; objective: what auto minimizes, step or published;
// levels: cluster or flat; match: all or finer; compression: ratio; fused: its kernels; backward:
// keep or regather; gradients: compressed or whole; pre_expert: PE of the stream model.
PlacementMaker read_hybridep_placement(const YamlMap& params) {
  HybridEpOptions o;
  o.domains = read_sizes(params);
  o.levels = read_domain_levels(params);
  o.match = static_cast<DomainMatch>(params.choice("match", {"all", "finer"}, 0));
  o.objective = static_cast<DomainObjective>(params.choice("objective", {"step", "published"}, 0));
  o.compression = params.number("compression", {1, 1e6}, 1);
  o.fused = params.boolean("fused", false);
  o.regather = params.choice("backward", {"keep", "regather"}, 0) == 1;
  o.whole_gradients = params.choice("gradients", {"compressed", "whole"}, 0) == 1;
  const auto time = params.find("pre_expert");
  if (time) o.pre_expert = time->seconds();
  for (const auto& of_auto : {time, params.find("objective")}) {
    if (!of_auto || o.domains.empty()) continue;
    of_auto->error("'" + of_auto->path() + "' has no effect: the domains are given",
                   "say domains: auto, or leave it out");
  }
  if (o.match == DomainMatch::finer && o.domains.empty()) {
    params.find("match")->error("'placement.match: finer' needs the domains",
                                "give 'domains', one size per level: auto knows match: all");
  }
  return
      [o](const PlacementContext& context) { return std::make_unique<HybridEpPlacer>(context, o); };
}

}  // namespace moesim
