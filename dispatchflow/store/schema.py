"""Define the tables of records.sqlite, the database in which a store records stages and measurements."""

VERSION = 4

# The indexes have all columns that planning reads, so that planning never loads the wide rows of the tables.
# A key is the hash of an action (one step of the work) and of everything that decides its outputs.
# record: the newest success or failure of each key. `code` is the digest of the compiled code or the runtime.
# output: pairs of an object's digest and the key of a record that has this object (a file) as an output.
# latest: the newest key of each stage of a case, for `doit explain`.
# measurement: all measurements. If a key has several, `Resolver._profile` chooses one.
# block: the timings of benchmark processes, each recorded when the process ends.
# row: the rows of all Parquet files. A lost file is written again from these rows.
# said: "NAME" -> "IDENTITY" is the newest row with this name.
# said: "CASE PATH" -> "IDENTITY" is the row in PATH/CASE/. PATH is that of `build/`, relative to the store.
# If the folder also shows sites, the value is "IDENTITY sites KEY" with the key of the stage `sites`.
# remembered: name -> value, for facts that are expensive to find out.
SCHEMA = """
create table record (
  id integer primary key, key text not null, stage text not null, ok integer not null, reason text,
  code text, outputs text not null, facts text not null, ingredients text not null, cost_s real not null,
  run text not null, at real not null
);
create index record_key on record (key, ok, code, outputs);
create table output (digest text not null, key text not null, primary key (digest, key)) without rowid;
create table latest (name text, stage text, key text not null, primary key (name, stage)) without rowid;
create table measurement (
  id integer primary key, key text not null, status text not null, reason text, median_ns real, runtime text,
  machine text,
  conditions text not null, ingredients text not null, run text not null, at real not null
);
create index measurement_key on measurement (key, status, median_ns, runtime, machine);
create table block (
  measurement integer not null, number integer not null, ns real not null, dispatch_ns real, cost_s real not null,
  at real not null, primary key (measurement, number)
) without rowid;
create table row (identity text primary key, content text not null, part text);
create index row_part on row (part);
create table said (name text primary key, identity text not null) without rowid;
create table remembered (name text primary key, value text not null) without rowid;
"""

HELD = """\
select key, stage, at, outputs,
  coalesce(json_extract(ingredients, '$.flow'), json_extract(ingredients, '$.compile'),
    json_extract(ingredients, '$.module')),
  coalesce(json_extract(ingredients, '$.source'), json_extract(ingredients, '$.version'))
from record where outputs <> '{}'
"""
"""The query for all records that have outputs. Its columns are the fields of `retention.StoredRecord`."""
