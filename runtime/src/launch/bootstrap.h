// bootstrap.h: jobs whose ranks another launcher has started: how a rank learns its number, and how all of them learn
// where rank 0's coordinator listens.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/address.h"
#include "launch/secret.h"

namespace meshrt {

/// Where the coordinator of a job is, and what one needs to join it.
struct Meeting {
  std::vector<Address> coordinator;
  Secret secret;
  int ranks = 0;  ///< of the whole job
};

class Bootstrap {
 public:
  virtual ~Bootstrap() = default;

  int rank() const { return rank_; }
  /// A name that is the same for all ranks of the job on one host, and different from other jobs there.
  virtual std::string job() = 0;

  /// Whether all ranks are on this host, as far as the launcher says.
  virtual bool one_host() const = 0;
  /// Where all expect rank 0 to listen; none: it tells them.
  virtual std::optional<Address> given_address() { return std::nullopt; }
  /// The secret, where launchers give nothing to pass one on with; none: rank 0 draws a token. Throws Failure.
  virtual std::optional<Secret> given_secret() { return std::nullopt; }
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
std::optional<int64_t> number_from_environment(const char* name);
/// Whether both are set, and to the same.
bool same_numbers(const char* one, const char* other);

/// The first of a list as Slurm writes it: "rack[1-2]n[03-05,9],x" -> "rack1n03".
std::string first_host(const std::string& list);

/// Under which the coordinator of a job of one host listens.
std::string door_name(const std::string& job);

/// A Meeting as one word, and back; `ranks` is not part of it.
std::string as_word(const Meeting& meeting);
Meeting from_word(const std::string& word);

}  // namespace meshrt
