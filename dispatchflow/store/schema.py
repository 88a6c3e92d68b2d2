"""The tables of the records.

record        one row for each key: a success, or a failure that would repeat itself; `code` is the code digest of a
              compile, and the runtime's digest of a verification
latest        the key that a stage of a case had when it last ran, for `explain`
measurement   append-only; blocks are recorded as they end; blocks of several measurements are never pooled
row           the rows of the Parquet parts: recorded here first, so that a part can be written again from here
said          the identity of each case's newest row under a protocol, and of what a view shows of it
"""

VERSION = 4

# These are covering indexes: planning reads records and measurements from them alone, and never loads the wide rows.
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
"""The columns of `retention.StoredRecord`, of the records that name objects."""
