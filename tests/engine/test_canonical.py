"""Each value has one canonical encoding in bytes, and no two values share an encoding."""

import struct
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from xxhash import xxh3_128_hexdigest

from dispatchflow import keys
from dispatchflow.keys import Form, canonical, digest_file, digest_of, key_of

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4).map(tuple) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


def strict(value):
    """Return a value together with its types, so that values such as 1 and True are not equal."""
    if isinstance(value, tuple):
        return ("tuple", tuple(map(strict, value)))
    if isinstance(value, Mapping):
        return ("mapping", tuple(sorted((name, strict(item)) for name, item in value.items())))
    return (type(value).__name__, value)


def decoded(content: bytes):
    """Decode `content`, and write each value as a pair (type, value).

    The encoding of `(1, True)` is decoded to `("tuple", (("int", 1), ("bool", True)))`."""
    value, rest = _next(content)
    assert rest == b""
    return value


def _next(content: bytes):
    head, _, rest = content.partition(b":")
    letter, length = head[:1], int(head[1:])
    body, rest = rest[:length], rest[length:]
    if letter in (b"t", b"m"):
        items = []
        while body:
            item, body = _next(body)
            items.append(item)
        if letter == b"t":
            return ("tuple", tuple(items)), rest
        return ("mapping", tuple((name[1], value) for name, value in zip(items[::2], items[1::2], strict=True))), rest
    plain = {
        b"n": lambda: ("NoneType", None),
        b"b": lambda: ("bool", body == b"1"),
        b"i": lambda: ("int", int(body)),
        b"s": lambda: ("str", body.decode()),
        b"y": lambda: ("bytes", body),
    }
    return plain[letter](), rest


@given(VALUES)
def test_canonical_bytes_are_read_back_as_the_value(value):
    assert decoded(canonical(value)) == strict(value)


@given(VALUES, VALUES)
def test_different_values_have_different_bytes(one, other):
    assert (canonical(one) == canonical(other)) == (strict(one) == strict(other))


def test_similar_values_have_different_bytes():
    alike = [
        *(1, True, "1", b"1", (1,), None, (), {}, "", b"", 0, False, "0", "None", (None,), ((),), -1, "-1"),
        *(("a", "b"), ("ab",), ("a", "", "b"), ("", "ab"), "ab", ("a", ("b",)), (("a",), "b"), "s1:a", ("s1:a",)),
        *({"a": "b"}, ("a", "b", ()), {"a": ("b",)}, {"ab": ""}, {"": "ab"}, {"a": None}, {"a": {"b": None}}),
        *(("i1:1",), "i1:1", "b1:1", b"b1:1"),
    ]
    assert [(one, other) for one, other in combinations(alike, 2) if canonical(one) == canonical(other)] == []


@given(st.dictionaries(st.text(max_size=5), VALUES, min_size=2, max_size=6), st.randoms())
def test_order_of_a_mapping_does_not_matter(mapping, random):
    items = list(mapping.items())
    random.shuffle(items)
    assert canonical(dict(items)) == canonical(mapping)


@pytest.mark.parametrize(
    "value", [1.0, float("nan"), {1}, frozenset(), Path("a"), 1j, object(), np.int64(1), np.float64(1), bytearray(b"a")]
)
@pytest.mark.parametrize("wrap", [lambda v: v, lambda v: (v,), lambda v: {"a": {"b": v}}])
def test_value_without_a_canonical_spelling_is_refused(value, wrap):
    with pytest.raises(TypeError, match=type(value).__name__):
        canonical(wrap(value))


def test_text_with_escaped_bytes_differs_from_the_text_of_those_bytes():
    assert canonical("é") != canonical("é".encode().decode("ascii", "surrogateescape"))


def test_kind_and_schema_enter_a_key(monkeypatch):
    before = key_of("compile", {"a": 1})
    assert key_of("verify", {"a": 1}) != before
    monkeypatch.setattr(keys, "SCHEMA", keys.SCHEMA + 1)
    assert key_of("compile", {"a": 1}) != before


def test_the_digest_of_a_file_is_the_digest_of_its_bytes(tmp_path):
    content = bytes(range(256)) * 9000
    (tmp_path / "file").write_bytes(content)
    assert digest_file(tmp_path / "file") == digest_of(content)
    assert digest_of(content) != digest_of(content[:-1])


@given(st.lists(st.text(max_size=12), max_size=40), st.text(max_size=5))
def test_the_key_of_a_form_is_the_key_of_its_ingredients(strings, rest):
    def ingredients(*strings):
        return {"a": strings, "b": {"%s": rest}, "c": 7}

    form = Form("kind", ingredients)
    for found in (strings, [text[::-1] for text in strings]):  # the second key reuses the template of the first
        assert form.key(*found) == key_of("kind", ingredients(*found))


@given(*[st.lists(st.text("ab%", max_size=3) | st.just("é"), max_size=12)] * 3)
@example(["b"], ["a", "bb"], ["ab", "ba"])
def test_a_form_completed_with_strings_gives_the_key_of_all_strings(first, middle, last):
    def ingredients(*strings):
        return {"a": strings, "b": {"%s": "x"}, "c": 7}

    whole = Form("kind", ingredients)
    form = whole.around(first, last)
    for found in (middle, [text[::-1] for text in middle]):
        assert form.key(*found) == key_of("kind", ingredients(*first, *found, *last))
        assert form.ingredients(*found) == ingredients(*first, *found, *last)
    assert whole.around(last, first).key(*middle) == key_of("kind", ingredients(*last, *middle, *first))


def test_contents_with_colliding_xxh3_digests_have_different_digests():
    # XXH3's secret is public, so anyone can write two contents with equal XXH3 digests.
    # A lane whose low half equals the secret's contributes nothing, whatever its high half is.
    secret = bytes.fromhex("b8fe6c3923a44bbe7c01812cf721ad1c")

    def content(first: int, second: int) -> bytes:
        made = bytearray(1024)
        for stripe, high in enumerate((first, second)):
            (low,) = struct.unpack_from("<I", secret, 8 * stripe)
            made[64 * stripe : 64 * stripe + 8] = struct.pack("<II", low, high)
        return bytes(made)

    one, two = content(0x3F800000, 0x40000000), content(0x40000000, 0x3F800000)
    assert one != two
    assert xxh3_128_hexdigest(one) == xxh3_128_hexdigest(two)
    assert digest_of(one) != digest_of(two)
