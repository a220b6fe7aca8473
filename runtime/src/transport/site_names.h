// site_names.h: where call sites stand in the spec, for messages. A process runs one program at a time, so there is one
// table.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace meshrt {

/// "gpt.mesh:52" by Site::id; empty ones have no place.
void name_sites(std::vector<std::string> names);

/// "gpt.mesh:52", or "site 3" where nobody has said more.
std::string site_name(int32_t site);

}  // namespace meshrt
