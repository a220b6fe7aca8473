// merge_nests.cpp: whether two nests can be one, and that one. The merged nest runs, for each iteration of the common
// outer dims, the passes of the first and then those of the second; passes over the same dims join where nothing that
// one reduces is read by the other, and then hand values over as scalars.
#include <algorithm>

#include "codegen/program/extent.h"
#include "codegen/program/fuse.h"

namespace mesh {

namespace {

using LocalDims = std::vector<LocalDim>;

bool has(std::span<const LocalDim> dims, const LocalDim& dim) {
  return std::find(dims.begin(), dims.end(), dim) != dims.end();
}

/// How far a nest's dims can be outer dims: at least `least` of `order`, at most all of it.
struct Shape {
  size_t least;
  LocalDims order;
  bool free;  // one elementwise pass: its dims may be taken in any order
};

Shape shape_of(const Nest& nest) {
  Shape shape{nest.outer.size(), nest.outer, false};
  const bool accumulates =
      std::any_of(nest.passes.begin(), nest.passes.end(), [](const Pass& p) { return !p.accumulates.empty(); });
  if (nest.passes.size() > 1 || !nest.rows.empty()) return shape;
  const Pass& pass = nest.passes[0];
  shape.order.insert(shape.order.end(), pass.inner.begin(), pass.inner.end());
  if (!accumulates) {
    shape.least = 0;
    shape.free = nest.outer.empty();
  }
  return shape;
}

/// The dims of `of` in the order in which a pass of `like` runs over the same dims, if one does.
std::optional<LocalDims> reordered(const LocalDims& of, const Nest& like) {
  for (const Pass& pass : like.passes) {
    LocalDims dims = like.outer;
    dims.insert(dims.end(), pass.inner.begin(), pass.inner.end());
    if (dims.size() == of.size() &&
        std::all_of(dims.begin(), dims.end(), [&](const LocalDim& d) { return has(of, d); }))
      return dims;
  }
  return {};
}

/// What one pass does to one access.
struct Touch {
  Access access;
  uint32_t root;
  bool writes, accumulates;
};

std::vector<Touch> touches(const Program& program, const Pass& pass) {
  std::vector<Touch> result;
  const auto add = [&](const Access& access, bool writes, bool accumulates) {
    result.push_back({access, storage(program, access.buffer).index, writes, accumulates});
  };
  for (const Scalar& scalar : pass.scalars)
    if (const auto* load = std::get_if<Scalar::Load>(&scalar.what)) add(load->access, false, false);
  for (const Pass::Store& s : pass.stores) add(s.to, true, false);
  for (const Pass::Accumulate& a : pass.accumulates) add(a.to, true, true);
  return result;
}

std::vector<Touch> touches(const Program& program, const Nest& nest) {
  std::vector<Touch> result;
  for (const Pass& pass : nest.passes) {
    std::vector<Touch> of = touches(program, pass);
    result.insert(result.end(), of.begin(), of.end());
  }
  return result;
}

/// Whether all that both touch, and one writes, is touched at the same element by iterations of `dims` alone.
bool meet_only_at(const Program& program, const std::vector<Touch>& a, const std::vector<Touch>& b,
                  const LocalDims& dims) {
  for (const Touch& x : a)
    for (const Touch& y : b) {
      if (x.root != y.root || (!x.writes && !y.writes)) continue;
      if (x.accumulates || y.accumulates || x.access != y.access) return false;
      const auto held = dims_of(program, x.access);
      if (!std::all_of(dims.begin(), dims.end(), [&](const LocalDim& d) { return has(held, d); })) return false;
    }
  return true;
}

bool depends(const Program& program, const Pass& earlier, const Pass& later) {
  for (const Scalar& scalar : later.scalars)
    if (const auto* row = std::get_if<Scalar::Row>(&scalar.what))
      for (const Pass::Reduction& r : earlier.reductions)
        if (r.row == row->row) return true;
  for (const Touch& x : touches(program, earlier))
    for (const Touch& y : touches(program, later))
      if (x.root == y.root && (x.writes || y.writes)) return true;
  return false;
}

bool can_join(const Program& program, const Pass& into, const Pass& pass) {
  if (into.inner != pass.inner) return false;
  // The lanes of a reduction take several elements at a time, a running sum one after the other.
  if ((reads_own_stores(program, into) && !pass.reductions.empty()) ||
      (reads_own_stores(program, pass) && !into.reductions.empty()))
    return false;
  for (const Scalar& scalar : pass.scalars)
    if (const auto* row = std::get_if<Scalar::Row>(&scalar.what))
      for (const Pass::Reduction& r : into.reductions)
        if (r.row == row->row) return false;
  return meet_only_at(program, touches(program, into), touches(program, pass), into.inner);
}

bool same(const Scalar& a, const Scalar& b) {
  if (a.type != b.type || a.what.index() != b.what.index()) return false;
  struct Visit {
    const Scalar& b;
    bool operator()(const Scalar::Load& l) const { return std::get<Scalar::Load>(b.what).access == l.access; }
    bool operator()(const Scalar::Literal& l) const { return std::get<Scalar::Literal>(b.what).value == l.value; }
    bool operator()(const Scalar::Index& i) const { return std::get<Scalar::Index>(b.what).dim == i.dim; }
    bool operator()(const Scalar::Turn& t) const { return std::get<Scalar::Turn>(b.what).loop == t.loop; }
    bool operator()(const Scalar::StepNumber&) const { return true; }
    bool operator()(const Scalar::Rate& r) const { return std::get<Scalar::Rate>(b.what).rate == r.rate; }
    bool operator()(const Scalar::Random& r) const { return std::get<Scalar::Random>(b.what) == r; }
    bool operator()(const Scalar::Apply& f) const {
      const auto& other = std::get<Scalar::Apply>(b.what);
      return other.function == f.function && other.operands == f.operands;
    }
    bool operator()(const Scalar::Row& r) const { return std::get<Scalar::Row>(b.what).row == r.row; }
  };
  return std::visit(Visit{b}, a.what);
}

/// Appends what `pass` computes; reads of what `into` has just stored become the stored scalar.
void join(Pass& into, const Pass& pass) {
  std::vector<int> place;
  for (Scalar scalar : pass.scalars) {
    if (auto* apply = std::get_if<Scalar::Apply>(&scalar.what))
      for (int& operand : apply->operands) operand = place[static_cast<size_t>(operand)];
    int at = -1;
    if (const auto* load = std::get_if<Scalar::Load>(&scalar.what))
      for (const Pass::Store& store : into.stores)
        if (store.to == load->access) at = store.scalar;
    for (size_t i = 0; at < 0 && i < into.scalars.size(); ++i)
      if (same(into.scalars[i], scalar)) at = static_cast<int>(i);
    if (at < 0) {
      into.scalars.push_back(std::move(scalar));
      at = static_cast<int>(into.scalars.size() - 1);
    }
    place.push_back(at);
  }
  const auto placed = [&](auto item) {
    item.scalar = place[static_cast<size_t>(item.scalar)];
    return item;
  };
  for (const Pass::Store& store : pass.stores) {
    std::erase_if(into.stores, [&](const Pass::Store& old) { return old.to == store.to; });
    into.stores.push_back(placed(store));
  }
  for (const Pass::Reduction& r : pass.reductions) into.reductions.push_back(placed(r));
  for (const Pass::Accumulate& a : pass.accumulates) into.accumulates.push_back(placed(a));
}

/// Puts a pass behind the others, or into the last one that has its dims and that nothing it needs comes after.
void append(const Program& program, std::vector<Pass>& passes, Pass pass) {
  for (auto at = passes.rbegin(); at != passes.rend(); ++at) {
    if (can_join(program, *at, pass)) return join(*at, pass);
    if (depends(program, *at, pass)) break;
  }
  passes.push_back(std::move(pass));
}

/// What a pass without inner dims stores is read by later passes as a row value.
void read_rows(Nest& nest) {
  const auto row_of = [&](Pass& pass, int scalar) {
    const Scalar& what = pass.scalars[static_cast<size_t>(scalar)];
    if (const auto* row = std::get_if<Scalar::Row>(&what.what)) return row->row;
    for (const Pass::Reduction& r : pass.reductions)
      if (r.scalar == scalar && !r.arg) return r.row;
    nest.rows.push_back(what.type);
    pass.reductions.push_back({scalar, Reduce::sum, static_cast<int>(nest.rows.size() - 1)});
    return pass.reductions.back().row;
  };
  for (size_t p = 0; p < nest.passes.size(); ++p) {
    if (!nest.passes[p].inner.empty()) continue;
    for (size_t s = 0; s < nest.passes[p].stores.size(); ++s) {
      const Pass::Store store = nest.passes[p].stores[s];
      const Type type = nest.passes[p].scalars[static_cast<size_t>(store.scalar)].type;
      if (type != Type::f32 && type != Type::f64 && type != Type::i32) continue;
      for (size_t q = p + 1; q < nest.passes.size(); ++q) {
        for (Scalar& scalar : nest.passes[q].scalars)
          if (const auto* load = std::get_if<Scalar::Load>(&scalar.what); load && load->access == store.to)
            scalar.what = Scalar::Row{row_of(nest.passes[p], store.scalar)};
        const bool again = std::any_of(nest.passes[q].stores.begin(), nest.passes[q].stores.end(),
                                       [&](const Pass::Store& other) { return other.to == store.to; });
        if (again) break;
      }
    }
  }
}

bool is_once(const Pass& pass) { return pass.inner.empty(); }

}  // namespace

std::optional<Nest> merged(const Program& program, const Nest& first, const Nest& second) {
  Nest a = first, b = second;
  Shape shape_a = shape_of(a), shape_b = shape_of(b);
  if (shape_b.free) {
    if (const auto order = reordered(shape_b.order, a)) b.passes[0].inner = shape_b.order = *order;
  } else if (shape_a.free) {
    if (const auto order = reordered(shape_a.order, b)) a.passes[0].inner = shape_a.order = *order;
  }
  const size_t outer = std::max(shape_a.least, shape_b.least);
  if (outer > shape_a.order.size() || outer > shape_b.order.size() ||
      !std::equal(shape_a.order.begin(), shape_a.order.begin() + static_cast<std::ptrdiff_t>(outer),
                  shape_b.order.begin()))
    return {};

  Nest result;
  result.outer.assign(shape_a.order.begin(), shape_a.order.begin() + static_cast<std::ptrdiff_t>(outer));
  const auto with_inner = [&](const Nest& nest, Pass pass) {
    LocalDims dims = nest.outer;
    dims.insert(dims.end(), pass.inner.begin(), pass.inner.end());
    pass.inner.assign(dims.begin() + static_cast<std::ptrdiff_t>(outer), dims.end());
    return pass;
  };
  const std::vector<Touch> of_a = touches(program, a), of_b = touches(program, b);
  if (outer > 0) {
    if (!meet_only_at(program, of_a, of_b, result.outer)) return {};
  } else {  // passes one after the other: only what accumulates is prepared before the nest begins
    for (const Touch& x : of_a)
      for (const Touch& y : of_b)
        if (x.root == y.root && (x.accumulates || y.accumulates)) return {};
  }

  result.rows = a.rows;
  for (const Pass& pass : a.passes) result.passes.push_back(with_inner(a, pass));
  const size_t own = result.passes.size();
  const int shift = static_cast<int>(a.rows.size());
  result.rows.insert(result.rows.end(), b.rows.begin(), b.rows.end());
  for (Pass pass : b.passes) {
    pass = with_inner(b, std::move(pass));
    for (Scalar& scalar : pass.scalars)
      if (auto* row = std::get_if<Scalar::Row>(&scalar.what)) row->row += shift;
    for (Pass::Reduction& r : pass.reductions) r.row += shift;
    append(program, result.passes, std::move(pass));
  }
  // Without common outer dims only passes that joined, or single numbers, gain anything.
  const bool joined = result.passes.size() < own + b.passes.size();
  const bool numbers = std::all_of(b.passes.begin(), b.passes.end(), is_once);
  if (outer == 0 && !joined && !numbers) return {};
  read_rows(result);
  return result;
}

}  // namespace mesh
