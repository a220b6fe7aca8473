// memory_curve.h: how much of a rank's memory is in use at each step of a routine, as the memory plan has laid it out.
#pragma once
#include <map>
#include <vector>

#include "codegen/program/program.h"

namespace mesh {

struct MemoryCurve {
  struct Point {
    int64_t bytes = 0;
    std::map<BufferKind, int64_t> by_kind;
    Part part = Part::forward;
  };
  /// A loop around steps, which executes them so many times.
  struct Loop {
    DimId dim;
    int64_t turns;
    size_t first, last;
  };
  std::vector<Point> points;           // by step, numbered as in lifetimes.h
  std::vector<Loop> loops;             // outer ones first
  size_t peak = 0;                     // the first step at which most is in use
  std::vector<const Buffer*> at_peak;  // what is in use there, the largest first
};

/// Of the ranks on which most is in use.
MemoryCurve memory_curve(const Program&, uint32_t routine);

}  // namespace mesh
