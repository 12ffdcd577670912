// SPDX-License-Identifier: Apache-2.0
// The program that trains: what GPUs, hosts and exchanges do by it, whatever the cluster and the
// model. models/software/*.yaml describes one each.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/yaml.h"
#include "sim/model/host_model.h"
#include "sim/model/recompute.h"

namespace moesim {

/// Which exchanges of an iteration run next to kernels at length.
struct ExchangesNextToKernels {
  bool tokens = false;      // passes are merged
  bool parameters = false;  // gathered in every pass
  bool any() const { return tokens || parameters; }
};

/// Without any of it nothing but the plan takes time.
struct Software {
  std::string name, description, source;
  std::vector<std::string> files;  // that say it: its own, then the files that it is based on
  HostModel host;
  int gradient_bytes = 2, optimizer_bytes = 12, update_bytes = 0;  // per parameter
  bool overlaps_gradients = false, overlaps_parameters = false;
  Recompute recompute;
  int zero = 1;
  std::optional<int> zero_of_stages = {};  // with several pipeline stages, if it is another
  int zero_with(int stages) const { return stages > 1 ? zero_of_stages.value_or(zero) : zero; }
  std::string
      collectives;  // the transport of exchanges that are not of tokens; empty: the policy's

  /// What it makes of a GPU of this die. Its part of the kernels' rates, and how much longer
  /// exchanges take next to kernels, count only if the GPU's file does not say them.
  std::vector<Override> changes_of_gpu(const std::string& die,
                                       const ExchangesNextToKernels& exchanges) const;
  /// Parameters of dispatches of this kind, for policies that do not state them. `stash`: rows of
  /// experts have buffers of one shape.
  std::vector<Override> changes_of_policy(const std::string& dispatch,
                                          const ExchangesNextToKernels& exchanges,
                                          bool stash = false) const;
  std::vector<Override> changes_of_transport(const std::string& name_of_transport,
                                             const ExchangesNextToKernels& exchanges) const;
  /// Whether somebody measured which part of their rates kernels keep on this die.
  bool measured_on(const std::string& die) const { return kept.empty() || kept.contains(die); }

  // As its file has them; lists of changes by die ("others": unlisted ones), by kind of dispatch
  // and by name of transport.
  using Changes = std::map<std::string, std::vector<Override>>;
  Changes kept, dispatch, dispatch_with_stash;
  Changes slowdown, product_sms, dispatch_sms, transports;  // of exchanges next to kernels
};

/// Reads a software and the one that it is based on. Throws Error with all mistakes.
Software read_software(const std::string& path, const std::vector<Override>& overrides = {});

}  // namespace moesim
