#include "meshrt/emitted.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <stdexcept>

#include "meshrt/failure.h"

namespace meshrt {

namespace {

/// The text up to `end`, taken off the front.
std::string_view take(std::string_view& text, char end) {
  const size_t at = std::min(text.find(end), text.size());
  const std::string_view front = text.substr(0, at);
  text.remove_prefix(std::min(at + 1, text.size()));
  return front;
}

}  // namespace

size_t TensorTable::axis_called(std::string_view name, const std::string& tensor) const {
  const auto axis = std::ranges::find(info_.mesh, name, &MeshAxis::name);
  if (axis == info_.mesh.end())
    throw Failure(Cause::environment,
                  "tensor " + tensor + " lies on an axis " + std::string(name) + " that the mesh lacks");
  return static_cast<size_t>(axis - info_.mesh.begin());
}

int TensorTable::coordinate(size_t axis) const { return rank_ / info_.mesh[axis].stride % info_.mesh[axis].size; }

const Tensor& TensorTable::add(Tensor tensor, std::string_view dims) {
  std::vector<bool> used(info_.mesh.size(), false);
  bool held = true;
  while (!dims.empty()) {
    std::string_view axes = take(dims, ' ');
    if (axes.find('=') != std::string_view::npos) {  // "pipe=1", "pipe=0,3"
      const size_t axis = axis_called(take(axes, '='), tensor.name);
      used[axis] = true;
      std::vector<int> at;
      while (!axes.empty()) at.push_back(std::stoi(std::string(take(axes, ','))));
      held = held && std::ranges::count(at, coordinate(axis)) > 0;
      tensor.primary = tensor.primary && coordinate(axis) == at.front();
      tensor.places.push_back({static_cast<int>(axis), std::move(at)});
      continue;
    }
    std::string_view split = take(axes, '@');  // "seq/ctx@zigzag:4"
    const std::string_view deal = axes;
    axes = split;
    LocalDim dim{std::string(take(axes, '/')), 0, 0, 0, {}, deal_of(deal)};
    const auto known = std::ranges::find(info_.dims, dim.name, &std::pair<std::string, int64_t>::first);
    if (known == info_.dims.end())
      throw Failure(Cause::environment, "tensor " + tensor.name + " has a dim " + dim.name + " that the program lacks");
    dim.size = known->second;
    int64_t part = 0, parts = 1;
    while (!axes.empty()) {
      const size_t axis = axis_called(take(axes, '*'), tensor.name);
      used[axis] = true;
      dim.axes.push_back(static_cast<int>(axis));
      part = part * info_.mesh[axis].size + coordinate(axis);
      parts *= info_.mesh[axis].size;
    }
    dim.begin = part_begin(dim.size, dim.deal, part, parts);
    dim.end = part_begin(dim.size, dim.deal, part + 1, parts);
    tensor.dims.push_back(std::move(dim));
  }
  for (size_t axis = 0; axis < info_.mesh.size(); ++axis)
    if (!used[axis] && coordinate(axis) != 0) tensor.primary = false;
  for (LocalDim& dim : tensor.dims)
    if (!held) dim.begin = dim.end = 0;
  return tensors_.emplace_back(std::move(tensor));
}

namespace {

/// "batch 16, seq 128"
template <class Number>
void add_pairs(std::vector<std::pair<std::string, Number>>& pairs, std::string_view text) {
  while (!text.empty()) {
    std::string_view one = take(text, ',');
    one.remove_prefix(std::min(one.find_first_not_of(' '), one.size()));
    const std::string name(take(one, ' '));
    Number number{};
    std::from_chars(one.data(), one.data() + one.size(), number);
    pairs.emplace_back(name, number);
  }
}

}  // namespace

void add_dims(ProgramInfo& info, std::string_view dims) { add_pairs(info.dims, dims); }
void add_settings(ProgramInfo& info, std::string_view settings) { add_pairs(info.settings, settings); }
void add_memory(ProgramInfo& info, std::string_view memory) {
  const size_t known = info.memory.size();
  add_pairs(info.memory, memory);
  for (size_t k = known; k < info.memory.size(); ++k) info.memory[k].second *= 1024;
}

void add_used(ProgramInfo& info, size_t index, std::string_view space, std::string_view ranges) {
  RankMemory& memory = info.used_memory[index];
  const auto bytes = [](std::string_view kib) { return 1024 * static_cast<size_t>(std::stoull(std::string(kib))); };
  while (!ranges.empty()) {
    std::string_view one = take(ranges, ' ');
    const size_t begin = bytes(take(one, '-'));
    (space == "arena" ? memory.arena : memory.own).push_back({begin, bytes(one)});
  }
}

}  // namespace meshrt
