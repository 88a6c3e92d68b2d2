"""Make the inputs with which kernels for `attention` are verified."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dispatchflow.operations._random import bits, full, stream
from dispatchflow.operations._range import lowest, stride

if TYPE_CHECKING:
    from dispatchflow.mlir.types import ElementType
    from dispatchflow.operations.api import Array

# A score is the argument of an exponential: the product of query and key, times the scale, plus the mask.
_GAP = 128.0
"""If a score is this much below the query's largest score, the score's exponential underflows to 0."""

_STEP = 8.0
"""The magnitude of each term of a score in the recipe `balanced`: all terms are 8 or -8.

A term is the product of a query's element and a key's element, times the scale. A mask adds a term of -8 to each score.
All keys have equal scores. If a kernel leaves a term of -8 out of one key's score, this score rises by 8. The key then
gets most of the weight, even among hundreds of keys: exp(8) is 2981."""


class Shape(NamedTuple):
    """The sizes and options of an attention. The sizes are named as in `Attention.dims`."""

    b: int
    m: int
    n: int
    # The product of a query and a key is summed over k1. An index along k1 is called a place.
    k1: int
    k2: int
    power: int
    """The products of queries and keys are multiplied by the scale 2**-power."""
    masked: bool
    last: Array
    """The index of the last key that each query may see; k2 - 1 without a causal mask."""


def _split(shape: Shape, score: float) -> tuple[float, float]:
    """Return a query's element q and a key's element k, where q · k · 2**-`shape.power` is `score`.

    Both elements and `score` are powers of two."""
    exponent = shape.power + int(np.log2(score))
    return 2.0 ** (exponent - exponent // 2), 2.0 ** (exponent // 2)


# The inputs that this recipe and the following ones make for an element type are exact in this type.
def counted(shape: Shape, causal: bool, element: ElementType, some: bool) -> list[Array]:
    """Return inputs in which each query's weights are equal for some keys, and 0 for all other keys.

    `some` is for a shape with only one query. If `some` is true, this query gives weight to about 512 keys, not all."""
    # The exponentials of the equal scores are 1, and those of the other scores are 0. The sum of the exponentials is
    # then the count of keys with equal scores, and a result is the mean of these keys' values, nearly all integers. A
    # key that is lost, doubled or wrongly included changes the result by at least about 1 / count.
    #
    # Keys are 1 or -1 at each of `k1` places, times a power of two. Every fourth query, including the last, has equal
    # scores for all keys. Each other query has 1 or -1 at some places, and 0 elsewhere. The keys with the query's signs
    # at these places get equal scores: about 128 keys, or only a few keys for one of 16 queries. All keys have the same
    # number at the first place. It moves all scores of a query by 128 or -128, so that exponentials overflow or vanish
    # if the maximum is not subtracted. The scores of every eighth query, including the last, are moved by -2**20, or in
    # f16 by as much as the type's range allows. A maximum that begins with a larger number shows, and so do products
    # that overflow in f16 before they are scaled. With a causal mask, the query's own key and the next key have the
    # query's signs. A mask hides one of eight keys from each query except the last one; for the last query, `rising`
    # tests the mask.
    #
    # Values are 1 or -1. In every fourth column, or in the last of two or three, they are 1.5 or -1.5 plus a third of
    # the last digit of half a significand: 0101…01 in binary. With any smaller number of digits, all of these values
    # change in the same direction, and their mean changes.
    #
    # If the type is wider than f16, neighboring values have different signs, and one value of each other column is so
    # large that the column's mean is between 4 and 8. The mean then shows a lost key, even one that is lost only from
    # the sum of the weights. Some kernels first divide the weights by their sum, and then add up values times the
    # rounded 1 / count. With equal values, all roundings of such a sum would have the same direction and add up to
    # count · u, which can be more than the effect of a lost key. With alternating signs, the roundings of two neighbors
    # cancel.
    b, m, n, k1, k2, power, *_ = shape
    unit, step = 2.0 ** (power // 2), _GAP * 2.0 ** (power - power // 2)
    query, place, own = np.arange(m)[::-1, None] + 2 * some, np.arange(k1 - 1), k2 - m + np.arange(m)
    few, seen = min(max(k2.bit_length() - 2, 0), k1 - 1), 512 if some else 128
    usual = min(max(k2.bit_length() - seen.bit_length(), 1), few)
    places = np.where(query % 4 == 0, 0, np.where(query % 16 == 1, few, usual))
    asked = (place - query * few) % max(k1 - 1, 1) < places
    signs, keys = (np.where(bits(i, (b, size, k1)), 1.0, -1.0) for i, size in enumerate((m, k2)))
    q, k = signs * step, keys * unit
    low = min(2.0**20 / _GAP**2 * step, 2.0**15 if element.bits == 16 else np.inf)
    moved = np.where(query[:, 0] % 8 < 4, -step, step) / _GAP
    q[:, :, 0], k[:, :, 0] = np.where(query[:, 0] % 8 == 0, -low, moved), unit * _GAP
    q[:, :, 1:] *= asked
    for i in range(m) if causal else ():
        near = k[:, own[i] : own[i] + 2, 1:]
        near[:] = np.where(asked[i], q[:, i : i + 1, 1:] / step * unit, near)
    v = np.where(bits(2, (b, k2, n)), 1.0, -1.0)
    column, half = np.arange(n), element.digits // 2
    fine = column % 4 == (min(n - 1, 3) or -1)
    small = 2 ** (element.digits - half) // 3 * 2.0 ** (1 - element.digits)
    if element.bits > 16:
        v[:, 1::2] = -v[:, : k2 - 1 : 2]
        always_seen = k2 - m + 1 if causal else k2
        heavy = column[~fine] * stride(always_seen) % always_seen
        v[:, heavy, column[~fine]] = 2.0 ** (k2.bit_length() + 2)
    v[:, :, fine] = v[:, :, fine] * 1.5 + small
    if not shape.masked:
        return [q, k, v]
    hidden = bits(3, (b, m, k2), of=3)
    hidden[:, np.arange(m), own if causal else k2 - 1] = False
    hidden[:, -1] = False
    return [q, k, v, np.where(hidden, -(2.0**13), 0.0)]


def rising(shape: Shape, element: ElementType) -> list[Array]:
    """Return inputs in which the running maximum of a query's scores rises many times along the keys."""
    # When the largest score of a tile is larger than those of all earlier tiles, a kernel must rescale the sums of the
    # earlier tiles. The scores of up to about 1000 keys at random places rise from 0 to 2, the first ones faster. The
    # score of the last key is so high that its weight is about half of the sum, so that it matters even in a tile of
    # its own. Before each rise, the sums are already a visible part of the result, so that a wrong factor shows. The
    # scores of all other keys are -128.
    #
    # For some keys the mask is -4 and the product of query and key is larger by 4, so that their scores stay the same.
    # For one of eight keys (at least for one key, if there are three or more) the product is 2048, and a mask of -8192
    # hides the key. All queries have the same mask, because they have the same products with the keys.
    #
    # Values are 1 or -1. In every second column they are random; in the other columns the first keys have 1, and the
    # last ones have -1.
    b, m, n, k1, k2, *_ = shape
    x, column = np.arange(k2) / k2, np.arange(n)
    finest = 2.0 ** (4 - element.digits)
    climb = np.round((2 - 2 * (1 - x) ** 3) / finest) * finest
    rare = max(k2.bit_length() - 10, 0)
    scores = np.where(bits(4, (b, k2), rare), climb, -_GAP) if rare else np.tile(climb, (b, 1))
    scores[:, -1] = min(1 + k2.bit_length() * 11 / 16, 8)
    mask = np.zeros((b, k2))
    if shape.masked:
        mask = np.where(bits(5, (b, k2), 3), -(2.0**13), np.where(bits(6, (b, k2)), -4.0, 0.0))
        mask[:, k2 // 2] = -(2.0**13)
        mask[:, [0, -1]] = -4.0
        scores = np.where(mask < -4, 2048.0, scores - mask)
    q, k = np.zeros((b, m, k1)), np.zeros((b, k2, k1))
    of_query, of_key = _split(shape, _GAP)
    q[:, :, 0], k[:, :, 0] = of_query, of_key / _GAP * scores
    before = x[:, None] < (column // 2 + 1) * 0.618 % 1
    v = np.where(np.where(column % 2, bits(2, (b, k2, n)), before), 1.0, -1.0)
    return [q, k, v, np.repeat(mask[:, None], m, axis=1)] if shape.masked else [q, k, v]


def deviation(weights: Array, scores: Array) -> Array:
    """Return the standard deviation of each query's scores, weighted by the keys' `weights`."""
    apart = scores - (weights * scores).sum(axis=2, keepdims=True)
    found: Array = np.sqrt((weights * apart**2).sum(axis=2, keepdims=True))
    return found


def balanced(shape: Shape, turned: bool) -> list[Array]:
    """Return inputs in which, for each query, all keys have equal scores.

    A score is a sum of terms that are 8 or -8. All scores of a query have equally many terms of 8, in different
    random orders. If `turned` is true, the signs of all queries are reversed."""
    # If a kernel does not read one place of a key, only the score of this key rises or falls. If the score rises, the
    # key gets nearly all the weight. Queries alternate in sign, so that a score that falls for one query rises for the
    # next; `turned` swaps the signs of the queries. If the kernel does not read one place of a query, the scores from
    # which this place subtracts 8 rise above the others.
    #
    # A key's value in column j depends on the key's place j mod `k1`. It is 1 if this place adds 8 to the scores of the
    # first, third, … query (if `turned`, of the second, fourth, … query), and otherwise -1. All elements of a mask are
    # -8.
    b, m, n, k1, k2, *_ = shape
    of_query, of_key = _split(shape, _STEP)
    signs = np.where(bits(0, (b, 1, k1)), 1.0, -1.0)
    order = stream(1, 3, b * k2 * k1).reshape(b, k2, k1).argsort(axis=2).argsort(axis=2)
    agrees = np.where(order < k1 // 2, 1.0, -1.0)
    turns = 1.0 - 2.0 * ((np.arange(m) + turned) % 2)[:, None]
    q, k, v = signs * turns * of_query, signs * agrees * of_key, agrees[:, :, np.arange(n) % k1]
    return [q, k, v, np.full((b, m, k2), -_STEP)] if shape.masked else [q, k, v]


def highest(shape: Shape, element: ElementType) -> list[Array]:
    """Return inputs in which one or two keys of each query have scores 256 higher than all other keys."""
    # If a maximum leaves out such a key, its exponential overflows. It is the last key for the last query, and other
    # keys for other queries and in other elements of the batch. Some of the other keys have very low scores: the
    # product of query and key is negative, and a mask has the type's lowest number.
    #
    # Every second query gives equal weight to two neighboring keys. The values of one of them are four times smaller,
    # so that the mean of two values has more digits than the type of the results. A result that is truncated, not
    # rounded, is then wrong.
    b, m, n, k1, k2, *_ = shape
    others, step = max(k1 - 2, 1), stride(k2)
    place = np.where(np.arange(m) == m - 1, 0, 1 + np.arange(m) % others) % k1
    of_query, of_key = _split(shape, 256.0)
    q, k = np.zeros((b, m, k1)), np.zeros((b, k2, k1))
    v = full(stream(2, 3, b * k2 * n), element.digits).reshape(b, k2, n)
    q[:, np.arange(m), place] = of_query
    at = np.arange(others + 1)
    visible = np.where(at > 0, shape.last.min(), shape.last[-1 if k1 > 1 else 0])
    for batch in range(b):
        keys = np.minimum((k2 - 1 - (at + batch) * step) % k2, visible)
        k[batch, keys, at % k1] = of_key
        two = at[(at + batch) % 2 > 0]
        second = np.maximum(keys[two] - 1, 0)
        k[batch, second, two % k1] = of_key
        v[batch, np.unique(second)] /= 4
    low = ~k.any(axis=2) & (np.arange(k2) % 3 == 1)
    if k1 > 2:
        of_query, of_key = _split(shape, 2.0 ** (24 if element.bits > 16 else 11))
        q[:, :, -1], k[:, :, -1] = of_query, -of_key * low
    if not shape.masked:
        return [q, k, v]
    return [q, k, v, np.repeat(lowest(element) * low[:, None], m, axis=1)]


def tail(element: ElementType) -> float:
    """Return a small power of two that depends on the type: 2**-13 for f32, and 2**-6 for f16."""
    # This is just below the middle of the digits of 1.0, which are 2**0 to 2**-23 in f32.
    return 2.0 ** -(element.digits // 2 + 1)


def _spread(size: int) -> Array:
    """Return the indices 0 … size - 1 in a mixed order.

    For any n, the first n indices are spread over the whole range."""
    return np.arange(size) * stride(size) % size


def peaked(shape: Shape, element: ElementType) -> list[Array]:
    """Return inputs in which a query gives weight to one group of keys, or to all groups.

    A group is four neighboring keys."""
    # Every fourth query, counted from the last one, has all groups, and any other query has one. (With a single column
    # of values, the last query has one group.) The scores of the other groups are lower by 128 or more.
    #
    # The scores of a group's first two keys are equal only if all digits are read. Most places are in pairs. The
    # products at the two places of a pair have different signs, and are about equal; their sum depends on the last
    # digits of the query and of the keys. Every second query has one such pair, and the others, which include the last
    # one, have up to 32 smaller ones; the other places of a query are 0. All changes by last digits, also those of a
    # mask, have the same direction, and the product at another place cancels them. In the next element of the batch,
    # the places are rotated.
    #
    # If a query has one group, the scores of the group's last two keys are lower by 8, so that a wrong scale changes
    # the weights of these keys by much. If it has all groups, these scores are lower by 16 to 244 (in f16 by 28 to
    # 256), by another number in each group, so that an exponential shows that does not vanish there.
    #
    # The columns of the values alternate between three kinds. In the first kind all keys of a group have the same
    # number, which uses all digits of the type. In the second kind the first two keys have 1 and -1, and the last two
    # have 0. In the third kind the first two keys have 0, and the last two have 1024.
    b, m, n, k1, k2, *_ = shape
    key, group, groups, query = np.arange(k2), np.arange(k2) // 4, max(k2 // 4, 1), np.arange(m)[::-1] + (n == 1)
    seen = np.maximum((shape.last + 1) // 4, 1)
    target = (seen - 1 - query * stride(groups)) % seen
    low, sign = tail(element), 1.0 - 2.0 * (key % 2)
    bits_ = (groups - 1).bit_length()
    ignored = np.where(query % 4 == 0, bits_, 0)
    # If a causal mask hides the keys from `middle_key` on from a query, these keys get very high scores for this query.
    # They are so high that a mask of -30, in place of minus infinity, would not hide the keys.
    middle_key = (shape.last.min() + shape.last.max() + 1) // 2
    # f16 may flush exp(-16) to 0, but a result shows it; no result shows exp(-28).
    distance = np.round((16 if element.bits > 16 else 28) + 228 * (group * 0.618 % 1))
    pairs = max((k1 - bits_ - 4) // 2, 1)
    used = np.where(query % 2, 1, min(pairs, 32))
    share = 2.0 ** -np.ceil(np.log2(used))
    offset = used * share * (1 + 2 * low) + shape.masked / 2
    # for each place: (score that it adds, factor of the queries, factor of the keys)
    places: list[tuple[float, Array, Array]] = [
        (1.0, -offset, sign),
        (4.0, query % 4 > 0, 1.0 - 2.0 * (key // 2 % 2)),
        (1.0, query % 4 == 0, -distance * (key // 2 % 2)),
    ]
    for bit in range(bits_):
        code = 1.0 - 2.0 * (np.arange(groups + 1) >> bit & 1)
        asked = np.where(bit < ignored, 0.0, code[target])
        places.append((_GAP / 2, asked, code[np.minimum(group, groups - 1)]))
    places.append((_GAP * 16, shape.last < middle_key, key >= middle_key))
    q, k, order = np.zeros((m, k1)), np.zeros((k2, k1)), _spread(k1)
    pair = np.arange(pairs)
    chosen = np.where((pair - (query // 2 * used)[:, None]) % pairs < used[:, None], share[:, None], 0.0)
    middle = 1 / (4 * low)
    of_query, of_key = _split(shape, middle)
    for side, last, at in (1.0, 3 * low, order[:pairs]), (-1.0, low, order[pairs : 2 * pairs]):
        q[:, at], k[:, at] = chosen[:, : len(at)] * of_query * side * (1 + last), sign[:, None] * of_key * (1 + last)
    for place, (score, factor, key_factor) in zip(order[2 * pairs :], places, strict=False):
        of_query, of_key = _split(shape, score)
        q[:, place], k[:, place] = factor * of_query, key_factor * of_key
    turn = order[-2 * pairs % k1]  # the places that are in no pair here are in pairs in the next element of the batch
    q, k = (np.stack([np.roll(one, i * turn, axis=1) for i in range(b)]) for one in (q, k))
    digits = full(stream(2, 3, b * (groups + 1) * n), element.digits).reshape(b, groups + 1, n)[:, group]
    column, first = np.arange(n) % 3, (key % 4 < 2)[:, None]
    v = np.where(column == 0, digits, np.where(column == 1, first * sign[:, None], 1024.0 * ~first))
    if not shape.masked:
        return [q, k, v]
    here = target[:, None] >> ignored[:, None] == np.minimum(group, groups - 1) >> ignored[:, None]
    mask = np.where(here, (1 + low * (sign > 0)) / low, 0.0)
    return [q, k, v, np.broadcast_to(mask, (b, m, k2)).copy()]
