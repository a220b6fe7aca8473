// interpreted_program.h: one rank of a Program that is executed without C++ in between, as a meshrt::Program like an
// emitted one.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "codegen/program/program.h"
#include "meshrt/program.h"

namespace mesh {

/// The Program is shared by all ranks, not changed, and outlives this.
class InterpretedProgram final : public meshrt::Program {
 public:
  explicit InterpretedProgram(const mesh::Program&, const SourceMap* sources = nullptr);
  ~InterpretedProgram() override;

  const meshrt::ProgramInfo& info() const override { return info_; }
  void bind(meshrt::Rank&) override;
  std::span<meshrt::Tensor> tensors() override { return tensors_; }
  void run(size_t entry, const meshrt::StepInput&, std::span<double> results) override;
  void carried(size_t entry, std::vector<meshrt::Carried>& all) override;
  void finish(size_t entry, std::span<double> results) override;

  /// What EntryPoint::wanted of the step holds after it, dims in the order of memory; Tensor::name is the wanted name.
  std::span<const meshrt::Tensor> wanted() const { return wanted_; }

 private:
  struct Bound;
  void execute(uint32_t routine);
  void read_results(const EntryPoint&, std::span<double> results) const;
  meshrt::Tensor tensor(BufferId, std::string name, meshrt::Role) const;

  const mesh::Program& program_;
  const SourceMap* sources_;
  meshrt::ProgramInfo info_;
  std::vector<meshrt::Tensor> tensors_, wanted_;
  std::unique_ptr<Bound> bound_;
};

}  // namespace mesh
