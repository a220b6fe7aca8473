#include "codegen/graph/window.h"

#include <algorithm>

#include "meshrt/deal.h"

namespace mesh {
namespace {

using Indices = meshrt::IndexRange;

Indices part(int64_t size, int64_t parts, int64_t index) {
  return {meshrt::part_begin(size, {}, index, parts), meshrt::part_begin(size, {}, index + 1, parts)};
}

int64_t divided_up(int64_t a, int64_t b) { return a >= 0 ? (a + b - 1) / b : -(-a / b); }
int64_t divided_down(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

/// Of the wide dim what windows of these elements meet.
Indices met(const WindowShape& shape, Indices narrow) {
  return {shape.stride * narrow.begin - shape.before,
          shape.stride * (narrow.end - 1) - shape.before + shape.reach() + 1};
}

/// Of the narrow dim those whose windows meet these elements.
Indices meeting(const WindowShape& shape, Indices wide) {
  return {divided_up(wide.begin + shape.before - shape.reach(), shape.stride),
          divided_down(wide.end - 1 + shape.before, shape.stride) + 1};
}

}  // namespace

Margin WindowReach::margin(int64_t parts) const {
  Margin most;
  const int64_t size = of_wide ? shape.wide : shape.narrow, other = of_wide ? shape.narrow : shape.wide;
  for (int64_t i = 0; i < parts; ++i) {
    const Indices own = part(size, parts, i), made = part(other, parts, i);
    if (made.begin == made.end) continue;
    Indices needed = of_wide ? met(shape, made) : meeting(shape, made);
    needed = {std::max<int64_t>(needed.begin, 0), std::min(needed.end, size)};
    if (needed.begin >= needed.end) continue;
    most.before = std::max(most.before, own.begin - needed.begin);
    most.after = std::max(most.after, needed.end - own.end);
  }
  return most;
}

}  // namespace mesh
