// misbehave.h: ranks that do not make the same calls. Each kind must end in a Failure that names both, never in a hang.
#pragma once
#include <string>
#include <vector>

#include "meshrt/rank.h"

namespace meshrt::test {

/// A way to diverge, and what the message must say.
struct Misbehaviour {
  std::string name;
  std::vector<std::string> message;
  bool in_shared_memory = false;  ///< noticed there alone
};
const std::vector<Misbehaviour>& misbehaviours();

/// The last rank diverges after some good calls. Only returns when nobody noticed.
int misbehave(Rank& rank, const std::string& name);

}  // namespace meshrt::test
