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
std::string digits(double number) { return fmt::format("{:.3g}", number); }

std::vector<std::vector<std::string>> rows_of_all_reduces(const Measured& found, const std::string& before) {
  std::vector<std::vector<std::string>> rows;
  for (const Measured::AllReduce& one : found.all_reduces)
    rows.push_back({before + meshrt::bytes_text(one.bytes), fmt::format("{} us", digits(1e6 * one.seconds)),
                    one.gbs > 0 ? digits(one.gbs) + " GB/s" : ""});
  return rows;
}

}  // namespace

std::string description(const Measured& found, const std::string& name) {
  std::string text = fmt::format(
      "# Measured by `meshc machine --measure`: {} rank{} at once, medians of some turns.\nname: {}\ngflops: {{ f32: "
      "{}, "
      "f64: {} }}   # of a core: products, with those of their gradients\nmemory_gbs: {}   # of a core\n",
      found.ranks, found.ranks == 1 ? "" : "s", quoted(name), digits(found.gflops_f32), digits(found.gflops_f64),
      digits(found.memory_gbs));
  text += fmt::format("node: {{ ranks: {}", found.ranks);
  if (found.gbs > 0) text += fmt::format(", latency_us: {}, gbs: {}", digits(found.latency_us), digits(found.gbs));
  text += fmt::format(", memory_gib: {} }}\n", digits(host_memory().bytes / 0x1p30));
  if (found.gbs > 0)
    text += "# One rate stands for all sizes: between those of an all-reduce of 256 KiB and more.\n" +
            in_columns(rows_of_all_reduces(found, "#   "));
  return text + fmt::format("# Not measured, so as of the generic machine: gflops.bf16, network{}.\n",
                            found.gbs > 0 ? "" : ", node.latency_us, node.gbs");
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
  std::string text = in_columns(
      {{"products", fmt::format("f32 {}, f64 {} GFLOP/s a rank", digits(found.gflops_f32), digits(found.gflops_f64))},
       {"memory", digits(found.memory_gbs) + " GB/s a rank"}});
  if (found.ranks > 1)
    text += "all-reduce of " + std::to_string(found.ranks) + " ranks\n" + in_columns(rows_of_all_reduces(found, "  "));
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
            {"ranks", found.ranks},
            {"gflops", {{"f32", found.gflops_f32}, {"f64", found.gflops_f64}}},
            {"memory_gbs", found.memory_gbs},
            {"spread", found.spread},
            {"all_reduces", Json::array()}};
  if (found.gbs > 0) json["node"] = {{"latency_us", found.latency_us}, {"gbs", found.gbs}};
  for (const Measured::AllReduce& one : found.all_reduces)
    json["all_reduces"].push_back({{"bytes", one.bytes}, {"seconds", one.seconds}});
  return json;
}

std::string machine_text(const Machine& machine) {
  std::string text = fmt::format("machine {}{}\n", machine.name, machine.hash.empty() ? "" : ", hash " + machine.hash);
  std::vector<std::vector<std::string>> rows{
      {"  products", fmt::format("f32 {:g}, f64 {:g}, bf16 {:g} GFLOP/s a core", machine.gflops_f32, machine.gflops_f64,
                                 machine.gflops_bf16)},
      {"  memory", fmt::format("{:g} GB/s a core", machine.memory_gbs)},
      {"  a host", fmt::format("{} ranks, {:g} us and {:g} GB/s between two of them{}", machine.node_ranks,
                               machine.node_latency_us, machine.node_gbs,
                               machine.node_memory_gib > 0 ? fmt::format(", {:g} GiB", machine.node_memory_gib) : "")},
      {"  between hosts", fmt::format("{:g} us, {:g} GB/s a rank", machine.network_latency_us, machine.network_gbs)}};
  return text + in_columns(rows);
}

Json machine_json(const Machine& machine) {
  Json json{
      {"schema", 1},
      {"name", machine.name},
      {"hash", machine.hash},
      {"gflops", {{"f32", machine.gflops_f32}, {"f64", machine.gflops_f64}, {"bf16", machine.gflops_bf16}}},
      {"memory_gbs", machine.memory_gbs},
      {"node", {{"ranks", machine.node_ranks}, {"latency_us", machine.node_latency_us}, {"gbs", machine.node_gbs}}},
      {"network", {{"latency_us", machine.network_latency_us}, {"gbs", machine.network_gbs}}}};
  if (machine.node_memory_gib > 0) json["node"]["memory_gib"] = machine.node_memory_gib;
  return json;
}

}  // namespace mesh
