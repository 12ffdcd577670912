// SPDX-License-Identifier: Apache-2.0
#include "sim/transport/reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "sim/base/data_files.h"
#include "sim/base/units.h"
#include "sim/topology/read/calibration_reader.h"
#include "sim/topology/read/spec_reader.h"

namespace moesim {
namespace {

constexpr Range up_to_a_second{0, 1};

/// One time for all, or {host, fabric, wan}; a tier that is left out costs as much as the one
/// before it.
TierTimes read_by_tier(const YamlValue& value) {
  if (!value.is_map()) {
    const Seconds all = value.seconds(up_to_a_second);
    return {all, all, all};
  }
  const YamlMap map = value.map();
  TierTimes result;
  Seconds before(0);
  for (auto [key, to] : {std::pair{"host", &result.host}, std::pair{"fabric", &result.fabric},
                         std::pair{"wan", &result.wan}}) {
    const auto time = map.find(key);
    *to = time ? time->seconds(up_to_a_second) : before;
    if (time && *to < before) {
      time->error(fmt::format("'{}' is less than the time of a nearer tier", time->path()),
                  "host <= fabric <= wan");
    }
    before = *to;
  }
  return result;
}

/// One part of the bandwidth at every size.
std::shared_ptr<const BandwidthTable> at_every_size(double part, BytesPerSecond of) {
  return std::make_shared<const BandwidthTable>(
      std::vector<BandwidthTable::Point>{{Bytes(1), BytesPerSecond(of.value * part)}});
}

std::shared_ptr<const BandwidthTable> calibrated(const YamlValue& name, BytesPerSecond of) {
  try {
    const LinkCalibration file =
        read_calibration(data_file("topologies", name.string() + ".calib"));
    if (file.nominal && *file.nominal == of) return file.bandwidth;
    name.error(fmt::format("'{}' was not measured on a link of {}", file.name, to_string(of)),
               "'of' is the 'nominal' of the calibration");
  } catch (const Error& error) {
    name.error(error.diagnostics().front().message,
               "the NAME of a topologies/NAME.calib.yaml, or leave it out and state 'rates'");
  }
  return nullptr;
}

/// Exactly one of `efficiency`, `rates` and `calibration`.
std::shared_ptr<const BandwidthTable> read_rates(const YamlMap& map, BytesPerSecond of) {
  const auto efficiency = map.find("efficiency"), rates = map.find("rates"),
             calibration = map.find("calibration");
  const int given =
      int{efficiency.has_value()} + int{rates.has_value()} + int{calibration.has_value()};
  if (given != 1) {
    map.value().error(fmt::format("'{}' states {} of 'efficiency', 'rates' and 'calibration'",
                                  map.value().path(), given == 0 ? "none" : "several"),
                      "give exactly one");
    return nullptr;
  }
  if (efficiency) return at_every_size(efficiency->number({1e-6, 1}), of);
  if (rates) return read_bandwidth_table(*rates);
  return calibrated(*calibration, of);
}

LinkRates read_link(const YamlMap& map) {
  LinkRates link;
  link.link_class = map.string("class");
  link.network = map.string("network", "");
  link.of = map.bandwidth("of");
  link.rates = map.good({"of"}) ? read_rates(map, link.of) : nullptr;
  link.per_message = map.seconds("per_message", Seconds(0));
  link.per_message_peer = map.seconds("per_message_peer", Seconds(0));
  link.assumed = map.boolean("assumed", false);
  if (link.rates && link.rates->most() > link.of) {
    map.value().error(fmt::format("'{}' has a rate of {}, above its 'of' of {}", map.value().path(),
                                  to_string(link.rates->most()), to_string(link.of)),
                      "'of' is the bandwidth of the measured link by its data sheet");
    link.rates = nullptr;
  }
  return link;
}

/// Whether the curve of the faster link takes longer for some bytes.
bool crosses(const LinkRates& slower, const LinkRates& faster) {
  std::set<Bytes> sizes;
  for (const LinkRates* one : {&slower, &faster}) {
    for (const BandwidthTable::Point& point : one->rates->points()) sizes.insert(point.size);
  }
  return std::ranges::any_of(
      sizes, [&](Bytes size) { return faster.rates->time(size) > slower.rates->time(size); });
}

void check_order(const YamlValue& item, const std::vector<LinkRates>& before,
                 const LinkRates& link) {
  for (const LinkRates& other : before) {
    if (other.link_class != link.link_class || !other.rates) continue;
    if (other.network != link.network) {
      if (!other.network.empty() && !link.network.empty()) continue;
      item.error(fmt::format("rates of '{}' are given with and without 'network'", link.link_class),
                 "state it for all of a class, or for none");
    } else if (other.of >= link.of) {
      item.error(fmt::format("rates of '{}' of {} follow those of {}", link.link_class,
                             to_string(link.of), to_string(other.of)),
                 "'of' ascends within a class and network");
    } else if (crosses(other, link)) {
      item.error(fmt::format("'{}' at {} takes longer than at {} for some sizes", link.link_class,
                             to_string(link.of), to_string(other.of)),
                 "a faster link is never slower: smooth its rates");
    }
  }
}

std::vector<LinkRates> read_links(const YamlValue& list) {
  std::vector<LinkRates> links;
  for (const YamlValue& item : list.list()) {
    LinkRates link = read_link(item.map());
    if (!link.rates) continue;
    check_order(item, links, link);
    links.push_back(std::move(link));
  }
  return links;
}

/// What differs between rows there and rows back.
void read_costs(const YamlMap& map, Transport& transport) {
  if (const auto value = map.find("start_up")) transport.start_up = read_by_tier(*value);
  for (auto [key, to] :
       {std::pair{"per_peer", &transport.per_peer}, std::pair{"flags", &transport.flags}}) {
    const auto value = map.find(key);
    if (!value) continue;
    *to = read_by_tier(*value);
    if (!transport.start_up) {
      value->error(fmt::format("'{}' has no effect without 'start_up'", key), "state 'start_up'");
    }
  }
  if (const auto value = map.find("first_row")) {
    transport.first_row = value->bandwidth(positive);
    if (!transport.start_up) {
      value->error("'first_row' has no effect without 'start_up'", "state 'start_up'");
    }
  }
  if (const auto value = map.find("per_row")) transport.per_row = read_by_tier(*value);
  if (const auto links = map.find("links")) transport.links = read_links(*links);
}

/// Rates and costs of the way back in place of those of the way there.
TransportPtr read_combine(const YamlMap& map, const Transport& there) {
  auto back = std::make_shared<Transport>(there);
  read_costs(map, *back);
  return back;
}

Transport read(YamlDocument& document) {
  Transport transport;
  {
    const YamlMap map = document.root().map();
    transport.name = map.string("name", std::filesystem::path(document.file()).stem().string());
    transport.description = map.string("description", "");
    transport.source = map.string("source");
    read_costs(map, transport);
    if (const auto value = map.find("host")) transport.host = value->seconds(up_to_a_second);
    transport.sms = static_cast<int>(map.integer("sms", {0, 1000}, 0));
    transport.fused = map.boolean("fused", false);
    transport.others = map.string("others", "");
    if (const auto back = map.find("combine")) {
      transport.combine = read_combine(back->map(), transport);
    }
  }
  document.finish();
  return transport;
}

}  // namespace

Transport read_transport(const std::string& path, const std::vector<Override>& overrides) {
  return read(*YamlDocument::from_file(path, overrides));
}

Transport parse_transport(const std::string& text, const std::string& name,
                          const std::vector<Override>& overrides) {
  return read(*YamlDocument::from_text(text, name, overrides));
}

TransportPtr unless_ideal(Transport transport) {
  return transport.ideal() ? nullptr : std::make_shared<const Transport>(std::move(transport));
}

TransportPtr find_transport(const std::string& name) {
  return unless_ideal(read_transport(data_file("transports", name)));
}

Transports find_transports(const std::string& name,
                           const std::function<TransportPtr(const std::string&)>& find) {
  const TransportPtr tokens = find(name);
  if (!tokens || tokens->others.empty()) return {tokens, tokens};
  return {tokens, find(tokens->others)};
}

}  // namespace moesim
