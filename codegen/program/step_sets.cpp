#include <algorithm>

#include "codegen/program/accesses.h"
#include "codegen/program/extent.h"
#include "codegen/program/fuse.h"

namespace mesh {

namespace {

void sort_unique(std::vector<uint32_t>& items) {
  std::sort(items.begin(), items.end());
  items.erase(std::unique(items.begin(), items.end()), items.end());
}

thread_local uint64_t conflicts = 0;

bool meet(const std::vector<uint32_t>& a, const std::vector<uint32_t>& b) {
  return std::any_of(a.begin(), a.end(), [&](uint32_t item) { return contains(b, item); });
}

/// "layer.attn" of "layer.attn" and "layer.attn.norm".
std::string common_scope(const std::string& a, const std::string& b) {
  size_t end = 0;
  for (size_t i = 0; i <= std::min(a.size(), b.size()); ++i) {
    const bool part_ends = (i == a.size() || a[i] == '.') && (i == b.size() || b[i] == '.');
    if (part_ends) end = i;
    if (i == a.size() || i == b.size() || a[i] != b[i]) break;
  }
  return a.substr(0, end);
}

}  // namespace

StepSets sets_of(const Program& program, const Step& step) {
  StepSets sets;
  for_each_access(step, [&](const Access& access, Use use) {
    const uint32_t root = storage(program, access.buffer).index;
    if (use != Use::write) sets.reads.push_back(root);
    if (use != Use::read) sets.writes.push_back(root);
  });
  sort_unique(sets.reads);
  sort_unique(sets.writes);
  return sets;
}

bool contains(const std::vector<uint32_t>& sorted, uint32_t item) {
  return std::binary_search(sorted.begin(), sorted.end(), item);
}

uint64_t conflicts_asked() { return conflicts; }

bool conflict(const StepSets& a, const StepSets& b) {
  ++conflicts;
  return meet(a.writes, b.reads) || meet(a.writes, b.writes) || meet(a.reads, b.writes);
}

bool reads_own_stores(const Program& program, const Pass& pass) {
  const auto leads_elsewhere = [](const IndexMap& map) { return !map.turn; };
  return std::any_of(pass.scalars.begin(), pass.scalars.end(), [&](const Scalar& scalar) {
    const auto* load = std::get_if<Scalar::Load>(&scalar.what);
    return load && std::ranges::any_of(load->access.maps, leads_elsewhere) &&
           std::any_of(pass.stores.begin(), pass.stores.end(), [&](const Pass::Store& store) {
             return storage(program, store.to.buffer) == storage(program, load->access.buffer);
           });
  });
}

bool is_running_sum(const Program& program, const Step& step, BufferId memory) {
  const auto* nest = std::get_if<Nest>(&step.what);
  return nest && std::ranges::any_of(nest->passes, [&](const Pass& pass) {
           return reads_own_stores(program, pass) && std::ranges::any_of(pass.stores, [&](const Pass::Store& store) {
                    return storage(program, store.to.buffer) == memory;
                  });
         });
}

void swallow(Step& into, const Step& from) {
  for (const Span& span : from.spans)
    if (std::find(into.spans.begin(), into.spans.end(), span) == into.spans.end()) into.spans.push_back(span);
  into.seconds += from.seconds;
  into.scope = common_scope(into.scope, from.scope);
}

UseCounts count_uses(const Program& program) {
  UseCounts counts{std::vector<int>(program.buffers.size()), std::vector<int>(program.buffers.size())};
  for (const Routine& routine : program.routines)
    for (const Step& step : routine.steps)
      for_each_access(step, [&](const Access& access, Use use) {
        const uint32_t root = storage(program, access.buffer).index;
        if (use != Use::write) ++counts.reads[root];
        if (use != Use::read) ++counts.writes[root];
      });
  return counts;
}

}  // namespace mesh
