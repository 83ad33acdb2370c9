"""Damages a database in ways that do not depend on its tables.

    damage.py DATABASE values     turns bits over in everything that is packed: what SQLite keeps as it is
    damage.py DATABASE page       overwrites the first page of the table that has most of that
    damage.py DATABASE log N      leaves N transactions, which change nothing, in SQLite's own log
"""

import os
import sqlite3
import sys

SMALLEST = 24  # bytes of a value that is packed: what is shorter may be a name or a sum


def find_blobs(db):
    """(bytes in all, table, column), the most first."""
    found = []
    tables = db.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
                        " AND sql NOT LIKE 'CREATE VIRTUAL%'").fetchall()
    for (table,) in tables:
        for _, column, *_ in db.execute(f"PRAGMA table_info({table})").fetchall():
            size = db.execute(f"SELECT sum(length({column})) FROM {table} WHERE typeof({column}) = 'blob'"
                              f" AND length({column}) >= ?", (SMALLEST,)).fetchone()[0]
            if size:
                found.append((size, table, column))
    return sorted(found, reverse=True)


def values(db):
    """In the file itself: SQLite's triggers would notice."""
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    packed = [row[0] for _, table, column in find_blobs(db) for row in db.execute(
        f"SELECT {column} FROM {table} WHERE typeof({column}) = 'blob' AND length({column}) >= ?", (SMALLEST,))]
    db.close()
    with open(sys.argv[1], "r+b") as f:
        content = f.read()
        for value in packed:
            at = content.find(value)  # -1: it is on several pages
            if at >= 0:
                half = len(value) // 2
                f.seek(at + half)
                f.write(bytes(255 - byte for byte in value[half:]))


def page(db):
    table = find_blobs(db)[0][1]
    number = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).fetchone()[0]
    size = db.execute("PRAGMA page_size").fetchone()[0]
    db.close()
    with open(sys.argv[1], "r+b") as f:
        f.seek((number - 1) * size)
        f.write(os.urandom(size))


def log(db):
    version = db.execute("PRAGMA user_version").fetchone()[0]
    for _ in range(int(sys.argv[3])):
        db.execute(f"PRAGMA user_version = {version}")
    os._exit(0)  # a connection that is closed would take the log with it


database = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=60)
{"values": values, "page": page, "log": log}[sys.argv[2]](database)
