"""The JSON Schema of run files: the run files of this tree fit it, keys that it does not know and values of other kinds do not. (That the reader reads every key
of it is a test of tests/driver.)"""
import glob
import json

import yaml

from common import TOP, Report, meshc, scratch
from common import run as execute

try:
    import jsonschema
except ImportError:
    jsonschema = None


def run_files(folder):
    """Every run file of the tree, and the one that `meshc new` writes."""
    execute(meshc(), "new", f"{folder}/fresh")
    files = sorted(glob.glob(f"{TOP}/specs/*.yaml") + glob.glob(f"{TOP}/specs/tour/*.yaml")) + [f"{folder}/fresh.yaml"]
    return [file for file in files if not file.endswith(".names.yaml")]


def places(schema, path=()):
    """(path, schema) of every map and every value below a schema; a `*` where names are free."""
    yield path, schema
    for key, value in schema.get("properties", {}).items():
        yield from places(value, path + (key,))
    if isinstance(schema.get("additionalProperties"), dict):
        yield from places(schema["additionalProperties"], path + ("anything",))


def holding(path, value):
    for key in reversed(path):
        value = {key: value}
    return value


def run(small):
    report = Report()
    schema = json.loads(execute(meshc(), "data", "schema").stdout)
    if jsonschema is None:
        report.true("python3-jsonschema is installed", False)
        return report
    jsonschema.Draft202012Validator.check_schema(schema)
    fits = jsonschema.Draft202012Validator(schema).is_valid
    with scratch() as folder:
        files = run_files(folder)
        for file in files:
            with open(file) as text:
                wrong = [error.message for error in jsonschema.Draft202012Validator(schema).iter_errors(yaml.safe_load(text))]
            report.true(f"{file.removeprefix(TOP + '/').removeprefix(folder + '/')} fits", not wrong, wrong)
        report.true("there are run files", len(files) >= 7, len(files))
    for share, good in (("0%", True), ("99.5%", True), ("100%", True), ("100.0%", True), ("100.5%", False), ("195%", False), (12, True), (-1, False)):
        for key in ("from", "to"):
            report.true(f"a file is read {key} {share}: {'fits' if good else 'does not fit'}", fits({"data": {"x": {"file": "x.npy", key: share}}}) == good)
    values = maps = 0
    for path, place in places(schema):
        if "properties" in place:
            maps += 1
            named = isinstance(place["additionalProperties"], dict)
            report.true(f"an unknown key of {'.'.join(path) or 'the file'}", not fits(holding(path + ("no_such_key",), 1)) or named)
            report.true(f"nothing in {'.'.join(path) or 'the file'}", fits(holding(path, None)))
        elif place.get("type") == "array":
            report.true(f"{'.'.join(path)} is a list", not fits(holding(path, "x")))
        else:
            values += 1
            report.true(f"{'.'.join(path)} is no map and no list", not fits(holding(path, {"x": 1})) and not fits(holding(path, [1])))
        report.true(f"{'.'.join(path) or 'the file'} is explained", not path or path[-1] == "anything" or len(place["description"]) > 3)
    report.true("every map and value was tried", values >= 40 and maps >= 9, f"{values} values, {maps} maps")
    return report
