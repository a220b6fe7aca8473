// page.h: a plan as one page of HTML that needs nothing else: no network, no script.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "codegen/commands/session.h"

namespace mesh {

/// The same bytes for the same spec and options.
std::string plan_page(const Session&, const Compiled&);

namespace page {
/// style.css; written by codegen/embed.sh.
const std::vector<std::string_view>& styles();
}  // namespace page

}  // namespace mesh
