// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/serving_advice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>

#include "sim/base/counted.h"
#include "sim/base/unsuitable.h"
#include "sim/planner/iteration/serving_spec.h"
#include "sim/print/formats.h"
#include "sim/report/cost_columns.h"
#include "sim/run/engine_cases.h"
#include "sim/run/engine_pool.h"
#include "sim/run/engine_views.h"
#include "sim/serving/engine/launch_line.h"
#include "sim/sweep/priced_kinds.h"
#include "sim/sweep/run_plans.h"
#include "sim/sweep/serving_variants.h"

namespace moesim {
namespace {

std::string launch_text(const std::string& file, const std::vector<Override>& flags,
                        const std::vector<ServingInstanceKind>& kinds, const ServingPlan& plan) {
  std::string text;
  const auto add = [&](std::size_t at, int count, LaunchFacts::Pool pool) {
    const ServingInstanceKind& kind = kinds[at];
    const Scenario scenario = scenario_of_kind(file, flags, kind);
    const Inputs inputs = open_inputs(scenario);
    const ServingSpec& pass = *scenario.iteration->serving;
    const LaunchFacts facts = {
        scenario.model, kind.gpus,
        kind.tp,        kind.dp(),
        kind.ep,        inputs.systems.front().dispatch.name,
        pool,           serving_overlap_names[static_cast<std::size_t>(pass.overlap)],
        pass.dcp,       pass.drafts};
    const EngineModel& engine = scenario.engine_run->engine;
    const std::string line = launch_line(engine, facts), more = left_out_of_line(engine, facts);
    if (!line.empty()) text += fmt::format("# {} x {}\n", count, line);
    if (!line.empty() && !more.empty()) {
      text += fmt::format("# that line leaves out what has no flag: {}\n", more);
    }
  };
  const bool apart = plan.decode_instances > 0;
  add(plan.prompts, plan.prompt_instances,
      apart ? LaunchFacts::Pool::prompts : LaunchFacts::Pool::all);
  if (apart) add(plan.decode, plan.decode_instances, LaunchFacts::Pool::decode);
  return text;
}

Scenario checked(const std::string& file, const std::vector<Override>& flags) {
  Scenario scenario = read_scenario(file, flags);
  if (!scenario.engine_run) {
    throw Error("--ask serving is about engines that answer requests",
                "a scenario with serving.requests, as scenarios/serving-engine.yaml");
  }
  if (scenario.topologies.size() > 1) {
    throw Error("--ask serving with several topologies", "one of them: --topology NAME");
  }
  if (!scenario.engine_run->decode_keys.empty()) {
    throw Error("--ask serving with serving.decode: it chooses the pools itself",
                "--set serving.decode=null");
  }
  return scenario;
}

std::vector<ServingPolicy> policies_of(const Scenario& scenario, const Inputs& inputs) {
  const auto& known = scenario.engine_run->engine.launch.dispatch;
  std::vector<ServingPolicy> policies;
  for (std::size_t p = 0; p < scenario.policies.size(); ++p) {
    const std::string& dispatch = inputs.systems[p].dispatch.name;
    const bool gathers = dispatch == "allgather";
    const bool overlaps =
        !gathers && std::ranges::any_of(known, [&](const auto& k) { return k.first == dispatch; });
    policies.push_back({scenario.policies[p], gathers, overlaps});
  }
  return policies;
}

double most_tpot(const std::vector<SlaBound>& bounds) {
  double most = 0;
  for (const SlaBound& bound : bounds) {
    if (bound.metric == SlaBound::Metric::tpot) most = bound.most.value;
  }
  return most;
}

std::string not_tried(const ServingSpec& pass) {
  const std::string drafts = pass.drafts == 0 ? "drafts (state serving.drafts and accepted), " : "";
  return fmt::format("# not tried: {}attention and FFN apart (serving.attention_ranks)\n", drafts);
}

/// An advice in the making.
class ServingAdvisor {
 public:
  ServingAdvisor(const std::string& file, const std::vector<Override>& flags,
                 const ServingAdviceOptions& options)
      : file_(file),
        flags_(flags),
        options_(options),
        scenario_(checked(file, flags)),
        inputs_(open_for_advice(scenario_)),
        bounds_(parse_sla(options.sla)),
        log_(requests_of(*scenario_.engine_run)),
        demand_(demand_of(log_, cluster().gpu_count())) {}

