#include "codegen/elaborate/changes.h"

#include <algorithm>

#include "codegen/elaborate/terms.h"

namespace mesh::elaboration {
namespace {

bool is_rename(const Change& change) {
  return change.from.size() == 1 && change.to.size() == 1 && !change.part && change.distance == 0;
}

std::vector<DimId> taken_by(const std::vector<Change>& changes) {
  std::vector<DimId> dims;
  for (const Change& change : changes) dims.insert(dims.end(), change.from.begin(), change.from.end());
  return dims;
}

/// Whether the change can be made to `value`, from which others take dims `away` at once; reports why not.
bool applies(Elaboration& e, ValueId value, const Change& change, const std::vector<DimId>& away, Span value_span) {
  const std::vector<DimId> dims = e.type(value).dims;
  const auto lacking = missing_from(dims, change.from);
  if (!lacking.empty()) {
    e.error("E0304", change.span, "the value has no dim {}", quoted(e, lacking))
        .label(value_span, to_string(e.graph, e.type(value)));
    return false;
  }
  for (DimId dim : change.to) {
    const bool repeated = std::count(change.to.begin(), change.to.end(), dim) > 1;
    if (repeated || (contains(dims, dim) && !contains(away, dim) && !contains(change.from, dim))) {
      e.error("E0312", change.span, "the value would have dim `{}` twice", e.name(dim))
          .label(value_span, to_string(e.graph, e.type(value)));
      return false;
    }
  }
  return true;
}

const Edge& edge_of(const Elaboration& e, const Change& change) { return *e.graph.dim(change.from[0]).edge; }

/// Whether the number beyond the ends of a dim can stand among the value's.
bool edge_fits(Elaboration& e, ValueId value, const Change& change) {
  if (change.distance == 0 || edge_of(e, change).kind != Edge::Kind::value) return true;
  const ValueType type = e.type(value);
  const double number = edge_of(e, change).value;
  if (!literal_as(e, number, type, change.span)) return false;
  if (!type.index_of || (number >= 0 && number < static_cast<double>(e.size(type.index_of)))) return true;
  e.error("E0330", change.span, "{} lies beyond the ends of `{}`, and is no index of `{}`", number,
          e.name(change.from[0]), e.name(type.index_of))
      .label(e.graph.dim(change.from[0]).span, "its edge");
  return false;
}

/// Any change but a rename.
ValueId changed(Elaboration& e, ValueId value, const Change& change) {
  e.build.span = change.span;
  if (change.index) return e.build.value(TakeOp{change.from[0]}, {value, change.index});
  if (change.distance != 0) return e.build.neighbour(value, change.from[0], change.distance, edge_of(e, change));
  if (change.part) {
    if (change.from == change.to) return value;  // all of it
    const DimId to = change.to.empty() ? DimId{} : change.to[0];
    return e.build.value(SliceOp{change.from[0], to, change.part->begin, change.part->step}, {value});
  }
  if (change.from.size() == 1) return e.build.value(SplitOp{change.from[0], change.to}, {value});
  if (change.to.size() == 1) return e.build.value(MergeOp{change.from, change.to[0]}, {value});
  internal_error("a change of dims has several on both sides");
}

/// A mask whose dims are to be split or merged needs all of them first.
Term prepared(Elaboration& e, Term term, const std::vector<Change>& changes) {
  term.choice = nullptr;
  if (!term.is_masked()) return term;
  std::vector<DimId> add;
  for (const Change& change : changes)
    if (change.from.size() > 1)
      for (DimId dim : missing_from(e.type(term.keep).dims, change.from))
        if (contains(e.type(term.value).dims, dim)) add.push_back(dim);
  term.keep = e.build.broadcast(term.keep, add);
  return term;
}

/// Makes the changes of one pair of brackets: all renames that nothing else holds up as one op, the others one by one,
/// each as soon as the dims that it gives are free.
class AtOnce {
 public:
  AtOnce(Elaboration& e, const Term& term, std::vector<Change> changes, Span value_span)
      : e_(e), term_(prepared(e, term, changes)), changes_(std::move(changes)), value_span_(value_span) {}

