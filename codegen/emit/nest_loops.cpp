#include "codegen/emit/nest_loops.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "codegen/graph/builder.h"

namespace mesh {

namespace {

std::vector<LocalDim> dims_of_pass(const Nest& nest, size_t pass) {
  std::vector<LocalDim> dims = nest.outer;
  dims.insert(dims.end(), nest.passes[pass].inner.begin(), nest.passes[pass].inner.end());
  return dims;
}

bool asks_for_index(const Pass& pass, DimId dim) {
  return std::ranges::any_of(pass.scalars, [&](const Scalar& scalar) {
    const auto* random = std::get_if<Scalar::Random>(&scalar.what);
    if (random != nullptr) return std::ranges::count(random->dims, dim, &Scalar::Random::Counted::dim) > 0;
    const auto* index = std::get_if<Scalar::Index>(&scalar.what);
    return index != nullptr && index->dim == dim;
  });
}

}  // namespace

std::vector<const Access*> accesses_of(const Pass& pass) {
  std::vector<const Access*> all;
  for (const Scalar& scalar : pass.scalars)
    if (const auto* load = std::get_if<Scalar::Load>(&scalar.what)) all.push_back(&load->access);
  for (const Pass::Store& store : pass.stores) all.push_back(&store.to);
  for (const Pass::Accumulate& accumulate : pass.accumulates) all.push_back(&accumulate.to);
  return all;
}

NestLoops::NestLoops(EmitContext& context, const Nest& nest, const std::map<DimId, std::string>& stops)
    : context_(context), nest_(nest), inner_(nest.passes.size()) {
  const bool one_walk = nest.passes.size() == 1 && nest.passes.front().reductions.empty();
  if (one_walk) {
    inner_[0] = merge(dims_of_pass(nest, 0), 0, 0, 0, false);
  } else {
    outer_ = merge(nest.outer, 0, nest.passes.size() - 1, 0, false);
    for (size_t pass = 0; pass < nest.passes.size(); ++pass)
      inner_[pass] = merge(nest.passes[pass].inner, pass, pass, outer_.size(), !nest.passes[pass].reductions.empty());
  }
  stop(outer_, stops);
  for (std::vector<NestLoop>& loops : inner_) stop(loops, stops);
  for (size_t pass = 0; pass < nest.passes.size(); ++pass)
    for (const Access* access : accesses_of(nest.passes[pass])) ++row_uses_[element(*access, pass).row];
}

bool NestLoops::is_bounded(DimId dim) const {
  return std::ranges::any_of(nest_.bounds, [&](const LoopBound& bound) { return bound.along.dim == dim; });
}

void NestLoops::stop(std::vector<NestLoop>& loops, const std::map<DimId, std::string>& stops) const {
  for (NestLoop& loop : loops)
    if (const auto at = stops.find(loop.dims.front().dim); at != stops.end()) loop.stop = at->second;
}

std::vector<NestLoop> NestLoops::merge(const std::vector<LocalDim>& dims, size_t first_pass, size_t last_pass,
                                       size_t flat_depth, bool last_alone) {
  std::vector<NestLoop> loops;
  if (!context_.outlined_rows.empty()) {  // rows of slices: the columns are what lies together
    size_t first = 0;
    for (const auto& [id, row] : context_.outlined_rows)
      while (context_.program.buffer(id).dims[first] == dims[first]) ++first;
    const auto middle = dims.begin() + static_cast<std::ptrdiff_t>(first);
    loops.push_back({{dims.begin(), middle}, context_.names.flat_index(0), context_.outlined_extents[0]});
    loops.push_back({{middle, dims.end()}, context_.names.flat_index(1), context_.outlined_extents[1]});
    return loops;
  }
  for (size_t i = 0; i < dims.size(); ++i) {
    const LocalDim& dim = dims[i];
    const bool alone = loops.empty() || (last_alone && i + 1 == dims.size());
    if (!alone && walked_together(loops.back().dims.back(), dim, first_pass, last_pass))
      loops.back().dims.push_back(dim);
    else loops.push_back({{dim}, "", ""});
  }
  if (!context_.outlined_extents.empty()) {
    // The loops of a function: over what it is given, the last extent innermost.
    const std::vector<std::string>& extents = context_.outlined_extents;
    const size_t skipped = extents.size() - std::min(extents.size(), loops.size());
    for (size_t i = 0; i < loops.size(); ++i) {
      loops[i].index = context_.names.flat_index(i);
      loops[i].extent = extents[skipped + i];
    }
    return loops;
  }
  size_t flat = flat_depth;
  for (NestLoop& loop : loops) {
    loop.index =
        loop.dims.size() == 1 ? context_.names.index(loop.dims.front().dim) : context_.names.flat_index(flat++);
    loop.extent = context_.names.product(loop.dims);
  }
  return loops;
}

bool NestLoops::walked_together(const LocalDim& first, const LocalDim& second, size_t first_pass,
                                size_t last_pass) const {
  if (is_bounded(first.dim) || is_bounded(second.dim)) return false;
  for (size_t pass = first_pass; pass <= last_pass; ++pass) {
    if (asks_for_index(nest_.passes[pass], first.dim) || asks_for_index(nest_.passes[pass], second.dim)) return false;
    const std::vector<LocalDim> dims = dims_of_pass(nest_, pass);
    const auto place = [&](const LocalDim& dim) { return std::ranges::find(dims, dim) - dims.begin(); };
    for (const Access* access : accesses_of(nest_.passes[pass])) {
      const Address address = address_of(context_.program, *access, dims);
      for (const Address::Mapped& mapped : address.mapped)
        if (mapped.nest_dim == place(first) || mapped.nest_dim == place(second)) return false;
      const int of_first = address.positions[static_cast<size_t>(place(first))];
      const int of_second = address.positions[static_cast<size_t>(place(second))];
      if (of_first < 0 && of_second < 0) continue;
      if (of_first < 0 || of_second != of_first + 1) return false;
      for (const Address::Shift& shift : address.shifts)
        if (shift.nest_dim == place(first) || shift.nest_dim == place(second)) return false;
    }
  }
  return true;
}

std::vector<const NestLoop*> NestLoops::around(size_t pass) const {
  std::vector<const NestLoop*> loops;
  for (const NestLoop& loop : outer_) loops.push_back(&loop);
  for (const NestLoop& loop : inner_[pass]) loops.push_back(&loop);
  return loops;
}

size_t NestLoops::depth_of(DimId dim, size_t pass) const {
  const std::vector<const NestLoop*> loops = around(pass);
  for (size_t i = 0; i < loops.size(); ++i)
    for (const LocalDim& one : loops[i]->dims)
      if (one.dim == dim) return i + 1;
  internal_error("a loop nest asks for a dim that it does not iterate over: " + context_.graph().dim(dim).name);
}

const LocalDim& NestLoops::local(DimId dim, size_t pass) const {
  for (const LocalDim& one : around(pass)[depth_of(dim, pass) - 1]->dims)
    if (one.dim == dim) return one;
  internal_error("a loop nest asks for a dim that it does not iterate over: " + context_.graph().dim(dim).name);
}

std::string NestLoops::Index::sum() const {
  if (added.empty()) return loops.empty() ? "0" : loops;
  if (loops.empty()) return added;
  if (loops.starts_with("-")) return added + " - " + loops.substr(1);
  return added.starts_with("-") ? loops + " - " + added.substr(1) : added + " + " + loops;
}

std::string NestLoops::Index::factor() const {
  const std::string text = sum();
  return text.find_first_of(" -") == std::string::npos ? text : "(" + text + ")";
}

/// Without the division of maps that lead to every n-th index only.
NestLoops::Index NestLoops::mapped_index(const Address::Mapped& mapped, size_t pass) const {
  const IndexMap& map = mapped.map;
  Index index;
  const auto add = [&](const std::string& text, bool minus) {
    if (index.added.empty()) index.added = (minus ? "-" : "") + text;
    else index.added += (minus ? " - " : " + ") + text;
  };
  // What both begin with need not be said.
  const Graph& graph = context_.program.sharded.graph;
  const bool same_part = mapped.nest_dim >= 0 && map.step == 1 && map.every == 1 &&
                         mapped.iterated.placement.axes == mapped.held.placement.axes &&
                         graph.dim(mapped.iterated.dim).size == graph.dim(mapped.held.dim).size;
  if (mapped.nest_dim >= 0) {
    index.depth = depth_of(map.along, pass);
    const int64_t step = std::abs(map.step);
    const std::string times = step == 1 ? "" : std::to_string(step) + " * ";
    index.loops = (map.step < 0 ? "-" : "") + times + around(pass)[index.depth - 1]->index;
    if (!mapped.iterated.placement.axes.empty() && !same_part)
      add(times + context_.names.begin(mapped.iterated), map.step < 0);
  }
  const int64_t constant = map.begin + map.every * mapped.held.placement.margin.before;
  if (constant != 0) add(std::to_string(std::abs(constant)), constant < 0);
  if (!mapped.held.placement.axes.empty() && !same_part) {
    const std::string begin = context_.names.begin(without_margin(mapped.held));
    add(map.every == 1 ? begin : std::to_string(map.every) + " * " + begin, true);
    // Parts of two dims over the same ranks: how far they lie apart is a number of the rank, with a name of its own.
    if (mapped.nest_dim >= 0 && map.step == 1 && map.every == 1 &&
        mapped.iterated.placement.axes == mapped.held.placement.axes)
      index.added = distance_name(mapped, index.added);
  }
  return index;
}

/// "token_in_patch": from where the rank's part of the held dim begins to where that of the iterated one does.
std::string NestLoops::distance_name(const Address::Mapped& mapped, const std::string& value) const {
  const Graph& graph = context_.program.sharded.graph;
  const std::string name = identifier(graph.dim(mapped.iterated.dim).name + "_in_" + graph.dim(mapped.held.dim).name);
  return context_.constant("int64_t", name, value);
}

/// From index 0 of the iterated part to where it begins in the held one; empty where they begin together.
std::string NestLoops::shift_text(const Address::Shift& shift) const {
  const DimPlacement &iterated = shift.iterated.placement, &held = shift.held.placement;
  const int64_t before = held.margin.before;
  if (iterated.axes == held.axes) return before == 0 ? "" : std::to_string(before);
  std::string text = context_.names.begin(shift.iterated);
  if (before > 0) text = std::to_string(before) + " + " + text;
  if (!held.axes.empty()) text += " - " + context_.names.begin(without_margin(shift.held));
  return held.axes.empty() && before == 0 ? text : "(" + text + ")";
}

std::string NestLoops::condition(const Access& access, size_t pass) const {
  std::string all;
  const auto require = [&](const std::string& text) { all += (all.empty() ? "" : " && ") + text; };
  for (const Address::Mapped& mapped : address_of(context_.program, access, dims_of_pass(nest_, pass)).mapped) {
    if (!mapped.map.outside || always_inside(context_.program, mapped)) continue;
    const Index index = mapped_index(mapped, pass);
    const std::string at = index.sum(), extent = context_.names.extent(mapped.held);
    int64_t least = 0;
    bool too_far = false;
    for (int64_t rank = 0; rank < context_.mesh().ranks(); ++rank) {
      const int64_t last = mapped.nest_dim < 0 ? 0 : local_extent(context_.program, mapped.iterated, rank) - 1;
      const Reach reach = reach_of(context_.program, mapped, rank);
      if (last < 0) continue;
      const int64_t end = reach.first + reach.step * last;
      least = std::min({least, reach.first, end});
      too_far = too_far || std::max(reach.first, end) >= reach.every * reach.extent;
    }
    const bool subtracts =
        mapped.map.step == 1 && index.added.starts_with("-") && index.added.find(' ') == std::string::npos;
    if (least < 0 && subtracts && !index.loops.empty()) require(index.loops + " >= " + index.added.substr(1));
    else if (least < 0) require(at + " >= 0");
    if (mapped.map.every != 1) require(fmt::format("{} % {} == 0", index.factor(), mapped.map.every));
    if (too_far)
      require(at + " < " + (mapped.map.every == 1 ? extent : fmt::format("{} * {}", mapped.map.every, extent)));
  }
  return all;
}

std::vector<NestLoops::DimIndex> NestLoops::indices(const Access& access, size_t pass) const {
  const Buffer& buffer = context_.program.buffer(access.buffer);
  const Address address = address_of(context_.program, access, dims_of_pass(nest_, pass));
  const auto extent = [&](size_t position) { return context_.names.extent(buffer.dims[position]); };
  const auto turn = [&](size_t position, const TurnIndex& of) {
    return DimIndex{slot(context_, access, {position, of}), extent(position), {}};
  };
  std::vector<DimIndex> indices;
  if (context_.names.stack_depth(access.buffer) == 0 && !context_.names.is_argument(access.buffer))  // else of a turn
    for (size_t k = 0; k < access.turns.size(); ++k) indices.push_back(turn(k, access.turns[k]));
  for (size_t position = access.turns.size(); position < buffer.dims.size(); ++position) {
    const auto mapped = std::ranges::find(address.mapped, position, [](const auto& m) { return m.map.position; });
    if (const IndexMap* map = map_at(access, position); map && map->turn) {
      indices.push_back(turn(position, map->turn));
    } else if (mapped != address.mapped.end()) {
      Index index = mapped_index(*mapped, pass);
      if (mapped->map.every != 1) index = {fmt::format("{} / {}", index.factor(), mapped->map.every), "", index.depth};
      indices.push_back({index.factor(), extent(position), index});
    } else {
      indices.push_back(walked_index(access, address, position, pass));
    }
  }
  return indices;
}

/// Of the dim at `position` and those behind it that the same loop walks, the last of which `position` is then.
NestLoops::DimIndex NestLoops::walked_index(const Access& access, const Address& address, size_t& position,
                                            size_t pass) const {
  const Buffer& buffer = context_.program.buffer(access.buffer);
  const size_t depth = depth_of(buffer.dims[position].dim, pass), first = position;
  const NestLoop& loop = *around(pass)[depth - 1];
  DimIndex walked{loop.index, context_.names.extent(buffer.dims[position]), {loop.index, "", depth}};
  bool same_part = true;
  for (const Address::Shift& shift : address.shifts) {
    if (address.positions[static_cast<size_t>(shift.nest_dim)] != static_cast<int>(position)) continue;
    walked.index.added = shift_text(shift);
    same_part = false;
  }
  if (!walked.index.added.empty()) walked.text = fmt::format("({} + {})", walked.index.added, loop.index);
  for (; position + 1 < buffer.dims.size() && map_at(access, position + 1) == nullptr &&
         depth_of(buffer.dims[position + 1].dim, pass) == depth;
       ++position)
    walked.extent += " * " + context_.names.extent(buffer.dims[position + 1]);
  if (same_part && position + 1 - first == loop.dims.size()) walked.extent = loop.extent;
  return walked;
}

std::string NestLoops::sum_of(const std::vector<DimIndex>& indices, const std::string& scale) {
  std::vector<std::pair<std::string, std::string>> with_extents;
  with_extents.reserve(indices.size());
  for (const DimIndex& one : indices) with_extents.emplace_back(one.text, one.extent);
  return horner(with_extents, scale);
}

NestLoops::Element NestLoops::element(const Access& access, size_t pass) const {
  const std::vector<const NestLoop*> loops = around(pass);
  if (!context_.outlined_rows.empty() && !context_.program.buffer(access.buffer).dims.empty()) {
    const auto row = context_.outlined_rows.find(storage(context_.program, access.buffer));
    const std::string distance = row == context_.outlined_rows.end() ? context_.outlined_extents[1] : row->second;
    return {context_.names.buffer(access.buffer), loops[0]->index + " * " + distance, 1, loops[1]->index, 2};
  }
  std::vector<DimIndex> indices = this->indices(access, pass);
  const auto depth = [](const std::vector<DimIndex>& of) {
    size_t deepest = 0;
    for (const DimIndex& one : of) deepest = std::max(deepest, one.index.depth);
    return deepest;
  };
  Element result;
  result.base = context_.names.stack_depth(access.buffer) > 0 ? mesh::address(context_, access)
                                                              : context_.names.buffer(access.buffer);
  result.depth = depth(indices);
  const size_t innermost = loops.size();
  const auto is_innermost = [&](const DimIndex& one) { return one.index.depth == innermost; };
  const bool reaches = innermost > 0 && result.depth == innermost;
  // Row by row, where the innermost loop walks the last dim alone, upwards.
  if (reaches && is_innermost(indices.back()) && std::ranges::count_if(indices, is_innermost) == 1 &&
      !indices.back().index.loops.starts_with("-")) {
    const DimIndex last = indices.back();
    indices.pop_back();
    result.index = last.index.loops;
    result.row = sum_of(indices, last.extent);
    if (last.index.added.starts_with("-") && !result.row.empty()) result.row += " - " + last.index.added.substr(1);
    else if (!last.index.added.empty()) result.row += (result.row.empty() ? "" : " + ") + last.index.added;
    result.row_depth = depth(indices);
  } else if (reaches) {
    result.index = sum_of(indices);
  } else {
    result.row = sum_of(indices);
    result.row_depth = result.depth;
  }
  return result;
}

int NestLoops::uses(const std::string& row) const {
  const auto found = row_uses_.find(row);
  return found == row_uses_.end() ? 0 : found->second;
}

bool NestLoops::share_bytes(BufferId one, BufferId other) const {
  if (storage(context_.program, one) == storage(context_.program, other)) return true;
  if (context_.names.is_number(one) || context_.names.is_number(other)) return false;
  const auto bytes = [&](BufferId of) {
    const Buffer& buffer = context_.program.buffer(storage(context_.program, of));
    return std::tuple(buffer.space, buffer.offset,
                      buffer.offset + buffer.elements * static_cast<int64_t>(meshrt::size_of(buffer.type)));
  };
  const auto [space, begin, end] = bytes(one);
  const auto [other_space, other_begin, other_end] = bytes(other);
  return space == other_space && begin < other_end && other_begin < end;
}

bool NestLoops::writes(BufferId id) const {
  for (const Pass& pass : nest_.passes) {
    for (const Pass::Store& store : pass.stores)
      if (share_bytes(id, store.to.buffer)) return true;
    for (const Pass::Accumulate& accumulate : pass.accumulates)
      if (share_bytes(id, accumulate.to.buffer)) return true;
  }
  return false;
}

}  // namespace mesh
