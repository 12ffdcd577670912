// SPDX-License-Identifier: Apache-2.0
// Every event of a small step.
#include "sim/report/timeline_events.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/report/two_hosts.h"

namespace moesim {
namespace {

std::string events_of(const std::vector<GpuId>& ranks, int steps,
                      const test::TwoHostsStep& step = {}) {
  std::string text;
  TraceEvents out([&](std::string_view more) { text += more; });
  TimelineEvents events(out, {"case", 10, ranks}, test::two_hosts());
  for (int s = 0; s < steps; ++s) {
    events.add(PricedPlan(step.plan, test::two_hosts()), step.timeline, "step");
  }
  out.flush();
  return text;
}

TEST(TimelineEvents, AllOfAStepAreThere) {
  EXPECT_EQ(events_of({GpuId(0), GpuId(1)}, 1), R"x(,
{"ph":"M","name":"process_name","pid":10,"args":{"name":"case: rank 0 (node0.gpu0)"}},
{"ph":"M","name":"process_sort_index","pid":10,"args":{"sort_index":10}},
{"ph":"M","name":"process_name","pid":11,"args":{"name":"case: rank 1 (node1.gpu0)"}},
{"ph":"M","name":"process_sort_index","pid":11,"args":{"sort_index":11}},
{"ph":"M","name":"process_name","pid":12,"args":{"name":"case: the whole cluster"}},
{"ph":"M","name":"process_sort_index","pid":12,"args":{"sort_index":12}},
{"ph":"M","name":"thread_name","pid":12,"tid":0,"args":{"name":"steps"}},
{"ph":"M","name":"thread_sort_index","pid":12,"tid":0,"args":{"sort_index":0}},
{"ph":"X","pid":12,"tid":0,"ts":0.000000,"dur":1000000000.000000,"name":"step","cat":"step"},
{"ph":"M","name":"thread_name","pid":10,"tid":0,"args":{"name":"compute"}},
{"ph":"M","name":"thread_sort_index","pid":10,"tid":0,"args":{"sort_index":0}},
{"ph":"X","pid":10,"tid":0,"ts":0.000000,"dur":50000000.000000,"name":"fc1","cat":"kernel","args":{"layer":3,"pass":"forward","microbatch":0,"op":"fc1","stage":"experts","m":[6,1],"n":8,"k":16,"type":"bf16","tiles":2,"tiles_of_kernel":2,"tile":128}},
{"ph":"C","pid":10,"ts":0.000000,"name":"tokens per expert","args":{"expert slot 0":6,"expert slot 1":1}},
{"ph":"M","name":"thread_name","pid":11,"tid":0,"args":{"name":"compute"}},
{"ph":"M","name":"thread_sort_index","pid":11,"tid":0,"args":{"sort_index":0}},
{"ph":"X","pid":11,"tid":0,"ts":0.000000,"dur":100000000.000000,"name":"fc1","cat":"kernel","args":{"layer":3,"pass":"forward","microbatch":0,"op":"fc1","stage":"experts","m":[2,1],"n":8,"k":16,"type":"bf16"}},
{"ph":"C","pid":11,"ts":0.000000,"name":"tokens per expert","args":{"expert slot 0":2,"expert slot 1":1}},
{"ph":"M","name":"thread_name","pid":10,"tid":1,"args":{"name":"ep"}},
{"ph":"M","name":"thread_sort_index","pid":10,"tid":1,"args":{"sort_index":1}},
{"ph":"X","pid":10,"tid":1,"ts":50000000.000000,"dur":250000000.000000,"name":"dispatch","cat":"exchange","args":{"layer":3,"pass":"backward","microbatch":1,"op":"other-grad","stage":"dispatch","to_same_host_bytes":0,"to_other_hosts_bytes":4000000000,"waiting_us":50000000.0,"ranks":2,"op_id":2,"link":"nic","link_bytes":4000000000}},
{"ph":"M","name":"thread_name","pid":11,"tid":1,"args":{"name":"ep"}},
{"ph":"M","name":"thread_sort_index","pid":11,"tid":1,"args":{"sort_index":1}},
{"ph":"X","pid":11,"tid":1,"ts":100000000.000000,"dur":200000000.000000,"name":"dispatch","cat":"exchange","args":{"layer":3,"pass":"backward","microbatch":1,"op":"other-grad","stage":"dispatch","to_same_host_bytes":0,"to_other_hosts_bytes":0,"waiting_us":0.0,"ranks":2,"op_id":2,"link":"nic","link_bytes":4000000000}},
{"ph":"s","id":2684354560,"pid":10,"tid":1,"ts":100000000.000000,"name":"dispatch","cat":"flow"},
{"ph":"f","bp":"e","id":2684354560,"pid":11,"tid":1,"ts":299999999.999999,"name":"dispatch","cat":"flow"},
{"ph":"M","name":"thread_name","pid":11,"tid":3,"args":{"name":"copy"}},
{"ph":"M","name":"thread_sort_index","pid":11,"tid":3,"args":{"sort_index":3}},
{"ph":"X","pid":11,"tid":3,"ts":300000000.000000,"dur":100000000.000000,"name":"host","cat":"kernel","args":{"pass":"forward","microbatch":0,"op":"other","host_ns":7}},
{"ph":"C","pid":12,"ts":0.000000,"name":"pcie links [B/s]","args":{"all links":0}},
{"ph":"C","pid":12,"ts":100000000.000000,"name":"pcie links [B/s]","args":{"all links":80000000}},
{"ph":"C","pid":12,"ts":300000000.000000,"name":"pcie links [B/s]","args":{"all links":0}},
{"ph":"C","pid":12,"ts":1000000000.000000,"name":"pcie links [B/s]","args":{"all links":0}},
{"ph":"C","pid":12,"ts":0.000000,"name":"nic links [B/s]","args":{"all links":0}},
{"ph":"C","pid":12,"ts":100000000.000000,"name":"nic links [B/s]","args":{"all links":40000000}},
{"ph":"C","pid":12,"ts":300000000.000000,"name":"nic links [B/s]","args":{"all links":0}},
{"ph":"C","pid":12,"ts":1000000000.000000,"name":"nic links [B/s]","args":{"all links":0}})x");
}

TEST(TimelineEvents, StepsFollowEachOtherAndOtherRanksAreLeftOut) {
  const std::string one = events_of({GpuId(1)}, 1), two = events_of({GpuId(1)}, 2);
  EXPECT_EQ(one.find("rank 0"), std::string::npos);
  EXPECT_EQ(one.find("flow"), std::string::npos);
  ASSERT_TRUE(two.starts_with(one));
  EXPECT_EQ(two.substr(one.size()), R"x(,
{"ph":"X","pid":12,"tid":0,"ts":1000000000.000000,"dur":1000000000.000000,"name":"step","cat":"step"},
{"ph":"X","pid":11,"tid":0,"ts":1000000000.000000,"dur":100000000.000000,"name":"fc1","cat":"kernel","args":{"layer":3,"pass":"forward","microbatch":0,"op":"fc1","stage":"experts","m":[2,1],"n":8,"k":16,"type":"bf16"}},
{"ph":"C","pid":11,"ts":1000000000.000000,"name":"tokens per expert","args":{"expert slot 0":2,"expert slot 1":1}},
{"ph":"X","pid":11,"tid":1,"ts":1100000000.000000,"dur":200000000.000000,"name":"dispatch","cat":"exchange","args":{"layer":3,"pass":"backward","microbatch":1,"op":"other-grad","stage":"dispatch","to_same_host_bytes":0,"to_other_hosts_bytes":0,"waiting_us":0.0,"ranks":2,"op_id":2,"link":"nic","link_bytes":4000000000}},
{"ph":"X","pid":11,"tid":3,"ts":1300000000.000000,"dur":100000000.000000,"name":"host","cat":"kernel","args":{"pass":"forward","microbatch":0,"op":"other","host_ns":7}},
{"ph":"C","pid":12,"ts":1000000000.000000,"name":"pcie links [B/s]","args":{"all links":0}},
{"ph":"C","pid":12,"ts":1100000000.000000,"name":"pcie links [B/s]","args":{"all links":80000000}},
{"ph":"C","pid":12,"ts":1300000000.000000,"name":"pcie links [B/s]","args":{"all links":0}},
{"ph":"C","pid":12,"ts":2000000000.000000,"name":"pcie links [B/s]","args":{"all links":0}},
{"ph":"C","pid":12,"ts":1000000000.000000,"name":"nic links [B/s]","args":{"all links":0}},
{"ph":"C","pid":12,"ts":1100000000.000000,"name":"nic links [B/s]","args":{"all links":40000000}},
{"ph":"C","pid":12,"ts":1300000000.000000,"name":"nic links [B/s]","args":{"all links":0}},
{"ph":"C","pid":12,"ts":2000000000.000000,"name":"nic links [B/s]","args":{"all links":0}})x");
}

TEST(TimelineEvents, ArrowsAreOfBytesAndArgumentsOfWhatIsThere) {
  test::TwoHostsStep step;
  const std::int64_t dense[] = {0, 1, 0, 0};
  for (const int bytes : {0, 1}) {
    const ByteMatrix matrix = ByteMatrix::from_dense(2, dense).with_unit(Bytes(bytes));
    const Interval when{Seconds(400 + 100 * bytes), Seconds(500 + 100 * bytes)};
    step.add({bytes == 0 ? "none" : "one",
              OpKey{.kind = OpKind::other, .layer = 0},
              Stream::ep,
              {GpuId(0), GpuId(1)},
              {},
              Exchange{matrix, {}, false}},
             {when, when});
  }
  for (const int keys : {0, 9}) {
    const AttentionHeads heads{4, 2, 192, 128};
    step.add({"scores",
              OpKey{.kind = OpKind::attention_scores},
              Stream::compute,
              {GpuId(0)},
              {},
              Kernels(FusedAttention{7, 5, heads, keys})},
             {{Seconds(600 + keys), Seconds(601 + keys)}});
  }
  const std::string events = events_of({GpuId(0), GpuId(1)}, 1, step);
  const auto has = [&](const char* text) { return events.find(text) != std::string::npos; };
  EXPECT_TRUE(has(R"("name":"one","cat":"flow")"));
  EXPECT_FALSE(has(R"("name":"none","cat":"flow")"));
  EXPECT_TRUE(has(R"("name":"none","cat":"exchange","args":{"layer":0,)"));
  const char* const heads = R"("heads":4,"kv_heads":2,"qk_width":192,"v_width":128,"type":"bf16")";
  EXPECT_TRUE(has(fmt::format(R"("queries":7,"attended":5,{})", heads).c_str()));
  EXPECT_TRUE(has(fmt::format(R"("queries":7,"attended":5,"keys":9,{})", heads).c_str()));
}

/// Three GPUs in a row over links of two classes, which carry 1 GB/s.
const Topology& row_of_three() {
  static const TopologyFile file = parse_topology(
      "vertices:\n  - {name: a, kind: gpu, host: x, gpu: g}\n"
      "  - {name: b, kind: gpu, host: x, gpu: g}\n  - {name: c, kind: gpu, host: x, gpu: g}\n"
      "links:\n  - {from: a, to: b, class: first, bandwidth: 1 GB/s, latency: 0 us}\n"
      "  - {from: b, to: c, class: second, bandwidth: 1 GB/s, latency: 0 us}\n",
      "row");
  return file.topology;
}

TEST(TimelineEvents, LoadsOfAClassAreThereIfOthersHaveNoneAndTimesAreNone) {
  Plan plan{"plan", 3, {}};
  Timeline timeline;
  const std::int64_t dense[] = {0, 3000, 0, 0};
  plan.add({"x",
            OpKey{.kind = OpKind::other, .stage = Stage::dispatch, .layer = 0},
            Stream::ep,
            {GpuId(1), GpuId(2)},
            {},
            Exchange{ByteMatrix::from_dense(2, dense), {}, false}});
  const Interval moment{Seconds(100.5), Seconds(100.5)};
  timeline.ops.add_row({moment, moment});
  timeline.makespan = Seconds(1000);
  std::string text;
  TraceEvents out([&](std::string_view more) { text += more; });
  TimelineEvents events(out, {"case", 10, {}}, row_of_three());
  text.clear();
  events.add(PricedPlan(plan, row_of_three()), timeline, "step");
  out.flush();
  EXPECT_EQ(text.substr(text.find("\"step\"}") + 7), R"x(,
{"ph":"C","pid":13,"ts":0.000000,"name":"second links [B/s]","args":{"all links":0}},
{"ph":"C","pid":13,"ts":100000000.000000,"name":"second links [B/s]","args":{"all links":3000}},
{"ph":"C","pid":13,"ts":101000000.000000,"name":"second links [B/s]","args":{"all links":0}},
{"ph":"C","pid":13,"ts":1000000000.000000,"name":"second links [B/s]","args":{"all links":0}})x");
}

TEST(TraceEvents, NumberArrowsByWhereTheyBegin) {
  std::string text;
  TraceEvents out([&](std::string_view more) { text += more; });
  for (const int process : {0, 1}) out.arrow({process, 2}, 1'500'000, {3, 4}, 2'000'001, "x");
  out.flush();
  EXPECT_EQ(text, R"x(,
{"ph":"s","id":0,"pid":0,"tid":2,"ts":1.500000,"name":"x","cat":"flow"},
{"ph":"f","bp":"e","id":0,"pid":3,"tid":4,"ts":2.000001,"name":"x","cat":"flow"},
{"ph":"s","id":268435457,"pid":1,"tid":2,"ts":1.500000,"name":"x","cat":"flow"},
{"ph":"f","bp":"e","id":268435457,"pid":3,"tid":4,"ts":2.000001,"name":"x","cat":"flow"})x");
}

}  // namespace
}  // namespace moesim
