#include "codegen/commands/measure/description.h"

#include <fmt/format.h>

#include <stdexcept>

#include "codegen/commands/measure/host.h"
#include "codegen/commands/table.h"
#include "codegen/layout/cost.h"
#include "meshrt/log.h"

namespace mesh {
namespace {

using Json = nlohmann::ordered_json;

/// A scalar of YAML, whatever is in it.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) out += c == '"' || c == '\\' ? std::string{'\\', c} : std::string{c};
  return out + "\"";
}

/// Three digits, which is more than turns agree in.
std::string digits(double number) {
  return number < 100 ? fmt::format("{:.3g}", number) : fmt::format("{:.0f}", number);
}

/// "{ 4KiB: 0.52, 64KiB: 1.7 }"
std::string rates_text(const Rate& rate) {
  std::string text;
  for (const Rate::Point& one : rate.points)
    text += fmt::format("{}{:.0f}KiB: {}", text.empty() ? "" : ", ", static_cast<double>(one.bytes) / 1024,
                        digits(one.gbs));
  return "{ " + text + " }";
}

std::string rates_text(const MeasuredCalls& calls) {
  Rate rate;
  for (const MeasuredCalls::Size& one : calls.sizes) rate.points.push_back({one.sent, one.gbs});
  return rates_text(rate);
}

/// "100us", "1ms"
std::string work_text(double work_us) {
  return work_us < 1000 ? fmt::format("{:g}us", work_us) : fmt::format("{:g}ms", work_us / 1000);
}

/// "100us: 29, 1ms: 90"
std::string meetings_text(const Meetings& meetings) {
  std::string text;
  for (const Meetings::Point& one : meetings.points)
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", work_text(one.work_us), digits(one.wait_us));
  return text;
}

Json meetings_json(const Meetings& meetings) {
  Json json = Json::object();
  for (const Meetings::Point& one : meetings.points) json[work_text(one.work_us)] = one.wait_us;
  return json;
}

/// The keys of a link, each on a line of its own.
std::string link_text(const MeasuredLink& link) {
  const auto keys = [](const char* before, const MeasuredCalls& calls) {
    return fmt::format("{0}latency_us: {1}\n{0}gbs: {2}\n", before, digits(calls.latency_us), rates_text(calls));
  };
  const std::string meeting =
      link.meetings.points.empty()
          ? ""
          : fmt::format(
                "  meeting_us: {{ {} }}   # that ranks wait for one another in a call, by their work before it\n",
                meetings_text(link.meetings));
  return keys("  ", link.all_reduce) + meeting + "  send:\n" + keys("    ", link.send);
}

/// Rows of a table: what one of the calls takes, by what a rank sends.
void add_rows(std::vector<std::vector<std::string>>& rows, const std::string& title, const MeasuredCalls& calls) {
  for (const MeasuredCalls::Size& one : calls.sizes)
    rows.push_back({&one == &calls.sizes.front() ? title : "", meshrt::bytes_text(one.sent),
                    digits(1e6 * one.seconds) + " us", digits(one.gbs) + " GB/s"});
}

Json calls_json(const MeasuredCalls& calls) {
  Json json{{"latency_us", calls.latency_us}, {"sizes", Json::array()}};
  for (const MeasuredCalls::Size& one : calls.sizes)
    json["sizes"].push_back({{"sent", one.sent}, {"seconds", one.seconds}, {"gbs", one.gbs}});
  return json;
}

/// As it is written in YAML: a number, or numbers by size.
Json rate_json(const Rate& rate) {
  if (rate.points.size() == 1) return rate.points.front().gbs;
  Json json = Json::object();
  for (const Rate::Point& point : rate.points) json[std::to_string(point.bytes)] = point.gbs;
  return json;
}

Json link_json(const Link& link) { return {{"latency_us", link.latency_us}, {"gbs", rate_json(link.gbs)}}; }

Json links_json(const Links& links) {
  Json json = link_json(links.together);
  if (links.send) json["send"] = link_json(*links.send);
  if (!links.meetings.points.empty()) json["meeting_us"] = meetings_json(links.meetings);
  return json;
}

/// "10 GB/s"; of several sizes those of the smallest and the largest.
std::string rate_text(const Rate& rate) {
  const auto at = [&](const Rate::Point& point) {
    return fmt::format("{} GB/s{}", digits(point.gbs),
                       rate.points.size() > 1 ? " of " + meshrt::bytes_text(point.bytes) : "");
  };
  std::string text = at(rate.points.front());
  if (rate.points.size() > 1) text += " to " + at(rate.points.back());
  return text;
}

/// "1 us, 10 GB/s"
std::string link_text(const Link& link) { return fmt::format("{:g} us, {}", link.latency_us, rate_text(link.gbs)); }

}  // namespace

