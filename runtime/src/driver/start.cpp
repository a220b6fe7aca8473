#include "driver/start.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <system_error>

#include "data/batches.h"
#include "driver/memory_limits.h"
#include "driver/nodes.h"
#include "meshrt/driver.h"
#include "meshrt/failure.h"
#include "meshrt/launch.h"
#include "meshrt/threads.h"
#include "system/switched_off.h"
#include "transport/progress_thread.h"
#include "transport/site_names.h"
#include "transport/transport.h"

namespace meshrt {

namespace {

/// Where its call sites stand in the spec.
std::vector<std::string> places_of(const ProgramInfo& info) {
  std::vector<std::string> places;
  for (const ProgramInfo::SourceSpan& site : info.sites)
    places.push_back(site.line > 0 ? fmt::format("{}:{}", site.file, site.line) : "");
  return places;
}

}  // namespace

int mesh_size(const ProgramInfo& info) {
  int size = 1;
  for (const MeshAxis& axis : info.mesh) size *= axis.size;
  return size;
}

void prepare(Rank& rank, Program& program) {
  const ProgramInfo& info = program.info();
  if (rank.ranks() != mesh_size(info))
    throw Failure(Cause::usage, fmt::format("the job has {} ranks, but `{}` is compiled for the {} of its mesh",
                                            rank.ranks(), info.name, mesh_size(info)));
  name_sites(places_of(info));
  check_nodes(rank, info);
  check_memory(rank, info);
  rank.allocate(info.arena_bytes, info.own_bytes, [&](int of) { return memory_of(info, of); });
  program.bind(rank);
}

int ranks_here(const Rank& rank) {
  return static_cast<int>(rank.transport().placement().neighbours(rank.rank()).size());
}

bool has_core_for_progress(const RankRoom& room) {
  // Of ranks that are bound to parts of the host as many share a part as have as large a share of the whole.
  const int own = std::clamp(room.own_cpus, 1, std::max(1, room.cpus));
  const int sharing = (room.ranks * own + room.cpus - 1) / std::max(1, room.cpus);
  return sharing * (room.threads + 1) <= room.own_cores;
}

std::unique_ptr<ProgressThread> progress_thread(const Rank& rank) {
  if (switched_off("progress") || rank.ranks() == 1) return nullptr;
  Transport& transport = rank.transport();
  if (!has_core_for_progress({.ranks = ranks_here(rank),
                              .threads = threads_of_rank(),
                              .cpus = transport.cpus(),
                              .own_cpus = allowed_cpus(),
                              .own_cores = allowed_cores()}))
    return nullptr;
  try {
    return std::make_unique<ProgressThread>(transport);
  } catch (const std::system_error&) {
    return nullptr;  // as many threads as the system allows: the rank does it itself
  }
}

/// MESHRT_TIMEOUT, which a launcher's --timeout sets, stands over the run file.
void heed_timeout(Rank& rank, const RunFile& run) {
  const char* set = std::getenv("MESHRT_TIMEOUT");
  if (run.train.timeout.given() && (set == nullptr || *set == '\0'))
    rank.transport().set_timeout(run.train.timeout.value);
}

void begin_states(Program& program, const Batches& batches, const StepInput& input,
                  const std::function<bool(const std::string&)>& begins) {
  const std::vector<EntryInfo>& entries = program.info().entries;
  for (size_t i = 0; i < entries.size(); ++i)
    if (const std::string& state = entries[i].begins; !state.empty() && !batches.fills_state(state) && begins(state))
      program.run(i, input, {});
}

}  // namespace meshrt
