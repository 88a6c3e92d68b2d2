import struct
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain, combinations, product
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from xxhash import xxh3_128_hexdigest

from dispatchflow import keys
from dispatchflow.cases.dispatch import Case, Dispatch
from dispatchflow.engine import actions
from dispatchflow.iree.release import NEWEST
from dispatchflow.iree.targets import Device
from dispatchflow.keys import Digest, Form, canonical, digest_file, digest_of, key_of
from dispatchflow.timing.protocols import PROTOCOLS
from dispatchflow.tunings import TUNINGS
from dispatchflow.tunings.default import Default

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4).map(tuple) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


def strict(value):
    """The value with its types, so that 1, True and 1.0 are not equal, as they are to Python."""
    if isinstance(value, tuple):
        return ("tuple", tuple(map(strict, value)))
    if isinstance(value, Mapping):
        return ("mapping", tuple(sorted((name, strict(item)) for name, item in value.items())))
    return (type(value).__name__, value)


def decoded(content: bytes):
    """The value of canonical bytes, read without a schema: what can be read back is told apart."""
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


def test_neighbours_have_different_bytes():
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
def test_what_has_no_one_spelling_is_refused(value, wrap):
    with pytest.raises(TypeError, match=type(value).__name__):
        canonical(wrap(value))


def test_text_with_escaped_bytes_differs_from_the_text_of_those_bytes():
    assert canonical("é") != canonical("é".encode().decode("ascii", "surrogateescape"))


def test_kind_and_schema_enter_a_key(monkeypatch):
    before = key_of("compile", {"a": 1})
    assert key_of("verify", {"a": 1}) != before
    monkeypatch.setattr(keys, "SCHEMA", keys.SCHEMA + 1)
    assert key_of("compile", {"a": 1}) != before


def test_digest_of_a_file_is_that_of_its_bytes(tmp_path):
    content = bytes(range(256)) * 9000
    (tmp_path / "file").write_bytes(content)
    assert digest_file(tmp_path / "file") == digest_of(content)
    assert digest_of(content) != digest_of(content[:-1])


DATA = {"exact": ("d1", "d2"), "random": ("d3", "d4"), "expected_exact": ("d5",)}
DEVICE = {"uri": "local-sync", "cpu": "c", "features": "f", "microcode": "1"}


@given(st.lists(st.text(max_size=12), max_size=40), st.text(max_size=5))
def test_form_gives_the_key_of_its_ingredients(strings, rest):
    def ingredients(*strings):
        return {"a": strings, "b": {"%s": rest}, "c": 7}

    form = Form("kind", ingredients)
    for found in (strings, [text[::-1] for text in strings]):  # the second time by the template of the first
        assert form.key(*found) == key_of("kind", ingredients(*found))


@given(*[st.lists(st.text("ab%", max_size=3) | st.just("é"), max_size=12)] * 3)
@example(["b"], ["a", "bb"], ["ab", "ba"])
def test_form_around_strings_gives_the_key_of_all_of_them(first, middle, last):
    def ingredients(*strings):
        return {"a": strings, "b": {"%s": "x"}, "c": 7}

    whole = Form("kind", ingredients)
    form = whole.around(first, last)
    for found in (middle, [text[::-1] for text in middle]):
        assert form.key(*found) == key_of("kind", ingredients(*first, *found, *last))
        assert form.ingredients(*found) == ingredients(*first, *found, *last)
    assert whole.around(last, first).key(*middle) == key_of("kind", ingredients(*last, *middle, *first))


CALL = dict(code="c", function="main", arguments=("4x6xf32", "6x5xf32"), device=DEVICE, threads=1)
CALLS = [
    dict(code="c2"),
    dict(function="other"),
    dict(arguments=("6x4xf32", "6x5xf32")),
    dict(arguments=("4x6xf32",)),
    *(dict(device={**DEVICE, name: "other"}) for name in DEVICE),
    dict(device={**DEVICE, "runtime": "r"}),
    dict(threads=2),
]


def verification(code, function, arguments, device, threads, data, tolerance):
    call = actions.Call(code, function, Device(device["uri"], threads, (0,), device))
    return actions.verification(call, actions.Data(data, arguments), tolerance)


def measurement(code, function, arguments, device, threads, data, protocol, sets):
    call = actions.Call(code, function, Device(device["uri"], threads, (0,), device))
    return actions.measurement(call, actions.Data(data, arguments), protocol, sets)


def compilation(module, **shared):
    return actions.compilation(module, actions.compilations(**shared))


BASES = {
    compilation: dict(module="m", flags=("-a", "-b"), toolchain="t", environment={"LC_ALL": "C"}, requested=None),
    verification: dict(CALL, data=DATA, tolerance=None),
    measurement: dict(CALL, data={"random": ("d3", "d4")}, protocol=PROTOCOLS["std"], sets=None),
}
CHANGES = {
    compilation: [
        dict(module="m2"),
        dict(requested="r"),
        *(dict(flags=flags) for flags in [("-b", "-a"), ("-a",), ("-a", "-b", ""), ("-a-b",), ("-a -b",)]),
        dict(toolchain="t2"),
        *(dict(environment=e) for e in [{}, {"LC_ALL": "D"}, {"LC_ALL": "C", "LD_LIBRARY_PATH": ""}]),
    ],
    verification: [
        *CALLS,
        dict(tolerance="0.5"),
        *(dict(data={**DATA, name: ("other",)}) for name in DATA),
        dict(data={**DATA, "exact": ("d2", "d1")}),
        dict(data={**DATA, "expected_random": ("d6",)}),
    ],
    measurement: [
        *CALLS,
        dict(data={"random": ("d4", "d3")}),
        dict(data={"random": ("d3",)}),
        dict(data={"given": ("d3", "d4")}),
        *(dict(protocol=PROTOCOLS[name]) for name in PROTOCOLS if name != "std"),
        *(dict(sets=sets) for sets in (2, 3)),
    ],
}