  Term run() {
    while (!changes_.empty()) {
      const std::vector<Change> renames = free_renames();
      const auto next = std::find_if(changes_.begin(), changes_.end(), [&](const Change& change) {
        return is_rename(change) ? is_among(renames, change) : !is_blocked(change, changes_);
      });
      const uint32_t first = static_cast<uint32_t>(e_.graph.values.size());
      if (next == changes_.end()) {
        if (!step_aside())
          return not_built(e_, changes_.front().span, "merging dims into each other's names",
                           "merge them in brackets of their own, one after the other");
      } else if (is_rename(*next)) {
        if (!rename(renames)) return Term::poison();
        std::erase_if(changes_, [&](const Change& change) { return is_among(renames, change); });
      } else {
        const Change change = *next;
        changes_.erase(next);
        if (!make(change)) return Term::poison();
      }
      // The spec has the value before and after all changes, none between.
      for (uint32_t i = first; i < e_.graph.values.size() && !changes_.empty(); ++i) e_.graph.values[i].passing = true;
    }
    return term_;
  }

 private:
  /// Whether it must wait: a dim that it gives is there, and one of the `others` will take that away.
  bool is_blocked(const Change& change, const std::vector<Change>& others) const {
    const std::vector<DimId> dims = e_.type(term_.value).dims, taken = taken_by(others);
    return std::any_of(change.to.begin(), change.to.end(), [&](DimId dim) {
      return contains(dims, dim) && !contains(change.from, dim) && contains(taken, dim);
    });
  }

  static bool is_among(const std::vector<Change>& changes, const Change& change) {
    return std::any_of(changes.begin(), changes.end(), [&](const Change& one) {
      return one.from == change.from && one.to == change.to && is_rename(change);
    });
  }

  /// The renames that wait for each other alone.
  std::vector<Change> free_renames() const {
    std::vector<Change> renames, others;
    for (const Change& change : changes_) {
      const bool first = std::none_of(renames.begin(), renames.end(), [&](const Change& one) {
        return one.from == change.from || one.to == change.to;  // a mistake, reported once these are made
      });
      (is_rename(change) && first ? renames : others).push_back(change);
    }
    for (bool all = false; !all;) {
      const auto waits = std::find_if(renames.begin(), renames.end(),
                                      [&](const Change& change) { return is_blocked(change, others); });
      all = waits == renames.end();
      if (all) break;
      others.push_back(*waits);
      renames.erase(waits);
    }
    return renames;
  }

  bool rename(const std::vector<Change>& renames) {
    const std::vector<DimId> from = taken_by(renames);
    std::vector<DimId> to, mask_from, mask_to;
    for (const Change& one : renames) {
      if (!applies(e_, term_.value, one, from, value_span_)) return false;
      to.push_back(one.to[0]);
      if (!term_.is_masked() || !contains(e_.type(term_.keep).dims, one.from[0])) continue;
      mask_from.push_back(one.from[0]);
      mask_to.push_back(one.to[0]);
    }
    e_.build.span = cover(renames.front().span, renames.back().span);
    term_.value = e_.build.rename(term_.value, from, to);
    if (term_.is_masked()) term_.keep = e_.build.rename(term_.keep, mask_from, mask_to);
    return true;
  }

  bool make(const Change& change) {
    if (!applies(e_, term_.value, change, {}, value_span_) || !edge_fits(e_, term_.value, change)) return false;
    term_.value = changed(e_, term_.value, change);
    if (!term_.is_masked() || !contains_all(e_.type(term_.keep).dims, change.from)) return true;
    // A number beyond the ends is there.
    const bool number = change.distance != 0 && edge_of(e_, change).kind == Edge::Kind::value;
    term_.keep = number ? e_.build.neighbour(term_.keep, change.from[0], change.distance, Edge{Edge::Kind::value, 1})
                        : changed(e_, term_.keep, change);
    return true;
  }

  /// Of changes that wait for each other, one starts from a dim of its own in the meantime.
  bool step_aside() {
    const auto one = std::find_if(changes_.begin(), changes_.end(), [](const Change& c) { return c.from.size() == 1; });
    if (one == changes_.end()) return false;
    const DimId from = one->from[0];
    std::string name = e_.name(from) + "_aside";
    while (std::ranges::count(e_.graph.dims, name, &Dim::name) > 0) name += "_";
    const DimId aside = e_.build.dim(name, e_.size(from), e_.graph.dim(from).span);
    e_.build.span = one->span;
    term_.value = e_.build.rename(term_.value, from, aside);
    if (term_.is_masked() && contains(e_.type(term_.keep).dims, from))
      term_.keep = e_.build.rename(term_.keep, from, aside);
    one->from = {aside};
    return true;
  }

  Elaboration& e_;
  Term term_;
  std::vector<Change> changes_;
  Span value_span_;
};

}  // namespace

Term with_changes(Elaboration& e, const Term& term, std::vector<Change> changes, Span value_span) {
  return AtOnce(e, term, std::move(changes), value_span).run();
}

}  // namespace mesh::elaboration
