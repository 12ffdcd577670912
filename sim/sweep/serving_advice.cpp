// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/serving_advice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <numeric>
#include <optional>
#include <ranges>
#include <set>
#include <tuple>

#include "sim/base/figures.h"
#include "sim/base/unsuitable.h"
#include "sim/planner/iteration/serving_spec.h"
#include "sim/print/formats.h"
#include "sim/report/case_columns.h"
#include "sim/run/engine_cases.h"
#include "sim/run/engine_notes.h"
#include "sim/run/engine_pool.h"
#include "sim/run/engine_views.h"
#include "sim/sweep/run_plans.h"
#include "sim/sweep/serving_variants.h"

namespace moesim {
namespace {

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
    run_shown(plans);
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

  /// Runs the shown ones as `moesim run` does, with exact prices at first. Others come to be shown
  /// where these break the SLA, and run so as well.
  void run_shown(std::vector<RunPlan>& plans) const {
    for (;;) {
      std::vector<RoughPlan> chosen;
      for (const RunPlan& plan : plans | std::views::take(options_.shown)) {
        if (!plan.as_run && plan.outcome.unsuitable.empty()) chosen.push_back(plan.rough);
      }
      if (chosen.empty() || options_.stop()) return;
      const std::vector<RunPlan> done = run(chosen, true);
      if (options_.stop()) return;
      for (const RunPlan& plan : done) {
        *std::ranges::find(plans, plan.rough.plan, [](const RunPlan& p) { return p.rough.plan; }) =
            plan;
      }
      sort(plans);
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

  std::vector<RunPlan> run(const std::vector<RoughPlan>& chosen, bool as_run = false) const {
    std::vector<WorkerJob<EngineOutcome>> runs;
    for (const RoughPlan& plan : chosen) {
      runs.push_back(
          {plan_words(priced_.kinds, plan.plan), [&, as_run](const JobProgress& progress) {
             const JobProgress asked{[&](double step, int steps) {
                                       check_time(options_.stop);
                                       progress(step, steps);
                                     },
                                     progress.note};
             return outcome_of(file_, flags_, priced_.kinds, {plan.plan, as_run}, log_, asked);
           }});
    }
    const auto outcomes = run_jobs(runs, options_.workers);
    std::vector<RunPlan> plans;
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      plans.push_back({chosen[i], outcomes[i], broken_of(outcomes[i], bounds_), as_run});
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
    text.add(notes(plans));
    text.add(answer(plans));
    return text;
  }

  /// What figures of the shown ones need to be read.
  std::string notes(const std::vector<RunPlan>& plans) const {
    std::vector<EngineCase> cases;
    std::set<std::string> sheets;
    std::int64_t rough = 0;
    for (const RunPlan& plan : plans | std::views::take(options_.shown)) {
      const std::string links = priced_.by_data_sheet(plan.rough.plan);
      if (!links.empty()) {
        sheets.insert(fmt::format(
            "# {} exchanges tokens by the data sheet of {}: behind others, whose rates are "
            "measured or assumed\n",
            plan_words(priced_.kinds, plan.rough.plan), links));
      }
      if (!plan.outcome.unsuitable.empty()) continue;
      EngineCase& c = cases.emplace_back();
      c.name.policy = priced_.kinds[plan.rough.plan.prompts].policy;
      c.outcome = plan.outcome;
      rough += plan.as_run ? 0 : 1;
    }
    std::vector<const EngineCase*> ran;
    for (const EngineCase& c : cases) ran.push_back(&c);
    std::string text = fmt::format("{}", fmt::join(sheets, "")) + figure_notes(scenario_, ran);
    if (rough > 0) {
      text +=
          fmt::format("# the time was over: all prices of {} are reused, 'moesim run' may differ\n",
                      counted(rough, "deployment"));
    }
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