@pytest.mark.parametrize("action", BASES, ids=lambda action: action.__name__)
def test_each_ingredient_changes_the_key(action):
    base = action(**BASES[action])
    assert set(chain.from_iterable(CHANGES[action])) == set(BASES[action])
    assert base.key == action(**BASES[action]).key
    others = [action(**BASES[action] | change).key for change in CHANGES[action]]
    assert len({base.key, *others}) == 1 + len(others)


def test_version_of_the_verification_ladder_changes_its_key(monkeypatch):
    before = verification(**BASES[verification]).key
    monkeypatch.setattr(actions, "VERIFICATION", actions.VERIFICATION + 1)
    assert verification(**BASES[verification]).key != before


@pytest.mark.parametrize("action", [actions.inputs, actions.expectation])
def test_operation_source_and_library_versions_enter_the_keys_of_data(action, case_of, monkeypatch):
    operation = case_of().operation
    found = [
        action(operation).key,
        action(case_of(layout="nt").operation).key,
        action(case_of(dtype="f16").operation).key,
    ]
    monkeypatch.setattr(actions, "_versions", lambda: {"numpy": "0", "ml_dtypes": "0"})
    found.append(action(operation).key)
    monkeypatch.setattr(actions, "_versions", lambda: {"numpy": "0", "ml_dtypes": "1"})
    found.append(action(operation).key)
    monkeypatch.setattr(actions, "_sources", lambda *names: Digest("other"))
    found.append(action(operation).key)
    assert len(set(found)) == 6


def test_inputs_and_expected_results_have_keys_of_their_own(case_of):
    operation = case_of().operation
    assert actions.inputs(operation).key != actions.expectation(operation).key


def test_source_of_data_is_the_text_of_the_modules_that_make_it(case_of, monkeypatch):
    modules, found, read = actions._modules_of(type(case_of().operation).__module__), set(), Path.read_bytes
    names = ("matmul.py", "_base.py", "inputs.py", "reference.py", "types.py")
    for edited in ("none", *names):
        monkeypatch.setattr(Path, "read_bytes", lambda path, edited=edited: read(path) + b"#" * (path.name == edited))
        found.add(actions._sources.__wrapped__(*modules))
    assert len(found) == 1 + len(names)


def test_emit_key_is_of_the_text_alone(case_of):
    base = actions.emit(case_of(), NEWEST).key
    assert actions.emit(case_of(threads=1, target="vmvx"), NEWEST).key == base
    changes = [dict(layout="nt"), dict(dtype="f16"), dict(shape="4x5x7"), dict(tuning="double_tiling_64x64_4x16x4")]
    others = {actions.emit(case_of(**change), NEWEST).key for change in changes}
    assert len(others | {base}) == 1 + len(changes)


@dataclass(frozen=True, slots=True)
class Renamed(Default):
    family: ClassVar[str] = "renamed"


def test_threads_and_the_tuning_s_name_are_no_part_of_the_compile_key(case_of, resolver_of):
    case = case_of(threads=1)
    same = [
        case,
        case_of(threads=2),
        case_of(),
        Case(Dispatch(case.operation, Renamed()), case.target, 1),
    ]
    assert len({resolver_of().chain(c)["compile"].key for c in same}) == 1


def test_spec_file_and_tags_are_no_part_of_a_case(plan_of):
    one = '[[sweep]]\noperation = "matmul"\nm = 8\nn = 8\nk = 8\n'
    assert plan_of(one).cases == plan_of("# moved\n\n" + one + 'tags = "x"\n').cases


def test_tuning_that_is_flags_only_changes_the_compile_key_and_not_the_module(case_of, resolver_of):
    default, packed = (resolver_of().chain(case_of(tuning=word)) for word in ("default", "data_tiling"))
    assert default["emit"].key == packed["emit"].key
    assert default["compile"].key != packed["compile"].key


def test_cpu_enters_the_compile_key_where_code_is_made_for_it(case_of, resolver_of):
    from dispatchflow.iree.cpu_features import HostCpu

    other = [HostCpu("znver4", "+avx,+avx2,+fma"), HostCpu("znver3", "+avx")]
    for target, count in (("llvm-cpu", 3), ("vmvx", 1)):
        case = case_of(target=target)
        found = {
            resolver_of().chain(case)["compile"].key,
            *(resolver_of(host=h).chain(case)["compile"].key for h in other),
        }
        assert len(found) == count


def test_data_of_a_case_is_the_same_whatever_its_tuning(case_of, resolver_of):
    tunings = [tuning for family in TUNINGS.values() for tuning in family.expand({})]
    operation = case_of(k=8).operation  # a multiple of split_k's slices
    cases = [
        Case(Dispatch(operation, tuning), case_of().target, threads) for tuning, threads in product(tunings, (1, 2))
    ]
    assert (
        len(
            {
                (
                    resolver_of().supplies.inputs_action(case.operation).key,
                    resolver_of().supplies.expected_action(case.operation).key,
                )
                for case in cases
            }
        )
        == 1
    )


def test_contents_made_to_share_an_xxh3_digest_have_two():
    """Its secret is public: a lane whose low half equals the secret's adds nothing, whatever the high half is."""
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
