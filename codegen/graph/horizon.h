// horizon.h: of which positions of a sequence a value is made: what the proof that a model can generate (generation/
// causal.h) finds out for every value. Positions are followed from the input along its dim, through other names of it,
// and through masks: where an element is masked out, the later positions that it would bring in are not in the result.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "codegen/graph/graph.h"

namespace mesh {

/// A sum of positions, each times a number, and a number: `position[seq] - 64`.
struct PositionSum {
  std::map<DimId, double> times;
  double plus = 0;
  bool operator==(const PositionSum&) const = default;
};

/// Where the index along `late` is at least `by` above that along `early`, an element is made of nothing that `late`
/// would bring in; with `number` it is that number.
struct Settled {
  DimId late, early;
  int64_t by;
  std::optional<double> number;
  bool operator==(const Settled&) const = default;
};

struct Horizon {
  /// By dim, of the value or of a loop around it: the element at index i is made of positions up to i + this, the
  /// largest over the dims.
  std::map<DimId, int64_t> upto = {};
  std::optional<int64_t> fixed = {};  // and of positions up to this one, whatever its index
  std::string everything = {};        // made of positions that no index bounds: why
  std::vector<Settled> settled = {};
  std::optional<PositionSum> position = {};  // what it is, where it is computed of positions and numbers alone

  bool operator==(const Horizon&) const = default;
  /// Made of anything of the sequence.
  bool depends() const { return !upto.empty() || fixed || !everything.empty(); }
  /// The number that it is in all elements.
  std::optional<double> number() const;
  /// No element is made of positions above its index.
  bool is_causal() const;
};

/// Made of all that these are made of, element by element; where all are settled, so is it.
Horizon joined(std::span<const Horizon>);
/// The same of a product: 0 times anything is 0.
Horizon multiplied(const Horizon&, const Horizon&);
/// Reduced over a dim; what is settled of it stays out. `why`: what to say where nothing keeps later positions out.
Horizon without_dim(Horizon, DimId, const std::string& why);
/// The elements `begin`, `begin` + `step`, .. along `from`, as `to`.
Horizon shifted(Horizon, DimId from, DimId to, int64_t begin, int64_t step = 1);
/// Other names for dims.
Horizon renamed(const Horizon&, const std::function<DimId(DimId)>& name);
/// Of an op that sees the dims from end to end.
Horizon along(const Graph&, std::span<const Horizon>, std::span<const DimId>, const char* what);

}  // namespace mesh
