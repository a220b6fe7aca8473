"""The table of run-file keys in runtime/USING.md, made of what `meshc data schema` prints."""
import json

from common import meshc
from common import run as execute

VALUES = {  # by the pattern of what may be written as text
    "^[0-9_.]+([eE][-+]?[0-9]+)?$": "a number above 0",
    "^[0-9_.]+ *([KMG]i?B|kB|B)?$": "bytes, or `5 GB`",
    "^(100([.]0{1,6})?|[0-9]{1,2}([.][0-9]{1,6})?)%$": "entries, or `95%`",
    "^([0-9]+-)?[0-9]+(:[0-9]{1,2}){0,2}$": "seconds, or `HH:MM:SS`",
    "^[0-9_]+([.][.][0-9_]+)?$": "`10`, or `10..12`",
}


def value(schema):
    """What a key takes, in a few words."""
    if "enum" in schema:
        return ", ".join(f"`{word}`" for word in schema["enum"])
    if "anyOf" in schema and schema["anyOf"][-1].get("type") == "array":
        return "text, or a list of texts"
    if "anyOf" in schema:
        return VALUES[next(one["pattern"] for one in schema["anyOf"] if "pattern" in one)]
    if schema["type"] == "boolean":
        return "`true`, `false`"
    if schema["type"] == "integer":
        return f"a whole number from {schema['minimum']}"
    if schema["type"] == "array":
        return "a list of names" if schema["items"]["type"] == "string" else "a list of maps"
    return "text"


def rows(schema, path, seen):
    """(key, value, meaning) of everything below; a map that stands in two places is shown in the first."""
    for key, below in schema.get("properties", {}).items():
        maps = "properties" in below
        yield path + [key], "" if maps else value(below), below["description"]
        yield from rows(below["items"] if below.get("type") == "array" else below, path + [key], seen)
    named = schema.get("additionalProperties")
    if isinstance(named, dict):
        place, text = path + ["NAME"], json.dumps(named)
        if text in seen:
            yield place, "", f"the keys of `{'.'.join(seen[text])}`"
        else:
            seen[text] = place
            yield from rows(named, place, seen)


def markdown():
    schema = json.loads(execute(meshc(), "data", "schema").stdout)
    lines = ["| key | value | meaning |", "|---|---|---|"]
    for path, takes, meaning in rows(schema, [], {}):
        lines.append(f"| `{'.'.join(path)}` | {takes} | {meaning} |")
    return "\n".join(lines) + "\n"
