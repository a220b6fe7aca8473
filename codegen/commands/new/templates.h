// templates.h: what `meshc new` writes; @name@, @Model@ and @text@ are filled in.
#pragma once

namespace mesh {

extern const char* const new_spec;
extern const char* const new_run_file;

}  // namespace mesh