std::string ranks_text(const Measured& found) {
  const std::string ranks = fmt::format("{} rank{}", found.ranks, found.ranks == 1 ? "" : "s");
  return found.hosts == 1 ? ranks : fmt::format("{} hosts with {} each", found.hosts, ranks);
}

std::string description(const Measured& found, const std::string& name) {
  std::string text = fmt::format(
      "# Measured by `meshc machine --measure`: {} at once, medians of some turns.\nname: {}\ngflops:   # of a core: "
      "products and attention with their gradients\n  f32: {}\n  f64: {}\n  bf16: {}\n  attention: {}\n  "
      "attention_bf16: {}\n  elementwise: {}   # all other ops\nmemory_gbs: {}   # of a core, by what an op touches\n",
      ranks_text(found), quoted(name), digits(found.gflops_f32), digits(found.gflops_f64), digits(found.gflops_bf16),
      digits(found.gflops_attention), digits(found.gflops_attention_bf16), digits(found.gflops_elementwise),
      rates_text(found.memory));
  text += fmt::format("node:   # `gbs` by what a rank sends in a call\n  ranks: {}\n  memory_gib: {}\n", found.ranks,
                      digits(host_memory().bytes / 0x1p30));
  if (found.node) text += link_text(*found.node);
  if (found.network) text += "network:\n" + link_text(*found.network);
  std::vector<std::string> generic;
  if (!found.node) generic.emplace_back("node.latency_us, node.gbs");
  if (!found.network) generic.emplace_back("network");
  if (generic.empty()) return text;
  return text + fmt::format("# Not measured, so as of the generic machine: {}.\n", fmt::join(generic, ", "));
}

std::string hash_of_description(const std::string& text) {
  SourceMap sources;
  DiagnosticSink sink;
  sources.add("description", text);
  const std::optional<Machine> machine = read_machine("description", sources, sink);
  if (!machine) throw std::logic_error("a description that was written cannot be read");
  return machine->hash;
}

std::string what_was_found(const Measured& found) {
  std::string text =
      in_columns({{"products", fmt::format("f32 {}, f64 {}, bf16 {} GFLOP/s a rank", digits(found.gflops_f32),
                                           digits(found.gflops_f64), digits(found.gflops_bf16))},
                  {"attention", fmt::format("f32 {}, bf16 {} GFLOP/s a rank", digits(found.gflops_attention),
                                            digits(found.gflops_attention_bf16))},
                  {"other ops", "f32 " + digits(found.gflops_elementwise) + " GFLOP/s a rank"},
                  {"memory", rate_text(found.memory) + " a rank"}});
  std::vector<std::vector<std::string>> rows;
  if (found.node) {
    add_rows(rows, fmt::format("all-reduce, {} ranks of a host", found.node->ranks), found.node->all_reduce);
    add_rows(rows, "send within a host", found.node->send);
  }
  if (found.network) {
    add_rows(rows, fmt::format("all-reduce, {} hosts", found.network->ranks), found.network->all_reduce);
    add_rows(rows, "send between hosts", found.network->send);
  }
  const auto add_meeting = [&](const char* who, const std::optional<MeasuredLink>& link) {
    if (!link) return;
    for (const Meetings::Point& one : link->meetings.points)
      rows.push_back({&one == &link->meetings.points.front() ? fmt::format("{} meet after work", who) : "",
                      work_text(one.work_us), digits(one.wait_us) + " us", ""});
  };
  add_meeting("ranks of a host", found.node);
  add_meeting("hosts", found.network);
  text += in_columns(rows);
  if (found.spread > 0.15)
    text += fmt::format(
        "warning: turns differ by {:.0f} %: something else runs here; measure again when the host is idle\n",
        100 * found.spread);
  return text;
}

