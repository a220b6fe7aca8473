// emitted_cases.h: the emitted programs of cases.h by name; written by write_cases.
#pragma once
#include <map>
#include <string>

#include "meshrt/program.h"

const std::map<std::string, meshrt::MakeProgram>& emitted_cases();
