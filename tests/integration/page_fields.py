#!/usr/bin/python3
"""Compares a page of docs/ with real output.

    page_fields.py json PAGE SECTION [--unseen PATH]... FILE...
    page_fields.py metrics PAGE SECTION... -- FILE

json: SECTION of the page has tables of fields (field, type, unit, null, meaning). Above a table may
stand "Found in: `processes[]`": the objects that have these fields. Each object in the FILEs must
have the fields of its table and no others, of the stated type, and null only where the page states
when. Each table must be met, but for those below an --unseen PATH.

metrics: the tables of the SECTIONs have metric, type and labels, FILE is text for Prometheus. What
the sections have and the file lacks is a fault, and the other way round.

Prints a line for each fault.
"""
import json
import re
import sys

faults = []


def fault(text):
    if text not in faults:
        faults.append(text)


def section_of(page, title):
    """The lines of "## TITLE", without further headings of that level."""
    inside = False
    for line in open(page, encoding="utf-8"):
        if line.startswith("## "):
            inside = line[3:].strip() == title
        elif inside:
            yield line.rstrip("\n")


def cells_of(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


# ---- JSON ----

KINDS = {
    "text": lambda v: isinstance(v, str),
    "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "number": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool),
    "boolean": lambda v: isinstance(v, bool),
    "object": lambda v: isinstance(v, dict),
    "list": lambda v: isinstance(v, list),
    "map": lambda v: isinstance(v, dict),
}


def tables_of(page, title):
    """{"processes[]": {"pid": ("integer", "never"), …}, …}; the document itself is ""."""
    tables, places, met = {}, [""], False
    for line in section_of(page, title):
        if line.startswith("### "):
            places = [""]
        elif line.startswith("Found in:"):
            places = re.findall(r"`([^`]*)`", line)
            if "the report" in line:
                places.append("")
        elif line.startswith("| `"):
            if len(cells_of(line)) < 4:  # of values, not of fields
                continue
            name, kind, _, null = cells_of(line)[:4]
            met = True
            for place in places:
                table = tables.setdefault(place, {})
                if name.strip("`") in table:
                    fault(f"{place}: {name} stands there twice")
                table[name.strip("`")] = kind, null
    if not met:
        sys.exit(f"{page} has no table of fields in '{title}'")
    return tables


class Walk:
    def __init__(self, tables):
        self.tables = tables
        self.met = set()

    def check(self, path, kind, value):
        outer, _, inner = kind.partition(" of ")
        if outer not in KINDS:
            fault(f"{path}: there is no type '{kind}'")
        elif not KINDS[outer](value):
            fault(f"{path} is no {outer}: {value!r:.60}")
        elif outer == "list":
            for item in value:
                self.check(path + "[]", inner, item)
        elif outer == "map":
            for item in value.values():
                self.check(path + "{}", inner, item)
        elif outer == "object":
            self.check_object(path, value)

    def check_object(self, path, found):
        table = self.tables.get(path)
        if table is None:
            if not any(place.startswith(path) for place in self.tables):
                return  # the page describes it in words
            table = {}
        self.met.add(path)
        for name, value in found.items():
            here = f"{path}.{name}".lstrip(".")
            if name not in table:
                fault(f"{here} is not in the page")
                continue
            kind, null = table[name]
            if value is not None:
                self.check(here, kind, value)
            elif null in ("never", "absent"):
                fault(f"{here} is null, and the page states that it never is")
        for name, (_, null) in table.items():
            if name not in found and "absent" not in null:
                fault(f"{path}.{name} is in the page, and not in the output".lstrip("."))


def compare_json(page, title, unseen, files):
    walk = Walk(tables_of(page, title))
    for name in files:
        with open(name, encoding="utf-8") as f:
            document = json.load(f)
        if isinstance(document, list):
            walk.check("", "list of object", document)
        else:
            walk.check("", "object", document)
    for place in walk.tables:
        if place not in walk.met and not any(place.startswith(u) for u in unseen):
            fault(f"'{place}' is in the page, and no output had one")


# ---- metrics ----


def compare_metrics(page, titles, name):
    stated = {}
    for title in titles:
        for line in section_of(page, title):
            if line.startswith("| `"):
                metric, kind, labels = cells_of(line)[:3]
                stated[metric.strip("`")] = kind, set(re.findall(r"`([^`]*)`", labels))
    if not stated:
        sys.exit(f"{page} has no metrics in {titles}")
    found = {}
    for line in open(name, encoding="utf-8"):
        kind = re.match(r"# TYPE (\S+) (\S+)", line)
        sample = re.match(r"([a-z_0-9]+)(?:{(.*)})? ", line)
        if kind:
            found[kind[1]] = kind[2], set()
        elif sample:
            found[sample[1]][1].update(re.findall(r'(\w+)="', sample[2] or ""))
    for metric in sorted(found.keys() | stated.keys()):
        if found.get(metric) != stated.get(metric):
            fault(f"{metric}: the page has {stated.get(metric)}, the output {found.get(metric)}")


def main(mode, page, *words):
    if mode == "metrics":
        compare_metrics(page, words[: words.index("--")], words[-1])
    else:
        title, *words = words
        unseen, files = [], []
        while words:
            word = words.pop(0)
            if word == "--unseen":
                unseen.append(words.pop(0))
            else:
                files.append(word)
        compare_json(page, title, unseen, files)
    print(*faults, sep="\n", end="\n" if faults else "")
    sys.exit(bool(faults))


main(*sys.argv[1:])