  Printout advise() {
    const auto policies = policies_of(scenario_, inputs_);
    priced_ = price(instance_kinds(policies, cluster().host_count(),
                                   cluster().gpu_count() / cluster().host_count()));
    if (priced_.kinds.empty()) {
      throw Error("no kind of instance can run:\n" + priced_.left_out, "a larger cluster");
    }
    if (!options_.stop()) {
      try_variants(serving_choices(*scenario_.iteration->serving, inputs_.model,
                                   *scenario_.engine_run, policies));
    }
    const auto rough = ranked();
    auto plans = run(finalists(priced_.kinds, rough, options_.finals));
    if (!options_.stop() && std::ranges::none_of(plans, &std::string::empty, &RunPlan::broken)) {
      std::ranges::move(run(safest(rough, plans)), std::back_inserter(plans));
    }
    sort(plans);
    climb(rough, plans);
    return printout(rough.size(), plans);
  }

 private:
  const Topology& cluster() const { return inputs_.clusters.front().topology; }

  PricedKinds price(const std::vector<ServingInstanceKind>& kinds) const {
    return price_kinds(file_, flags_, kinds, demand_, options_.workers, options_.stop);
  }

  std::vector<RoughPlan> ranked() const {
    SampledRates rates(priced_.kinds, priced_.times);
    return rough_plans(priced_.kinds, demand_, most_tpot(bounds_), rates);
  }

  /// Those of kinds that are in the best plans without them.
  void try_variants(const ServingChoices& choices) {
    std::set<std::size_t> best;
    for (const RoughPlan& plan : finalists(priced_.kinds, ranked(), options_.finals)) {
      best.insert({plan.plan.prompts, plan.plan.decode});
    }
    std::vector<ServingInstanceKind> variants;
    for (const std::size_t k : best) {
      std::ranges::move(variants_of(priced_.kinds[k], choices), std::back_inserter(variants));
    }
    priced_.append(price(variants));
  }

  /// Runs plans that are like the best one but for one choice or with one instance fewer, and goes
  /// on from a better one: rough prices tell such plans apart badly.
  void climb(const std::vector<RoughPlan>& rough, std::vector<RunPlan>& plans) const {
    constexpr int most_rounds = 6;
    for (int round = 0; round < most_rounds && !options_.stop(); ++round) {
      const ServingPlan best = plans.front().rough.plan;
      std::vector<RoughPlan> like = rough;
      std::erase_if(like, [&](const RoughPlan& plan) {
        return choices_apart(priced_.kinds, plan.plan, best) != 1 || has(plans, plan.plan);
      });
      const auto most = static_cast<std::size_t>(options_.finals);
      if (like.size() > most) like.resize(most);
      for (const ServingPlan& fewer : with_fewer_instances(best)) {
        if (demand_.arrivals > 0 && !has(plans, fewer)) like.push_back({fewer});
      }
      if (like.empty()) return;
      std::ranges::move(run(like), std::back_inserter(plans));
      sort(plans);
      if (plans.front().rough.plan == best) return;
    }
  }

  static bool has(const std::vector<RunPlan>& known, const ServingPlan& plan) {
    return std::ranges::any_of(known, [&](const RunPlan& k) { return k.rough.plan == plan; });
  }

  /// Others, those of the least time per token: the rough price knows no percentiles.
  std::vector<RoughPlan> safest(std::vector<RoughPlan> rough,
                                const std::vector<RunPlan>& known) const {
    std::erase_if(rough, [&](const RoughPlan& plan) { return has(known, plan.plan); });
    std::ranges::stable_sort(rough, [](const RoughPlan& a, const RoughPlan& b) {
      return std::tuple(!a.keeps_up, a.tpot) < std::tuple(!b.keeps_up, b.tpot);
    });
    return finalists(priced_.kinds, rough, options_.finals);
  }

