// compare.h: two programs of one model, say under a layout and on one rank, run on the same random inputs and
// parameters: every wanted value, every parameter and moment after a step and every metric, of training and of
// evaluation, must agree.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "codegen/interpret/interpret.h"

namespace mesh {

/// Arrays that every input of the program accepts: normal numbers times `scale`, indices below their dim's size, any
/// byte, any bool.
std::map<std::string, meshrt::Array> random_feeds(const Program&, uint64_t seed, double scale = 1);
/// Values for the parameters and states that begin as one constant, so that no fault hides behind zeros and ones.
std::map<std::string, meshrt::Array> random_constants(const Program&, uint64_t seed);

struct ComparedValue {
  std::string name;
  Type type;
  std::vector<int64_t> shape;
  double difference = 0;      // the largest |a - b|; infinite where one is NaN and the other is not
  double largest = 0;         // the largest finite |b| of the reference
  bool nan = false;           // one of them has a NaN, beside which nothing can be compared
  bool equal = false;         // no NaN, and the difference is within the bound
  bool as_wider = false;      // or it is no more than the numbers' own few bits change
  bool by_gradients = false;  // or it is what the reference gives that steps by the program's (by_gradients.h)
};

struct Comparison {
  int exit_code = 0;  // of the run that failed, if one did; then there are no values
  std::vector<ComparedValue> values;
  std::string differing_copies;  // of the program, see InterpretResult
  double copies_difference = 0;
  std::vector<std::vector<std::byte>> memory;  // of the program, see InterpretResult
  std::string wider;                           // the precision beside which some are as_wider
  bool equal() const;
};

/// Two orders of a sum differ by less than bf16 or f16 can say, and yet may be rounded to two neighbours, so far apart
/// by the number itself: an operand of a product is then off by as much, and what follows is rounded again.
inline constexpr double bf16_place = 0x1p-8, f16_place = 0x1p-11;
/// So many such steps are allowed. Where ranks add up parts in the type, what a part is rounded by may be much beside a
/// sum in which parts cancel.
inline constexpr double places_of_orders = 4, places_of_parts = 16;
/// By the types that the program rounds to; 0 where there is none.
double bound_of_narrow(const Program&);

struct CompareOptions {
  uint64_t seed = 1;
  int64_t steps = 1;
  double bound = 0;  // see compare_arrays; 0: `bound_of_narrow`
  double scale = 1;  // of real inputs
  bool any_precision =
      false;  // the reference may keep in f32 what the other has in fewer bits, and no scale of the loss
  // A program that one rank runs in place of the compared one.
  const Program* other = nullptr;
  std::optional<int64_t> other_rank = {};
  bool keeps_memory = false;
};
/// Where roundings add up over many layers, or a small number is divided by another, two orders of a sum lie farther
/// apart than that, as numbers of these bits then do from wider ones. So what differs counts as equal where the
/// reference differs from itself, compiled in the `wider` precision, by half as much or more: two independent roundings
/// do not often differ by more than twice what each does.
void allow_as_wider(Comparison&, const Comparison& reference_in_wider, const std::string& wider);

/// Of numbers of a type. 0: 1e-9 for f64, 1e-5 for others.
double bound_of(Type, double bound);
/// Differences may be `bound` times the largest number of the reference. Integers and bools must be equal.
ComparedValue compare_arrays(const std::string& name, const meshrt::Array& given, const meshrt::Array& reference,
                             double bound, bool any_precision = false);
/// What the last step of a program and of its reference gave and left. Gradients in f64 may differ by some roundings of
/// the largest of them.
std::vector<ComparedValue> compare_results(const Program&, const InterpretResult& given,
                                           const InterpretResult& expected, double bound, bool any_precision = false);

/// Batches of evaluation behind the steps.
inline constexpr int64_t evaluated_batches = 2;
/// The job that a comparison runs, but for its evaluation: all begins alike for every program of the model.
InterpretRequest compared_job(const Program&, const CompareOptions&);
double bound_of(const Program&, const CompareOptions&);

Comparison compare_programs(const Program&, const Program& reference, const CompareOptions& = {});

}  // namespace mesh
