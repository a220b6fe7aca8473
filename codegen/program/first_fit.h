// first_fit.h: where buffers lie in a space: each at the lowest place that is free while it lives.
#pragma once
#include <cstdint>
#include <vector>

#include "codegen/program/lifetimes.h"

namespace mesh {

class FirstFit {
 public:
  /// The lowest offset behind which so many bytes are free during this life; they are taken then.
  int64_t place(const Lifetime&, int64_t bytes);

 private:
  struct Taken {
    int64_t begin, end;
    Lifetime life;
  };
  std::vector<Taken> taken_;  // by where they begin; neighbours that live alike are one
};

}  // namespace mesh
