#include "driver/same_job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sstream>

#include "meshrt/conv.h"
#include "meshrt/failure.h"
#include "meshrt/gemm.h"
#include "report/gather.h"

namespace meshrt {

namespace {

/// Everything the ranks have to agree on to make the same calls: those of a program follow from its sites, its mesh and
/// its sizes.
uint64_t schedule_hash(const ProgramInfo& info) {
  std::string all;
  for (const ProgramInfo::SourceSpan& site : info.sites)
    all += fmt::format("{}:{}:{};", site.file, site.line, site.column);
  for (const MeshAxis& axis : info.mesh) all += fmt::format("{} {} {};", axis.name, axis.size, axis.stride);
  for (const auto& [dim, size] : info.dims) all += fmt::format("{} {};", dim, size);
  all += fmt::format("{} {}", info.arena_bytes, info.own_bytes);
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char c : all) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return hash;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

constexpr const char* run_file_mark = "run file:";

}  // namespace

std::string identity_of(const ProgramInfo& info, const RunFile& run) {
  std::vector<std::string> mesh;
  for (const MeshAxis& axis : info.mesh) mesh.push_back(fmt::format("{}={}", axis.name, axis.size));
  std::string text =
      fmt::format("runtime: {}\nprogram: {}\nlayout: {}\nmesh: {}\nprecision: {}\nproducts: {}\n", runtime_version,
                  info.name, info.layout, fmt::join(mesh, ","), info.precision, multiply_name({info.bf16, info.f16}));
  if (info.convolves) text += fmt::format("convolutions: {}\n", conv_name({info.bf16, info.f16}));
  for (const auto& [dim, size] : info.dims) text += fmt::format("dim {}: {}\n", dim, size);
  text += fmt::format("spec: {}\nschedule of collectives: {:016x}\n", info.spec_hash, schedule_hash(info));
  return text + run_file_mark + "\n" + run.written;
}

std::string first_difference(const std::vector<std::string>& identities) {
  for (size_t rank = 1; rank < identities.size(); ++rank) {
    if (identities[rank] == identities[0]) continue;
    const std::vector<std::string> first = lines_of(identities[0]), other = lines_of(identities[rank]);
    bool in_run_file = false;
    for (size_t i = 0; i < std::max(first.size(), other.size()); ++i) {
      const std::string &a = i < first.size() ? first[i] : "nothing", &b = i < other.size() ? other[i] : "nothing";
      in_run_file |= a == run_file_mark;
      if (a == b) continue;
      return fmt::format("rank {} {}: it has `{}` where rank 0 has `{}`", rank,
                         in_run_file ? "reads another run file" : "runs another program", b, a);
    }
  }
  return "";
}

void check_same_job(Rank& rank, const ProgramInfo& info, const RunFile& run) {
  const std::string difference = first_difference(gather_texts(rank, "start", identity_of(info, run)));
  if (!difference.empty())
    throw Failure(
        Cause::mismatch,
        difference + "\nall ranks of a job run one program with one run file: is there an old copy on a host?");
}

}  // namespace meshrt