Json measured_json(const Measured& found, const std::string& name, const std::string& hash) {
  Json json{{"schema", 1},
            {"name", name},
            {"hash", hash},
            {"hosts", found.hosts},
            {"ranks", found.ranks},
            {"gflops",
             {{"f32", found.gflops_f32},
              {"f64", found.gflops_f64},
              {"bf16", found.gflops_bf16},
              {"attention", found.gflops_attention},
              {"attention_bf16", found.gflops_attention_bf16},
              {"elementwise", found.gflops_elementwise}}},
            {"memory_gbs", rate_json(found.memory)},
            {"spread", found.spread}};
  const auto link = [](const MeasuredLink& one) -> Json {
    return {{"ranks", one.ranks},
            {"meeting_us", meetings_json(one.meetings)},
            {"all_reduce", calls_json(one.all_reduce)},
            {"send", calls_json(one.send)}};
  };
  if (found.node) json["node"] = link(*found.node);
  if (found.network) json["network"] = link(*found.network);
  return json;
}

std::string machine_text(const Machine& machine) {
  std::string text = fmt::format("machine {}{}\n", machine.name, machine.hash.empty() ? "" : ", hash " + machine.hash);
  std::vector<std::vector<std::string>> rows{
      {"  products", fmt::format("f32 {:g}, f64 {:g}, bf16 {:g} GFLOP/s a core", machine.gflops_f32, machine.gflops_f64,
                                 machine.gflops_bf16)}};
  const auto rate = [&](const char* what, const std::optional<double>& f32, const std::optional<double>& bf16) {
    std::vector<std::string> rates;
    if (f32) rates.push_back(fmt::format("f32 {:g}", *f32));
    if (bf16) rates.push_back(fmt::format("bf16 {:g}", *bf16));
    if (!rates.empty()) rows.push_back({what, fmt::format("{} GFLOP/s a core", fmt::join(rates, ", "))});
  };
  rate("  attention", machine.gflops_attention, machine.gflops_attention_bf16);
  rate("  other ops", machine.gflops_elementwise, {});
  rows.push_back({"  memory", rate_text(machine.memory) + " a core"});
  rows.push_back(
      {"  a host", fmt::format("{} ranks{}", machine.node_ranks,
                               machine.node_memory_gib > 0 ? fmt::format(", {:g} GiB", machine.node_memory_gib) : "")});
  rows.push_back({"  on a host", link_text(machine.node.together)});
  if (machine.node.send) rows.push_back({"  a send on it", link_text(*machine.node.send)});
  if (!machine.node.meetings.points.empty())
    rows.push_back({"  ranks meet", "in us, by their work: " + meetings_text(machine.node.meetings)});
  rows.push_back({"  between hosts", link_text(machine.network.together)});
  if (machine.network.send) rows.push_back({"  a send between", link_text(*machine.network.send)});
  if (!machine.network.meetings.points.empty())
    rows.push_back({"  hosts meet", "in us, by their work: " + meetings_text(machine.network.meetings)});
  return text + in_columns(rows);
}

Json machine_json(const Machine& machine) {
  Json json{{"schema", 1},
            {"name", machine.name},
            {"hash", machine.hash},
            {"gflops", {{"f32", machine.gflops_f32}, {"f64", machine.gflops_f64}, {"bf16", machine.gflops_bf16}}},
            {"memory_gbs", rate_json(machine.memory)}};
  if (machine.gflops_attention) json["gflops"]["attention"] = *machine.gflops_attention;
  if (machine.gflops_attention_bf16) json["gflops"]["attention_bf16"] = *machine.gflops_attention_bf16;
  if (machine.gflops_elementwise) json["gflops"]["elementwise"] = *machine.gflops_elementwise;
  json["node"] = {{"ranks", machine.node_ranks}};
  if (machine.node_memory_gib > 0) json["node"]["memory_gib"] = machine.node_memory_gib;
  json["node"].update(links_json(machine.node));
  json["network"] = links_json(machine.network);
  return json;
}

}  // namespace mesh
