// validator.h: the metrics of a program over an evaluation set.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/read_ahead.h"
#include "meshrt/run_file.h"

namespace meshrt {

class Program;  // meshrt/program.h
struct Carried;
struct StepInput;

/// What an evaluation reads.
struct EvaluationSet {
  std::string section;          ///< of the run file
  std::vector<Source> sources;  ///< by input
  Given<int64_t> steps;         ///< batches; not given: once through
};

/// `validation`, as a run that trains reads it.
EvaluationSet validation_set(const RunFile&);

class Validator {
 public:
  /// Throws Failure (Cause::data) with the line of the run file when the set has fewer batches than it asks for.
  Validator(Program& program, const RunFile& run, EvaluationSet set);

  /// Batches that are evaluated; the last one may not be whole.
  int64_t count() const { return whole_ + (rest_ > 0 ? 1 : 0); }
  /// Samples that are evaluated; of a program without a sample dim 0.
  int64_t samples() const { return batches_.samples() == 0 ? 0 : whole_ * batches_.batch_size() + rest_; }
  const Batches& batches() const { return batches_; }
  const std::string& section() const { return set_.section; }

  /// `input`: of the step after which it happens.
  void run(const StepInput& input, std::span<double> metrics);

 private:
  void add_rest(const StepInput& input);
  void add_samples(const StepInput& input, int64_t distinct, std::span<const Carried> carried);

  Program& program_;
  const size_t entry_;
  const EvaluationSet set_;
  Batches batches_;
  ReadAhead reader_;
  int64_t whole_ = 0;  // batches
  int64_t rest_ = 0;   // samples after them
};

}  // namespace meshrt
