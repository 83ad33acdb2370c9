#!/usr/bin/python3
"""What pages of docs/ show to type.

    page_blocks.py blocks PAGE FOLDER      writes the blocks that are marked to be run
    page_blocks.py commands PAGE...        prints the command lines of proctor in code, a line each
    page_blocks.py links PAGE...           prints links of the pages that lead nowhere

A block is marked by "sh run" behind its fence. Behind that may stand status=N, its exit status
where that is not 0, and needs=PROGRAM. Blocks become FOLDER/SECTION/NN.sh, whose first line is a
comment with status and program.
"""
import os
import re
import sys


def blocks_of(page):
    """(heading, what stands behind the fence, lines) of each fenced block."""
    heading, info, lines = "", None, []
    for line in open(page, encoding="utf-8"):
        line = line.rstrip("\n")
        if info is not None and line.strip() == "```":
            yield heading, info, lines
            info = None
        elif info is not None:
            lines.append(line)
        elif line.startswith("```"):
            info, lines = line[3:].strip(), []
        elif line.startswith("#"):
            heading = line.lstrip("# ")


def anchor(heading):
    text = re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower())
    return text.strip().replace(" ", "-")


def write_blocks(page, folder):
    count = 0
    for heading, info, lines in blocks_of(page):
        words = info.split()
        if words[:2] != ["sh", "run"]:
            continue
        marks = dict(word.split("=", 1) for word in words[2:])
        count += 1
        section = os.path.join(folder, anchor(heading))
        os.makedirs(section, exist_ok=True)
        with open(os.path.join(section, f"{count:02}.sh"), "w", encoding="utf-8") as f:
            print(f"# {marks.pop('status', 0)} {marks.pop('needs', '')}", *lines, sep="\n", file=f)
        if marks:
            sys.exit(f"{page}: a block has marks that mean nothing: {info}")


def print_commands(pages):
    """Text behind "proctor", up to what ends a command. Inline code counts where it has a verb."""
    for page in pages:
        text = open(page, encoding="utf-8").read()
        fenced = "\n".join(line for _, _, lines in blocks_of(page) for line in lines)
        inline = "\n".join(re.findall(r"(?<!`)`([^`\n]+)`(?!`)", re.sub(r"(?s)```.*?```", "", text)))
        for line in re.sub(r"\\\n\s*", " ", fenced + "\n" + inline).split("\n"):
            for command in re.findall(r"(?:^|[$(;&|] *|\b[A-Z_]+=\S+ )proctor ([a-z][^|;&)]*)", line):
                command = re.split(r" -- | {2,}|`|#", command + " ")[0]
                print(f"{os.path.basename(page)}: {command.strip()}")


def print_dead_links(pages):
    for page in pages:
        text = re.sub(r"(?s)```.*?```", "", open(page, encoding="utf-8").read())
        for link in re.findall(r"\]\(([^)\s]+)\)", text):
            target, _, part = link.partition("#")
            path = os.path.join(os.path.dirname(page), target) if target else page
            if link.startswith("http"):
                continue
            if not os.path.exists(path):
                print(f"{page}: {link}: there is no such file")
            elif part and part not in [
                anchor(line.lstrip("# ")) for line in open(path, encoding="utf-8") if re.match("#+ ", line)
            ]:
                print(f"{page}: {link}: there is no such heading")


mode, *words = sys.argv[1:]
if mode == "blocks":
    write_blocks(*words)
elif mode == "commands":
    print_commands(words)
else:
    print_dead_links(words)
