// bootstrap.h: jobs whose ranks another launcher has started: how a rank learns its number, and how all of them learn
// where rank 0's coordinator listens.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/address.h"
#include "launch/token.h"

namespace meshrt {

/// Where the coordinator of a job is, and what one needs to join it.
struct Meeting {
  std::vector<Address> coordinator;
  Token token;
  int ranks = 0;  ///< of the whole job
};

class Bootstrap {
 public:
  virtual ~Bootstrap() = default;

  int rank() const { return rank_; }
  /// A name that is the same for all ranks of the job on one host, and different from other jobs there.
  virtual std::string job() = 0;

  /// Where rank 0 listens; 0: at a free port.
  virtual int port() const { return 0; }
  /// The token, where launchers give nothing to pass one on with; none: rank 0 draws one.
  virtual std::optional<Token> given_token() { return std::nullopt; }
  /// Rank 0 gives what it has (without `ranks`), all get it. Collective. Throws Failure (Cause::environment).
  virtual Meeting meet(const Meeting& mine) = 0;

 protected:
  explicit Bootstrap(int rank) : rank_(rank) {}

 private:
  int rank_;
};

/// The launcher that started this process, by its environment alone: PMIx, PMI-1 (Hydra), torchrun, Slurm; nullptr when
/// there is none, or when the job has one rank only. Throws Failure (Cause::environment) for one that makes no sense.
std::unique_ptr<Bootstrap> find_bootstrap();

// One each; nullptr when the environment is not theirs.
std::unique_ptr<Bootstrap> pmix_bootstrap();
std::unique_ptr<Bootstrap> pmi1_bootstrap();
std::unique_ptr<Bootstrap> torchrun_bootstrap();
std::unique_ptr<Bootstrap> slurm_bootstrap();

/// A whole number of the environment; none when it is not set. Throws Failure (Cause::environment) when it is no
/// number.
std::optional<int> number_from_environment(const char* name);

/// The first of a list as Slurm writes it: "n[03-05,9],x" -> "n03".
std::string first_host(const std::string& list);

/// A Meeting as one word, and back; `ranks` is not part of it.
std::string as_word(const Meeting& meeting);
Meeting from_word(const std::string& word);

}  // namespace meshrt
