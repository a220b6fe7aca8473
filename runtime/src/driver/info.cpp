// What a program is, in words and as JSON: `--info`.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "meshrt/conv.h"
#include "meshrt/driver.h"
#include "meshrt/gemm.h"
#include "meshrt/log.h"

namespace meshrt {

std::string info_text(const ProgramInfo& info) {
  std::string text = fmt::format("{} from {} ({})\n", info.name, info.spec, info.spec_hash);
  const auto line = [&](const char* name, const std::string& value) {
    if (!value.empty()) text += fmt::format("  {:<10} {}\n", name, value);
  };
  std::vector<std::string> axes, dims;
  for (const MeshAxis& axis : info.mesh) axes.push_back(fmt::format("{} {}", axis.name, axis.size));
  for (const auto& [name, size] : info.dims) dims.push_back(fmt::format("{} {}", name, size));
  line("layout", info.layout);
  line("mesh", fmt::format("{}{{ {} }}: {} rank{}", info.mesh_name.empty() ? "" : info.mesh_name + " ",
                           fmt::join(axes, ", "), mesh_size(info), mesh_size(info) == 1 ? "" : "s"));
  if (const PipelineInfo& of = info.pipeline; !of.axis.empty())
    line("pipeline", fmt::format("{} over {}, {} micro-batch{}, at most {} of them in a stage", of.schedule, of.axis,
                                 of.micro_batches, of.micro_batches == 1 ? "" : "es", of.in_flight));
  line("machine", info.machine);
  line("precision", info.precision);
  line("products", multiply_name({info.bf16, info.f16}));
  if (info.convolves) line("conv", conv_name({info.bf16, info.f16}));
  line("dims", fmt::format("{}", fmt::join(dims, ", ")));
  line("samples", info.sample_dim);
  line("metrics", fmt::format("{}", fmt::join(info.metrics, ", ")));
  std::vector<std::string> watched;
  for (const ProgramInfo::Watched& one : info.watched) watched.push_back(one.name);
  line("watches", fmt::format("{}", fmt::join(watched, ", ")));
  line("rate", fmt::format("{}", info.rate));
  line("memory",
       fmt::format("{} a rank, {} of them shared", bytes_text(most_memory(info)), bytes_text(info.arena_bytes)));
  return text;
}

std::string info_json(const ProgramInfo& info) {
  using Json = nlohmann::ordered_json;
  Json mesh = Json::array(), dims = Json::object();
  for (const MeshAxis& axis : info.mesh)
    mesh.push_back({{"name", axis.name}, {"size", axis.size}, {"stride", axis.stride}});
  for (const auto& [name, size] : info.dims) dims[name] = size;
  Json pipeline = nullptr;
  if (const PipelineInfo& of = info.pipeline; !of.axis.empty())
    pipeline = {
        {"axis", of.axis}, {"schedule", of.schedule}, {"micro_batches", of.micro_batches}, {"in_flight", of.in_flight}};
  Json watched = Json::array();
  for (const ProgramInfo::Watched& one : info.watched) watched.push_back(one.name);
  Json entries = Json::array();
  for (const EntryInfo& one : info.entries) entries.push_back(one.name);
  const Json object = {{"schema", 1},
                       {"name", info.name},
                       {"spec", info.spec},
                       {"spec_hash", info.spec_hash},
                       {"layout", info.layout},
                       {"mesh", {{"name", info.mesh_name}, {"axes", mesh}, {"ranks", mesh_size(info)}}},
                       {"pipeline", pipeline},
                       {"machine", info.machine},
                       {"precision", info.precision},
                       {"products", multiply_name({info.bf16, info.f16})},
                       {"conv", info.convolves ? Json(conv_name({info.bf16, info.f16})) : Json(nullptr)},
                       {"dims", dims},
                       {"sample_dim", info.sample_dim},
                       {"metrics", info.metrics},
                       {"watches", watched},
                       {"entries", entries},
                       {"rate", info.rate},
                       {"memory", {{"arena_bytes", info.arena_bytes}, {"own_bytes", info.own_bytes}}}};
  return object.dump(2) + "\n";
}

}  // namespace meshrt
