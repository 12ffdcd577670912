// SPDX-License-Identifier: Apache-2.0
#include "sim/report/compared.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

namespace moesim {
namespace {

struct AnyCase {
  std::string topology, policy, routing, fidelity;
  bool ran;
  double seconds = 0, tokens = 0;  // of a step or an iteration

  bool balanced() const { return routing == "balanced"; }
};
using AnyCases = std::vector<AnyCase>;

AnyCases all(const std::vector<CaseResult>& cases) {
  AnyCases result;
  for (const CaseResult& c : cases) {
    AnyCase& any = result.emplace_back(
        AnyCase{c.name.topology, c.name.policy, c.name.routing, c.name.fidelity, c.ran()});
    if (!c.ran()) continue;
    any.seconds = c.metrics.mean_step().value;
    any.tokens = static_cast<double>(c.metrics.tokens);
  }
  return result;
}

bool across_clusters(const AnyCases& cases) {
  std::set<std::string> topologies, policies;
  for (const AnyCase& c : cases) {
    topologies.insert(c.topology);
    policies.insert(c.policy);
  }
  return topologies.size() > 1 && policies.size() == 1;
}

bool compare(const AnyCase& a, const AnyCase& b, bool across) {
  return a.fidelity == b.fidelity && (across || a.topology == b.topology);
}

/// The first of the cases that `c` is compared with, on recorded routing if there is one.
std::size_t first_with(const AnyCases& cases, const AnyCase& c, bool across, bool that_ran) {
  const auto find = [&](bool recorded) {
    return std::ranges::find_if(cases, [&](const AnyCase& other) {
      return compare(other, c, across) && (other.ran || !that_ran) &&
             !(recorded && other.balanced());
    });
  };
  auto found = find(true);
  if (found == cases.end()) found = find(false);
  return static_cast<std::size_t>(found - cases.begin());
}

std::optional<double> over_balanced(const AnyCases& cases, const AnyCase& c,
                                    const std::string& policy) {
  const auto found = std::ranges::find_if(cases, [&](const AnyCase& other) {
    return other.ran && other.balanced() && other.policy == policy &&
           other.topology == c.topology && other.fidelity == c.fidelity;
  });
  if (found == cases.end()) return std::nullopt;
  return c.seconds / found->seconds - 1;
}

std::vector<Compared> compared(const AnyCases& cases) {
  const bool across = across_clusters(cases);
  std::vector<Compared> result(cases.size());
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const AnyCase& c = cases[i];
    result[i].baseline = i;
    if (!c.ran) continue;
    result[i].baseline = first_with(cases, c, across, true);
    const AnyCase& base = cases[result[i].baseline];
    if (base.tokens > 0 && c.tokens > 0) result[i].more_tokens = c.tokens / base.tokens;
    result[i].speedup = base.seconds / c.seconds * result[i].more_tokens;
    result[i].over_balanced = over_balanced(cases, c, base.policy);
  }
  return result;
}

std::string baseline_notes(const AnyCases& cases) {
  const bool across = across_clusters(cases);
  const std::vector<Compared> of = compared(cases);
  std::vector<std::string> notes;
  const auto note = [&](std::string line) {
    if (std::ranges::find(notes, line) == notes.end()) notes.push_back(std::move(line));
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (!cases[i].ran) continue;
    const AnyCase& wanted = cases[first_with(cases, cases[i], across, false)];
    const AnyCase& base = cases[of[i].baseline];
    const std::string missing =
        wanted.ran ? ""
                   : fmt::format(", as {} was not run", across ? wanted.topology : wanted.policy);
    if (across) {
      note(fmt::format("speedups are over {}{}", base.topology, missing));
    } else if (!missing.empty()) {
      note(fmt::format("speedups on {} are over {}{}", base.topology, base.policy, missing));
    }
  }
  for (std::size_t i = 0; across && i < cases.size(); ++i) {
    if (of[i].more_tokens == 1) continue;
    note(
        fmt::format("{} has {:.3g} times the tokens of {}: speedups are those of tokens per second",
                    cases[i].topology, of[i].more_tokens, cases[of[i].baseline].topology));
  }
  std::string text;
  for (const std::string& line : notes) text += fmt::format("# {}\n", line);
  return text;
}

void add_compared(nlohmann::ordered_json& objects, const AnyCases& cases) {
  const std::vector<Compared> of = compared(cases);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (!cases[i].ran) continue;
    const AnyCase& base = cases[of[i].baseline];
    auto& object = objects.at(i);
    object["baseline"] = {{"topology", base.topology}, {"policy", base.policy}};
    if (!base.routing.empty()) object["baseline"]["routing"] = base.routing;
    object["speedup"] = of[i].speedup;
    if (of[i].over_balanced) object["over_balanced"] = *of[i].over_balanced;
  }
}

}  // namespace

std::vector<Compared> compared(const std::vector<CaseResult>& cases) {
  return compared(all(cases));
}

bool compares_clusters(const std::vector<CaseResult>& cases) { return across_clusters(all(cases)); }

std::string baseline_notes(const std::vector<CaseResult>& cases) {
  return baseline_notes(all(cases));
}

void add_compared(nlohmann::ordered_json& objects, const std::vector<CaseResult>& cases) {
  add_compared(objects, all(cases));
}

}  // namespace moesim