  /// The best first; nobody knows whether data sheets are better than measured rates.
  void sort(std::vector<RunPlan>& plans) const {
    const auto rank = [this](const RunPlan& plan) {
      return std::tuple(plan.broken.empty(), priced_.by_data_sheet(plan.rough.plan).empty(),
                        plan.outcome.metrics.rates.output_per_gpu);
    };
    std::ranges::stable_sort(plans,
                             [&](const RunPlan& a, const RunPlan& b) { return rank(a) > rank(b); });
  }

  std::vector<RunPlan> run(const std::vector<RoughPlan>& chosen) const {
    std::vector<WorkerJob<EngineOutcome>> runs;
    for (const RoughPlan& plan : chosen) {
      runs.push_back({plan_words(priced_.kinds, plan.plan), [&](const JobProgress& progress) {
                        const JobProgress asked{[&](double step, int steps) {
                                                  check_time(options_.stop);
                                                  progress(step, steps);
                                                },
                                                progress.note};
                        return outcome_of(file_, flags_, priced_.kinds, plan.plan, log_, asked);
                      }});
    }
    const auto outcomes = run_jobs(runs, options_.workers);
    std::vector<RunPlan> plans;
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      plans.push_back({chosen[i], outcomes[i], broken_of(outcomes[i], bounds_)});
    }
    return plans;
  }

  Printout printout(std::size_t rough, const std::vector<RunPlan>& plans) const {
    Printout text;
    text.add(engine_header(scenario_, inputs_, options_.version));
    text.add(fmt::format("# SLA: {}\n# {} of {} kinds of instances, roughly priced; {} run\n",
                         options_.sla, counted(rough, "plan"), priced_.kinds.size(), plans.size()));
    if (options_.stop()) text.add("# the time was over: a longer --budget tries more\n");
    text.add(not_tried(*scenario_.iteration->serving));
    text.add(priced_.left_out);
    text.add(plans_table(priced_.kinds, plans, static_cast<std::size_t>(options_.shown)));
    std::vector<const ServingMetrics*> runs;
    std::set<std::string> kernels;
    for (std::size_t i = 0; i < std::min(plans.size(), static_cast<std::size_t>(options_.shown));
         ++i) {
      const EngineOutcome& outcome = plans[i].outcome;
      const std::string name = plan_words(priced_.kinds, plans[i].rough.plan);
      if (outcome.unsuitable.empty()) runs.push_back(&outcome.metrics);
      if (!outcome.kernels_note.empty()) {
        kernels.insert(fmt::format("# {} {}\n", name, outcome.kernels_note));
      }
      if (const auto links = priced_.by_data_sheet(plans[i].rough.plan); !links.empty()) {
        kernels.insert(fmt::format(
            "# {} exchanges tokens by the data sheet of {}: behind others, whose rates are "
            "measured or assumed\n",
            name, links));
      }
    }
    text.add(fmt::format("{}", fmt::join(kernels, "")));
    text.add(drain_note(scenario_, runs));
    text.add(answer(plans));
    return text;
  }

  /// How to launch the best plan, or that none is an answer.
  std::string answer(const std::vector<RunPlan>& plans) const {
    const RunPlan& best = plans.front();
    if (best.broken.empty()) return launch_text(file_, flags_, priced_.kinds, best.rough.plan);
    const bool any_ran = std::ranges::any_of(
        plans, [](const RunPlan& plan) { return plan.outcome.unsuitable.empty(); });
    return any_ran ? "# none of them meets the SLA\n"
                   : "# none of them ran, so that nothing is known of the SLA\n";
  }

  const std::string& file_;
  const std::vector<Override>& flags_;
  const ServingAdviceOptions& options_;
  Scenario scenario_;
  Inputs inputs_;
  std::vector<SlaBound> bounds_;
  RequestLog log_;
  ServingDemand demand_;
  PricedKinds priced_;
};

}  // namespace

Printout advise_serving(const std::string& file, const std::vector<Override>& flags,
                        const ServingAdviceOptions& options) {
  return ServingAdvisor(file, flags, options).advise();
}

}  // namespace moesim
