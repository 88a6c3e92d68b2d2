import io
import zipfile

import pytest

from dispatchflow.iree.vmfb import inspect

ENTRIES = {"module.fb": b"host program", "main_dispatch_0_elf.so": b"code" * 9, "_const_0.bin": b"\0\1\2\3"}


def packed(entries: dict[str, bytes], year: int = 1980, method: int = zipfile.ZIP_STORED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, content in entries.items():
            archive.writestr(zipfile.ZipInfo(name, (year, 1, 1, 0, 0, 0)), content, method)
    return stream.getvalue()


BASE = inspect(packed(ENTRIES))


def test_whole_module_has_a_digest_and_no_problem():
    assert BASE.problem is None
    assert BASE.code_digest is not None
    assert BASE.code_bytes == 36


@pytest.mark.parametrize(
    "change",
    [
        {"_const_0.bin": b"\0\1\2\4"},
        {"_const_0.bin": b"\0\1\2"},
        {"module.fb": b"host  program"},
        {"main_dispatch_0_elf.so": b"code" * 8 + b"cod\0"},
        {"main_dispatch_1_elf.so": b"code"},
        {"empty": b""},
    ],
)
def test_any_byte_of_any_entry_moves_the_code_digest(change):
    assert inspect(packed(ENTRIES | change)).code_digest != BASE.code_digest


@pytest.mark.parametrize("name", ENTRIES)
def test_name_and_presence_of_an_entry_move_the_code_digest(name):
    without = {n: content for n, content in ENTRIES.items() if n != name}
    assert inspect(packed(without)).code_digest != BASE.code_digest
    assert inspect(packed({**without, name + "x": ENTRIES[name]})).code_digest != BASE.code_digest


def test_byte_that_moves_from_one_entry_to_the_next_moves_the_code_digest():
    one, other = ({"module.fb": b"h", "a": b"xy", "b": b"z"}, {"module.fb": b"h", "a": b"x", "b": b"yz"})
    assert inspect(packed(one)).code_digest != inspect(packed(other)).code_digest


def test_order_dates_and_packing_do_not_move_the_code_digest():
    assert inspect(packed(dict(reversed(ENTRIES.items())))) == BASE
    assert inspect(packed(ENTRIES, year=2024)) == BASE
    assert inspect(packed(ENTRIES, method=zipfile.ZIP_DEFLATED)) == BASE
    assert packed(ENTRIES, year=2024) != packed(ENTRIES)


def test_an_empty_executable_is_reported():
    found = inspect(packed(ENTRIES | {"main_dispatch_0_elf.so": b""}))
    assert found.problem == "executable main_dispatch_0_elf.so is empty"


def test_constants_are_no_executables():
    assert inspect(packed(ENTRIES | {"_const_1.bin": b""})).problem is None


def test_a_module_without_a_host_program_is_reported():
    assert inspect(packed({"main_dispatch_0_elf.so": b"code"})).problem == "the vmfb has no host program"


@pytest.mark.parametrize("content", [b"", b"no zip", b"PK\x03\x04", b"\0" * 1000])
def test_a_file_that_is_not_a_zip_is_reported(content):
    found = inspect(content)
    assert found.code_digest is None
    assert "cannot be opened" in found.problem


def test_every_truncated_module_is_reported():
    content = packed(ENTRIES)
    assert [length for length in range(len(content)) if inspect(content[:length]).problem is None] == []


def test_a_damaged_entry_is_reported():
    content = packed(ENTRIES).replace(b"codecode", b"codeCode", 1)
    assert "cannot be opened" in inspect(content).problem


def test_module_with_one_wrong_bit_in_its_headers_is_looked_at_without_an_exception():
    content = packed(ENTRIES)
    for place in range(len(content) - 200, len(content)):
        inspect(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
